"""The package is built as docs/design.md says."""

import ast
import re
from pathlib import Path

import pytest

import jaxrank

pytestmark = pytest.mark.once

ROOT = Path(jaxrank.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"


def rooms():
    table = re.findall(r"^\| `(\w+)` \| [^|]* \|([^|]*)\|$", (DOCS / "design.md").read_text(), re.MULTILINE)
    return {room: set(allowed.replace(",", " ").split()) for room, allowed in table}


def imports_of(path):
    """First-level rooms of the package that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "jaxrank":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jaxrank."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("jaxrank."))


def test_imports_keep_the_table_of_rooms():
    table = rooms()
    found = {
        p.stem if p.is_file() else p.name for p in ROOT.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert found - {"__init__"} == set(table), "docs/design.md lists another set of rooms"
    for room, allowed in table.items():
        if room == "cli":
            continue
        paths = [ROOT / f"{room}.py"] if (ROOT / f"{room}.py").exists() else sorted((ROOT / room).glob("*.py"))
        for path in paths:
            used = set(imports_of(path)) - {room}
            assert used <= allowed, f"{path.name} imports {used - allowed}"


def test_commands_and_experiments_use_public_names_only():
    """What they import from the package is `jaxrank` itself, or, for commands, another file of theirs."""
    for folder, own in ((ROOT / "cli", "cli"), (Path(__file__).parents[2] / "experiments", None)):
        for path in folder.rglob("*.py"):
            used = set(imports_of(path)) - {own, "__version__"}
            assert used <= set(jaxrank.__all__), f"{path.name} imports {used - set(jaxrank.__all__)}"


def test_algorithms_do_not_import_each_other():
    """What several share stands in a private file."""
    for path in (ROOT / "algorithms").glob("*.py"):
        if path.stem != "__init__":
            modules = [node.module or "" for node in ast.walk(ast.parse(path.read_text())) if hasattr(node, "module")]
            assert not [m for m in modules if re.fullmatch(r"jaxrank\.algorithms(\.[^_].*)?", m)], path.name


def test_the_package_configures_nothing_and_calls_no_host():
    """`keep_compiled_programs` sets where JAX keeps compiled programs, when somebody calls it."""
    for path in ROOT.rglob("*.py"):
        if path.stem == "compilation_cache":
            continue
        text = path.read_text()
        for word in ("jax.config.update", "pure_callback", "io_callback", "jax.debug"):
            assert word not in text, f"{path.name} has {word}"


def test_every_public_name_is_in_the_reference_and_loads():
    reference = (DOCS / "reference.md").read_text()
    for name in jaxrank.__all__:
        assert getattr(jaxrank, name) is not None
        assert re.search(rf"`(jaxrank\.)?{name}\b", reference), f"{name} is not in docs/reference.md"
    assert set(jaxrank.__all__) <= set(dir(jaxrank))

"""Every public callable says what it takes and returns, with an example that runs; the reference is made from that."""

import ast
import dataclasses
import doctest
import functools
import inspect
import re
import statistics
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

pytestmark = pytest.mark.once

DOCS = Path(__file__).parents[2] / "docs"
PACKAGE = Path(jr.__file__).parent
sys.path.insert(0, str(DOCS))
import make_reference  # noqa: E402

PUBLIC = {name: thing for _, name, thing in make_reference.public()}


def own_methods(cls):
    """Public functions that the class itself defines."""
    for name, value in vars(cls).items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        function = function.fget if isinstance(function, property) else function
        if not name.startswith("_") and inspect.isfunction(function):
            yield f"{cls.__name__}.{name}", function


def sections(text):
    """Names listed under Args or Attributes, and the titles of all sections."""
    parts = re.split(r"^(Args|Attributes|Returns|Raises|Example):\n", text, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    listed = found.get("Args", "") + found.get("Attributes", "")
    names = [name for line in re.findall(r"^  (\*{0,2}\w[\w, ]*):", listed, re.MULTILINE) for name in line.split(", ")]
    return [name.lstrip("*") for name in names], set(found)


def is_protocol(thing):
    return getattr(thing, "_is_protocol", False)


@pytest.mark.parametrize("name", PUBLIC)
def test_arguments_are_annotated_and_explained(name):
    thing = PUBLIC[name]
    callables = list(own_methods(thing)) if inspect.isclass(thing) else [(name, thing)]
    for label, function in callables:
        parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
        assert all(p.annotation is not inspect.Parameter.empty for p in parameters), label
        assert inspect.signature(function).return_annotation is not inspect.Signature.empty, label
        assert inspect.getdoc(function), label
    names, titles = sections(inspect.getdoc(thing))
    assert "Example" in titles
    if is_protocol(thing):
        return
    if dataclasses.is_dataclass(thing):
        fields = {field.name for field in dataclasses.fields(thing) if field.init}
        hidden = {field.name for field in dataclasses.fields(thing) if not field.init}
        assert fields <= set(names) | hidden, name
    else:
        assert set(inspect.signature(thing).parameters) <= set(names), name
    if not inspect.isclass(thing):
        assert "Returns" in titles


def examples(path):
    """Every docstring of a file that has an example: its place and its text."""

    def walk(node, place):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ">>>" in (ast.get_docstring(node) or ""):
            yield ".".join(place) or path.stem, ast.get_docstring(node)
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.ClassDef | ast.FunctionDef)
            yield from walk(child, [*place, child.name] if named else place)

    return dict(walk(ast.parse(path.read_text()), []))


FILES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py")) if examples(path)}


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_examples_run(file, request):
    """All of them, whoever inherits, wraps or exports what they belong to."""
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        for place, text in examples(FILES[file]).items():
            names = {"jr": jr, "jax": jax, "jnp": jnp, "np": np, "getfixture": request.getfixturevalue}
            case, lines = doctest.DocTestParser().get_doctest(text, names, place, file, 0), []
            assert case.examples
            runner.run(case, out=lines.append)
            assert not lines, "".join(lines)


def test_docstrings_are_not_one_liners():
    assert statistics.median(len(inspect.getdoc(thing).splitlines()) for thing in PUBLIC.values()) >= 8


def test_every_public_method_has_its_place():
    """In the reference, under its class or under the public base that it is from."""
    page, missing = make_reference.PAGE.read_text(), []
    for name, cls in PUBLIC.items():
        if not inspect.isclass(cls):
            continue
        names = {base: label for label, base in PUBLIC.items() if base in cls.__mro__}
        for method in dir(cls):
            owners = [base for base in cls.__mro__ if method in vars(base)]
            value = inspect.getattr_static(cls, method)
            is_method = isinstance(value, classmethod | staticmethod | property | functools.cached_property)
            ours = owners and owners[0].__module__.startswith("jaxrank.")
            if method.startswith("_") or not ours or not (is_method or inspect.isfunction(value)):
                continue
            places = [names[base] for base in names if method in vars(base)] + [name]
            if not any(re.search(rf"^#### `{re.escape(place)}\.{method}\b", page, re.MULTILINE) for place in places):
                missing.append(f"{name}.{method}")
    assert missing == []


def test_the_reference_is_made_from_the_docstrings():
    assert make_reference.page() == make_reference.PAGE.read_text(), "run: python docs/make_reference.py"

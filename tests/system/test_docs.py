"""The code of the README and the docs runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
PAGES = [
    path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if "```python" in path.read_text()
]


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_code_blocks_run(path):
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-W", "error", "-c", "\n".join(blocks)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_links_between_pages_exist():
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_two_commands_stand_on_top_of_the_readme():
    commands = re.findall(r"```sh\n(.*?)\n```", (ROOT / "README.md").read_text())
    assert commands[:2] == ['pip install ".[cli]" && jaxrank simulate', 'pip install ".[test]" && pytest']

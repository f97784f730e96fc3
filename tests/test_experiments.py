"""Every experiment runs at a smoke size."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.once

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


def test_bounds(tmp_path):
    command = [sys.executable, str(EXPERIMENTS / "bounds.py"), "--out", str(tmp_path)]
    done = subprocess.run([*command, "--quick"], check=True, capture_output=True, text=True)
    assert "2 of 2 instances" in done.stdout
    data = json.loads((tmp_path / "bounds.json").read_text())
    for row in data["instances"]:
        assert row["theorem_3"] < row["sharp_lower_bound"] < np.mean(row["samples"]) < row["upper_bound"]
    (tmp_path / "bounds.png").unlink()
    again = subprocess.run([*command, "--redraw"], check=True, capture_output=True, text=True)
    assert again.stdout.splitlines()[-1] == done.stdout.splitlines()[-1]
    assert (tmp_path / "bounds.png").stat().st_size > 10_000

"""Every benchmark runs at a smoke size, and without its peers if they are not installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.once, pytest.mark.slow]

BENCHMARKS = Path(__file__).parents[2] / "experiments" / "benchmarks"


@pytest.mark.parametrize("script", ["engine.py", "scaling.py", "btl.py", "evidence.py"])
def test_the_benchmarks_run(script, tmp_path):
    path = BENCHMARKS / script
    if script == "scaling.py" and (shutil.which("taskset") is None or len(os.sched_getaffinity(0)) < 2):
        pytest.skip("pins processes to two cores")
    subprocess.run([sys.executable, str(path), "--quick", "--repeats", "1", "--out", str(tmp_path)], check=True)
    data = json.loads((tmp_path / path.with_suffix(".json").name).read_text())
    if script == "engine.py":
        assert all(rows["jaxrank"]["us_per_round"] > 0 for rows in data["cases"].values())
        assert (tmp_path / "engine.png").stat().st_size > 10_000
    elif script == "evidence.py":
        for rows in data["cases"].values():
            assert rows["LUCBRank"]["ratio"] == 1
            assert rows["EvidenceRank"]["ns_per_sample"] > 0
    elif script == "btl.py":
        assert all(rows["jaxrank"]["accurate"] for rows in data["cases"].values())
        assert (tmp_path / "btl.png").stat().st_size > 10_000
    else:
        assert data["cores"]["speedup"]["one core"] == 1
        assert data["memory"]["peak_mib"] > 0

"""The scripts in examples/ run as they stand, and say what they promise."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

SECONDS = 300  # a hang, not a speed limit: machines may be busy


def run(name: str) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "error", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | own, timeout=SECONDS)


def test_every_script_is_run_here() -> None:
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert scripts == {"closed_loop", "controller_nnet", "onnx_user", "polynomial_researcher", "pytorch_user"}


def test_controller() -> None:
    done = run("controller_nnet")
    assert (done.returncode, done.stderr) == (0, "")
    brackets = [tuple(map(float, pair)) for pair in re.findall(r"\[([\d.]+), ([\d.]+)\]", done.stdout)]
    assert len(brackets) == 3
    assert all(0 < lower <= upper for lower, upper in brackets)
    assert max(upper for _, upper in brackets[1:]) <= brackets[0][1]  # parts of the envelope are not steeper
    assert done.stdout.count("the force moves by at most") == 3


def test_closed_loop() -> None:
    done = run("closed_loop")
    assert (done.returncode, done.stderr) == (0, "")
    plain, weighted = (float(upper) for upper in re.findall(r"constant in \[[\d.]+, ([\d.]+)\]", done.stdout))
    assert weighted < 1 < plain  # the weights decide it
    assert "the loop contracts there" in done.stdout
    assert "check without a solver: True" in done.stdout
    radius, proved, beyond = (float(r) for r in re.findall(r"(?:radius|; at) ([\d.]+\d)", done.stdout)[1:])
    assert 0.1 < radius < 0.15
    assert 0.1 <= proved < beyond <= 1.02 * proved


def test_onnx() -> None:
    pytest.importorskip("onnx")
    done = run("onnx_user")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Network(64-144-16-3, relu)" in done.stdout
    assert "without a solver: proved True" in done.stdout


def test_polynomial() -> None:
    done = run("polynomial_researcher")
    assert (done.returncode, done.stderr) == (0, "")
    rows = re.findall(r"(-?[\d.]+) <= minimum <= (-?[\d.]+)", done.stdout)
    assert len(rows) == 3
    assert all(float(bound) <= float(found) + 1e-6 for bound, found in rows)
    assert float(rows[2][0]) > float(rows[1][0]) + 0.1  # the constraint that fits no clique is worth a lot


def test_torch() -> None:
    done = run("pytorch_user")
    if importlib.util.find_spec("torch") is None:
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "this example needs torch, which is not installed: pip install torch\n"
        return
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("constant of score 0 - score 1 between") == 2

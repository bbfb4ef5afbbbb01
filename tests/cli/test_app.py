"""The command line as a person meets it: results on stdout, one line of error on stderr, exit codes."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import click
import numpy as np
import pytest

import lipcert
from lipcert import Everywhere, InputError, Network, Progress, bound
from lipcert.cli import bound as bound_module
from lipcert.cli.app import COMMANDS, cli, run
from lipcert.cli.demo import digits
from lipcert.cli.live import ProgressDisplay
from lipcert.cli.signals import terminate_like_ctrl_c
from lipcert.files.boundary import located
from lipcert.solver import Progress as Iteration
from tests.conftest import ROOT
from tests.counting import Clock
from tests.problems import net_of


@pytest.fixture
def net_file(tmp_path: Path) -> str:
    path = tmp_path / "net.npz"
    digits()[0].save(path)
    return str(path)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_bound_json(net_file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lipcert.cli.live._QUIET_SECONDS", 600.0)  # silence is promised to a fast machine only
    code, out, err = call(
        capsys, "bound", net_file, "--center", "0.5", "--radius", "0.1", "--versus", "7", "3", "--work", "2", "--json"
    )
    data = json.loads(out)
    assert code == 0
    assert "Traceback" not in err  # progress may speak there, nothing else
    assert data["lower"] <= data["upper"]
    assert data["region"] == {"type": "box", "lo": pytest.approx(0.4), "hi": pytest.approx(0.6), "radius": 0.1}
    assert data["region"]["lo"] < 0.4  # 0.5 - 0.1 is not a float: rounded outward
    assert data["network"]["shape"] == [64, 32, 10]


def test_the_same_work_gives_the_same_answer(net_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All of the JSON but the seconds it took."""
    ask = ["bound", net_file, "--center", "0.5", "--radius", "0.1", "--versus", "7", "3", "--work", "1", "--json"]
    first, second = (json.loads(call(capsys, *ask)[1]) for _ in range(2))
    assert first.pop("seconds") > 0
    assert second.pop("seconds") > 0
    assert first == second
    assert 0 < first["lower"] <= first["upper"]


def test_bound_table(net_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "center.npy", np.full((8, 8), 0.25))
    arguments = ["--center", str(tmp_path / "center.npy"), "--radius", "0.1", "--clip", "0", "1", "--output", "3"]
    code, out, _ = call(capsys, "bound", net_file, *arguments, "--work", "2")
    assert code == 0
    for word in ("upper", "proved", "lower", "attained", "gap", "64-32-10", "score 3"):
        assert word in out


def test_bound_global_without_lower(net_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "bound", net_file, "--global", "--output", "0", "--no-lower", "--method", "product")
    assert code == 0
    assert "whole input space" in out
    assert "attained" not in out


def test_not_certified_exits_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    big = Network.from_weights([np.full((2, 2), 1e300), np.full((2, 2), 1e300), np.full((1, 2), 1e300)])
    big.save(tmp_path / "big.npz")
    code, out, _ = call(capsys, "bound", str(tmp_path / "big.npz"), "--radius", "1", "--no-lower", "--json")
    assert code == 1
    assert json.loads(out)["upper"] is None


def test_info(net_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "info", net_file)
    assert code == 0
    assert "sha256" in out
    code, out, _ = call(capsys, "info", net_file, "--json")
    assert json.loads(out)["layers"][0]["activation"] == "relu"


def test_demo(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "demo")
    assert code == 0
    assert "kept" in out
    code, out, _ = call(capsys, "demo", "--json")
    rows = json.loads(out)["rows"]
    assert json.loads(out)["verified"] == len(rows)
    assert {"tight", "tree", "signs"} & {r["method"] for r in rows}
    assert all(0 < r["lower"] <= r["upper"] for r in rows)


def test_help_imports_no_command_and_says_what_each_says() -> None:
    """Loading scipy to print a list of commands is what makes a command line feel slow."""
    code = "import sys; from lipcert.cli.app import run; run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stderr.split()
    assert not {"numpy", "scipy", "lipcert.cli.bound"} & {*loaded}
    for name, short in COMMANDS.items():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert command.name == name
        assert command.get_short_help_str(80) == short
        assert name in done.stdout
    assert cli.list_commands(click.Context(cli)) == sorted(COMMANDS)
    modules = {path.stem for path in (Path(lipcert.__file__).parent / "cli").glob("*.py")}
    assert {*COMMANDS} <= modules


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version")[1].startswith("lipcert ")
    code, out, _ = call(capsys, "bound", "--help")
    assert code == 0
    assert "--radius" in out
    assert call(capsys)[0] == 2


BAD = [
    (["bound", "missing.npz", "--radius", "1"], "missing.npz: no such file"),
    (["bound", "NET.txt", "--radius", "1"], "extension"),
    (["bound", "NET", "--radius", "1"], "10 outputs; give --output K, --versus I J or --output all"),
    (["bound", "NET", "--output", "3"], "--radius"),
    (["bound", "NET", "--radius", "-1", "--output", "3"], "radius"),
    (["bound", "NET", "--radius", "nan", "--output", "3"], "radius"),
    (["bound", "NET", "--radius", "inf", "--output", "3"], "radius"),
    (["bound", "NET", "--radius", "wide", "--output", "3"], "--radius"),
    (["bound", "NET", "--radius", "1", "--global", "--output", "3"], "--radius and --global exclude each other"),
    (["bound", "NET", "--center", "1", "--global", "--output", "3"], "--center and --global"),
    (["bound", "NET", "--clip", "0", "1", "--global", "--output", "3"], "--clip and --global"),
    (["bound", "NET", "--radius", "1", "--output", "10"], "label 10 is out of range"),
    (["bound", "NET", "--radius", "1", "--output", "-1"], "label -1 is out of range"),
    (["bound", "NET", "--radius", "1", "--versus", "3", "3"], "must differ"),
    (["bound", "NET", "--radius", "1", "--versus", "3"], "--versus"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--versus", "3", "4"], "exclude each other"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--method", "magic"], "auto, product, interval"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--norm", "3"], "norm 3"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--time-limit", "0"], "--time-limit must be"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--work", "0"], "work must be a positive number"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--work", "nan"], "work must be a positive number"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--work", "x"], "'x' is not a valid float"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--seed", "-4"], "seed"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--clip", "1", "0"], "clip"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--center", "nan"], "center must be finite"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--center", "nowhere.npy"], "nowhere.npy: no such file"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--center", "SHORT"], "3 numbers, the network has 64 inputs"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--center", "PICKLE"], "real numbers are needed"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--center", "INF"], "not finite"),
    (
        ["bound", "NET", "--radius", "1", "--output", "3", "--center", "NET"],
        "is read from .npy, .csv, .txt or .mat files",
    ),
    (["bound", "CORRUPT", "--radius", "1"], "CORRUPT.npz"),
    (["bound", "FOLDER", "--radius", "1"], "not a file"),
    (["bound", "NET", "--normalize", "--radius", "1"], "--normalize applies to .nnet files only"),
    (["bound", "NET", "--onnx-output", "y", "--radius", "1"], "--onnx-output applies to .onnx files only"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--solver", "magic"], "auto, rank-two, low-rank"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--method", "interval", "--literal"], "no literal form"),
    (["pop", "missing.pop"], "no such file"),
    (["pop", "DISK", "--to", "disk.txt"], ".dat-s"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--certificate", "proof.txt"], ".npz"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--certificate", "nowhere/p.npz"], "no such folder"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--certificate", "FOLDER"], "cannot write there"),
    (["export", "NET", "--radius", "1", "--output", "3", "--to", "problem.txt"], ".dat-s"),
    (["export", "NET", "--radius", "1", "--output", "3", "--to", "nowhere/p.dat-s"], "no such folder"),
    (["export", "NET", "--radius", "1", "--output", "3", "--to", "p.dat-s", "--method", "auto"], "shor, hr2"),
    (["export", "NET", "--radius", "1", "--output", "3"], "--to"),
    (["verify", "NET"], "--network"),
    (["verify", "NET", "--network", "NET"], "a network, not a certificate"),
    (["verify", "missing.npz", "--network", "NET"], "no such file"),
    (["bound", "NET", "--center", "FIVE", "--radius", "1", "--output", "3"], "it is a batch of 5: give one of them"),
    (["verify", "nojob"], "nojob: no such file or folder"),
    (["verify", "x" * 300], "no such file or folder"),
    (["verify", "NET.txt", "--network", "NET"], ".npz"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--method", "mip"], "benchmarks/mixed_integer.py"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--certificate", "/proc/p.npz"], "--certificate /proc/p.npz: "),
    (["bound", "NET", "--radius", "1", "--output", "3", "--center", ""], "--center is empty"),
    (["bound", "", "--radius", "1"], "a name without extension"),
    (
        ["bound", "NET", "--radius", "0,1", "--output", "3"],
        "--radius 0,1: the radius has 2 numbers, the network has 64",
    ),
    (["bound", "NET", "--radius", "0.1,-1", "--output", "3"], "the radius must be finite and >= 0"),
    (["bound", "NET", "--radius", "", "--output", "3"], "give a number"),
    (["bound", "NET", "--radius", "SHORT", "--output", "3"], "the radius has 3 numbers, the network has 64 inputs"),
    (["bound", "NET", "--radius", "0.1,0.2", "--ball", "--output", "3"], "a ball has one radius"),
    (["bound", "NET", "--radius", "SHORT", "--ball", "--output", "3"], "a ball has one radius"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--center", "0.1,0.2"], "the center has 2 numbers"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--center", "0.1,nan"], "center must be finite"),
    (["verify", "missing.npz", "--network", "NET", "--label-column", "y"], "are for a folder"),
    (["bound", "NET", "--radius", "1", "--versus", "3,4"], "--versus"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--json", "out.json"], "out.json"),
    (["bound"], "NETWORK"),
    (["bund", "NET"], "No such command 'bund'; did you mean 'bound'?"),
    (["BOUND", "NET"], "did you mean 'bound'?"),
    (["fly", "NET"], "No such command 'fly' (see"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--center", "1 2 3"], "with commas between (1,2,3)"),
    (
        ["bound", "NET", "--radius", "1", "--output", "3", "--center", "[1,2,3]"],
        "--center [1,2,3]: no such file; give a",
    ),
    (["bound", "NET", "--radius", "1", "--output", "3", "--center", "x" * 300], "no such file"),
    (
        ["bound", "NET", "--radius", "1", "--output", "3", "--center", "NAMED"],
        "line 1, column 1: 'a' is no number; give",
    ),
    (["bound", "NET", "--radius", "1", "--output", "3", "--solver", "scs"], "--solver scs needs --literal in bound"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--clip", "2", "-1"], "lipcert: --clip 2 -1: give two finite"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--workers", "0"], "--workers must be a whole number"),
    (["bound", "NET", "--radius", "1", "--output", "3", "--workers", "99999"], "--workers 99999: memory of "),
    (
        ["cells", "NET", "--radius", "1", "--output", "3", "--adaptive"],
        "needs a goal; give --gap G, --target T or --larg",
    ),
    (["cells", "NET", "--radius", "1", "--output", "3", "--cells", "9"], "ask for fewer or raise --max-cells"),
    (["cells", "NET", "--output", "3", "--cells", "9"], "give --radius R (a box around --center) or --vnnlib FILE\n"),
    (["cells", "NET", "--radius", "1", "--output", "3", "--cells", "1", "--resume"], "--resume needs --out DIR"),
    (["jacobian", "NET", "--radius", "1", "--resume"], "--resume needs --out DIR"),
    (["pop", "DISK", "--to", "disk.txt"], "or .pop"),
    (["pop", "DISK", "--time-limit", "0"], "--time-limit must be"),
    (["report", "NET"], "a file, not a folder"),
    (["bound", "NET", "--radios", "1"], "--radios"),
    (["info", "EMPTY"], "empty"),
]


def test_centers_and_radii_as_typed_and_in_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One number, one for each input, and files of them say the same."""
    rng = np.random.default_rng(0)
    Network.from_weights([rng.normal(size=(5, 3)), rng.normal(size=(1, 5))], [rng.normal(size=5), np.zeros(1)]).save(
        tmp_path / "net.npz"
    )
    np.save(tmp_path / "c.npy", [0.1, 0.2, -0.3])
    (tmp_path / "c.csv").write_text("0.1,0.2,-0.3\n")
    (tmp_path / "r.txt").write_text("0.1\n0.2\n0.4\n")
    typed = (["-0.1,0.2,-0.3", "0.5"], ["0.1,0.2,-0.3", "0.1,0.2,0.4"], [str(tmp_path / "c.npy"), "0.1,0.2,0.4"])
    found = []
    for center, radius in (*typed, [str(tmp_path / "c.csv"), str(tmp_path / "r.txt")]):
        ask = ["bound", str(tmp_path / "net.npz"), "--center", center, "--radius", radius, "--method", "interval"]
        code, out, _ = call(capsys, *ask, "--no-lower", "--json")
        assert code == 0
        found.append(json.loads(out)["region"])
    assert (found[0]["lo"], found[0]["radius"]) == (pytest.approx([-0.6, -0.3, -0.8]), 0.5)
    assert found[1]["radius"] == [0.1, 0.2, 0.4]
    assert found[1]["lo"] == pytest.approx([0.0, 0.0, -0.7])
    assert found[1] == found[2] == found[3]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(a[:1] + a[2:]) + m[:12] for a, m in BAD])
def test_bad_input(
    arguments: list[str], message: str, tmp_path: Path, net_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "short.npy", np.ones(3))
    np.save(tmp_path / "inf.npy", np.full(64, np.inf))
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "NET.txt").write_text("hello")
    (tmp_path / "CORRUPT.npz").write_bytes(Path(net_file).read_bytes()[:3000])
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "named.csv").write_text("a,b\n1,2\n")
    np.save(tmp_path / "five.npy", np.zeros((5, 64)))
    names = {
        "FIVE": "five.npy",
        "NET": net_file,
        "NET.txt": "NET.txt",
        "SHORT": "short.npy",
        "PICKLE": "pickle.npy",
        "INF": "inf.npy",
    }
    names |= {"DISK": str(ROOT / "examples" / "disk.pop")}
    names |= {"CORRUPT": "CORRUPT.npz", "EMPTY": "empty.npz", "FOLDER": "folder.npz", "NAMED": "named.csv"}
    before = sorted(tmp_path.iterdir())
    code, out, err = call(capsys, *[str(tmp_path / names[a]) if a in names else a for a in arguments])
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("lipcert: ")
    assert message in err
    assert "Traceback" not in err
    assert sorted(tmp_path.iterdir()) == before


def test_methods_in_any_case(net_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As norms are."""
    code, out, _ = call(
        capsys, "bound", net_file, "--radius", "0.1", "--output", "3", "--method", "Product", "--no-lower", "--json"
    )
    assert code == 0
    assert json.loads(out)["method"] == "product"
    with pytest.raises(InputError, match="unknown method 3"):
        bound(net_file, Everywhere(), output=3, method=3)  # type: ignore[arg-type]


def test_help_has_no_option_that_is_always_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for command, absent in (("cells", ("--ball", "--global")), ("loop", ("--output", "--versus", "--output-norm"))):
        words = call(capsys, command, "--help")[1].split()
        assert "--radius" in words
        assert not set(absent) & set(words)


def test_keywords_in_python_and_options_on_the_command_line() -> None:
    error = InputError.about("time_limit", "must be positive")
    assert (str(error), error.typed) == ("time_limit must be positive", "--time-limit must be positive")
    again = pickle.loads(pickle.dumps(error))  # as from a worker's process
    assert (str(again), again.typed) == (str(error), error.typed)
    with pytest.raises(InputError) as caught, located("x.csv"):
        raise error
    assert (str(caught.value), caught.value.typed) == (f"x.csv: {error}", f"x.csv: {error.typed}")
    assert InputError("as it is").typed == "as it is"


def test_unexpected_errors_are_one_line(
    net_file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(bound_module, "bound", broken)
    code, _, err = call(capsys, "bound", net_file, "--radius", "1", "--output", "1")
    assert code == 3
    assert "internal error (RuntimeError: boom)" in err
    monkeypatch.setenv("LIPCERT_DEBUG", "1")
    with pytest.raises(RuntimeError, match="boom"):
        run(["bound", net_file, "--radius", "1", "--output", "1"])


@pytest.mark.parametrize(("error", "expected"), [(KeyboardInterrupt, 130), (MemoryError, 2)])
def test_interrupt_and_memory(
    error: type[BaseException],
    expected: int,
    net_file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(bound_module, "bound", broken)
    code, _, err = call(capsys, "bound", net_file, "--radius", "1", "--output", "1")
    assert code == expected
    assert err.strip().count("\n") == 0


class Watched(ProgressDisplay):
    """Its line is due when there is progress to tell, and the test knows when it had its chance."""

    def __init__(self, verbose: bool = False) -> None:
        super().__init__(verbose)
        self.due, self.over = threading.Event(), threading.Event()

    def _say(self) -> None:
        self.due.wait()
        super()._say()
        self.over.set()


def show(progress: Progress, verbose: bool = False) -> None:
    """Until the quiet seconds are over and the line was asked for."""
    with Watched(verbose) as display:
        display.update(progress)
        display.due.set()
        assert display.over.wait(120)


def test_progress_speaks_after_the_quiet_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lipcert.cli.live._QUIET_SECONDS", 0.0)
    show(Progress(0.0, 1.5, 2.5, "interval"))
    err = capsys.readouterr().err
    assert "lower 1.5" in err
    assert "upper 2.5" in err


def test_verbose_rows_and_the_line_take_turns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no solver iterates, as in the search for a lower bound, the line says how far the work is."""
    monkeypatch.setattr("lipcert.cli.live._QUIET_SECONDS", 0.0)
    show(Progress(0.0, 1.5, 2.5, "lower bound"), verbose=True)
    assert "lower bound" in capsys.readouterr().err
    iteration = Iteration(3, 0.1, 1.0, 2.0, 1e-3, 1e-3, 1e-2, np.zeros(1))
    show(Progress(0.0, 1.5, 2.5, "hr2", iteration), verbose=True)
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["it", "3"]


def test_certificate_is_written_and_verified(
    net_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lipcert.cli.live._QUIET_SECONDS", 600.0)  # rows alone, also on a slow machine
    proof = str(tmp_path / "proof.npz")
    ask = ["--center", "0.5", "--radius", "0.05", "--versus", "7", "3", "--no-lower", "--json"]
    code, out, err = call(capsys, "bound", net_file, *ask, "--method", "hr2", "--certificate", proof, "-v")
    found = json.loads(out)
    assert code == 0
    assert found["method"] == "hr2"
    rows = err.splitlines()
    assert rows[0].split()[:3] == ["it", "seconds", "primal"]
    assert len(rows) > 5
    code, out, _ = call(capsys, "verify", proof, "--network", net_file, "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["proved"] is True
    assert answer["upper"] == pytest.approx(found["upper"], rel=1e-12)
    code, out, _ = call(capsys, "verify", proof, "--network", net_file)
    assert "proved" in out
    digits()[0].__class__.from_weights([np.ones((32, 64)), np.ones((10, 32))]).save(tmp_path / "other.npz")
    code, out, _ = call(capsys, "verify", proof, "--network", str(tmp_path / "other.npz"))
    assert code == 1
    assert "another network" in out


def test_verify_says_which_output(net_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file whose output was exchanged proves another statement: the reader must be able to see which."""
    proof = str(tmp_path / "proof.npz")
    asked: list[tuple[list[str], dict[str, object], str]] = [
        (["--output", "4"], {"label": 4}, "score 4"),
        (["--versus", "7", "3"], {"versus": [7, 3]}, "score 7 - score 3"),
    ]
    for options, description, words in asked:
        ask = ["--radius", "0.05", *options, "--no-lower", "--work", "0.3"]
        call(capsys, "bound", net_file, *ask, "--certificate", proof)
        assert json.loads(call(capsys, "verify", proof, "--network", net_file, "--json")[1])["output"] == description
        assert words in call(capsys, "verify", proof, "--network", net_file)[1]
    net = digits()[0]
    bound(net, Everywhere(), output=np.full(10, 0.5), method="product", lower=False).certificate.save(proof)
    assert "weighted scores" in call(capsys, "verify", proof, "--network", net_file)[1]


def test_a_failing_write_comes_after_the_bracket(
    net_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise InputError("proof.npz: cannot write there (No space left on device)")

    monkeypatch.setattr("lipcert.proof.certificate.write_npz", full)
    ask = ["--radius", "0.05", "--output", "1", "--no-lower", "--method", "interval", "--json"]
    code, out, err = call(capsys, "bound", net_file, *ask, "--certificate", str(tmp_path / "proof.npz"))
    assert code == 2
    assert json.loads(out)["certified"] is True
    assert "No space left" in err


def test_no_certificate_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Network.from_weights([np.full((2, 2), 1e300), np.full((1, 2), 1e300)]).save(tmp_path / "big.npz")
    proof = tmp_path / "proof.npz"
    ask = ["--radius", "1", "--no-lower", "--certificate", str(proof)]
    code, out, _ = call(capsys, "bound", str(tmp_path / "big.npz"), *ask)
    assert code == 1
    assert "nothing was proved" in out
    assert not proof.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(net_file: str) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "lipcert", "info", net_file], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 2
    assert ended.stderr == "lipcert: cannot write the result (No space left on device)\n"


def test_a_reader_who_leaves_is_no_failure(net_file: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "lipcert", "info", net_file], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_closed_streams_are_no_failure(stream: str, net_file: str) -> None:
    closing = f"import os; os.close({1 if stream == 'stdout' else 2}); os.execv({sys.executable!r}, "
    started = f"[{sys.executable!r}, '-m', 'lipcert', 'info', {net_file!r}])"
    ended = subprocess.run([sys.executable, "-c", closing + started], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ("sha256" in ended.stdout) == (stream == "stderr")


def test_help_to_a_reader_who_leaves_is_no_failure() -> None:
    """Text that click prints takes another way than ours."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "lipcert", "bound", "--help"]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="Windows ends a process without asking it")
def test_sigterm_keeps_the_bracket_and_its_proof(tmp_path: Path) -> None:
    """As `timeout` sends it, twice at once: to the process and to its group."""
    proof, net_file = tmp_path / "proof.npz", str(tmp_path / "net.npz")
    net_of(8, 40, 40, 3).save(net_file)  # no search ends on it soon
    command = [sys.executable, "-m", "lipcert", "bound", net_file, "--radius", "1", "--output", "all", "--norm", "2"]
    command += ["--time-limit", "600", "--certificate", str(proof), "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    while "upper ?" in (line := child.stderr.readline()):  # until something is proved
        assert child.poll() is None
    assert "upper" in line
    child.send_signal(signal.SIGTERM)
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=120)
    found = json.loads(out)
    assert (child.returncode, found["status"]) == (0, "interrupted")
    assert "Traceback" not in err
    answer = lipcert.verify(proof, lipcert.load(net_file))
    assert answer.proved
    assert answer.claim == pytest.approx(found["upper"], rel=1e-8)


def test_sigterms_that_come_together_interrupt_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("lipcert.cli.signals.time", clock)
    before = signal.getsignal(signal.SIGTERM)
    try:
        terminate_like_ctrl_c()
        for now, interrupts in ((5.0, True), (5.1, False), (9.0, True)):
            clock.now = now
            with pytest.raises(KeyboardInterrupt) if interrupts else nullcontext():
                signal.raise_signal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        terminate_like_ctrl_c()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN  # as the caller wants it
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interrupt_while_loading_is_one_line() -> None:
    code = (
        "import runpy, sys\n"
        "class Impatient:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numpy':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "sys.argv = ['lipcert', 'demo']\n"
        "runpy.run_module('lipcert', run_name='__main__')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "lipcert: interrupted\n")


@pytest.mark.parametrize("columns", [30, 50])
def test_narrow_terminals_lose_nothing(
    columns: int, net_file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lipcert.cli.show.WIDTH", columns)
    ask = ["--center", "0.5", "--radius", "0.05", "--output", "3", "--method", "interval", "--no-lower"]
    for arguments in (["bound", net_file, *ask], ["info", net_file]):
        out = call(capsys, *arguments)[1]
        assert max(len(line) for line in out.splitlines()) <= columns
        assert "…" not in out
        assert arguments[0] == "info" or "proved(interval)" in "".join(out.split())


def test_export(net_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "problem.dat-s"
    code, out, _ = call(capsys, "export", net_file, "--radius", "0.1", "--output", "1", "--to", str(target))
    assert code == 0
    assert "order" in out
    assert target.read_text().splitlines()[2] == "2"


def test_method_that_does_not_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deep = Network.from_weights([np.ones((2, 2)), np.ones((2, 2)), np.ones((1, 2))])
    deep.save(tmp_path / "deep.npz")
    code, _, err = call(capsys, "bound", str(tmp_path / "deep.npz"), "--radius", "1", "--method", "hr2")
    assert code == 2
    assert "one hidden layer; this network has 2" in err


@pytest.mark.parametrize(("name", "optimum"), [("disk", -0.5), ("nearly_sparse", -0.96)])
def test_the_examples_of_polynomial_problems(name: str, optimum: float, capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "examples" / f"{name}.pop"
    code, out, _ = call(capsys, "pop", str(path), "--order", "1", "--relaxation", "nearly-sparse", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["bound"] <= optimum
    assert answer["bound"] == pytest.approx(optimum, abs=1e-4)


@pytest.mark.skipif(not shutil.which("csdp"), reason="csdp is not here: apt install coinor-csdp")
def test_another_solver_reads_a_polynomial_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, target = tmp_path / "p.pop", tmp_path / "p.dat-s"
    path.write_text("variables x y\nmaximize 3 - x*y\nx^2 + y^2 <= 1\n")
    code, out, _ = call(capsys, "pop", str(path), "--to", str(target))
    assert code == 0
    assert "bound = -(least value + -3.0)" in out.replace("\n", " ")
    run = subprocess.run(["csdp", str(target), str(tmp_path / "s")], capture_output=True, text=True, check=False)
    least = float(run.stdout.split("Primal objective value:")[1].split()[0])
    assert -least + 3.0 == pytest.approx(3.5, abs=1e-5)

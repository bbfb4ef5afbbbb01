"""Input boxes of VNN-LIB properties: texts in the style of the competition's files, and what is refused in one line."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from lipcert import Box, FileFormatError, Network, Polytope
from lipcert.cli.app import run
from lipcert.readers import vnnlib
from lipcert.readers.vnnlib import Property, read_property

AIRCRAFT = """; Property in the style of ACAS Xu
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)

; Unscaled input 0: (1500, 1800)
(assert (<= X_0 -0.29855281193475053))
(assert (>= X_0 -0.30353115613746867))
(assert (<= X_1 0.5)) (assert (>= X_1 0.25))

; unsafe if the first score is not minimal
(assert (or
    (and (<= Y_1 Y_0))
))
"""


def write(tmp_path: Path, text: str, name: str = "p.vnnlib") -> str:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


def box_of(read: Property) -> Box:
    """The box of a property that has one."""
    (box,) = read.regions
    assert isinstance(box, Box)
    return box


@pytest.mark.parametrize("name", ["p.vnnlib", "P.VNNLIB.GZ".lower()])
def test_a_property(tmp_path: Path, name: str) -> None:
    read = read_property(write(tmp_path, AIRCRAFT, name))
    assert np.allclose(box_of(read).lo, [-0.30353115613746867, 0.25], rtol=1e-15)
    assert np.allclose(box_of(read).hi, [-0.29855281193475053, 0.5], rtol=1e-15)
    assert box_of(read).lo[1] == 0.25  # a float already
    assert len(read.notes) == 1
    assert "outputs" in read.notes[0]


FORMS = {
    "both sides under and": "(assert (and (<= X_0 1) (>= X_0 -1)))",
    "number first": "(assert (<= -1 X_0)) (assert (>= 1.0 X_0))",
    "negative as SMT-LIB writes it": "(assert (>= X_0 (- 1.0))) (assert (<= X_0 1e0))",
    "strict": "(assert (> X_0 -1)) (assert (< X_0 1))",
    "the tighter counts": "(assert (<= X_0 5)) (assert (<= X_0 1)) (assert (>= X_0 -1)) (assert (>= X_0 -2))",
    "or of one": "(assert (or (and (<= X_0 1) (>= X_0 -1) (<= Y_0 0.5))))",
    "several indices": "(assert (<= X_0_0 1))(assert (>= X_0_0 -1))",
    "a function without arguments": "(declare-fun X_0 () Real)(assert (<= X_0 1))(assert (>= X_0 -1))",
    "other commands": "(set-logic QF_LRA)(assert (<= X_0 1))(assert (>= X_0 -1))(check-sat)",
    "line ends of Windows": "(assert (<= X_0 1)) ; one\r\n(assert (>= X_0 -1))\r\n",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_ways_to_write_a_box(tmp_path: Path, text: str) -> None:
    box = box_of(read_property(write(tmp_path, text)))
    assert (box.lo.tolist(), box.hi.tolist()) == ([-1.0], [1.0])


def test_unions_are_several_regions_without_repetitions(tmp_path: Path) -> None:
    """As the competition writes them: every alternative has its box and an output; some boxes are the same."""
    boxes = ["(<= X_0 -0.5) (<= Y_0 0)", "(>= X_0 0.5) (<= Y_0 0)", "(<= X_0 -0.5) (>= Y_0 9)", "(>= X_0 3)"]
    text = X0 + "(assert (or " + "".join(f"(and {box})" for box in boxes) + "))"
    read = read_property(write(tmp_path, text))
    ends = [(box.lo.tolist(), box.hi.tolist()) for box in read.regions if isinstance(box, Box)]
    assert ends == [([-1.0], [-0.5]), ([0.5], [1.0])]  # the last alternative has no point in the base box
    nested = X0 + "(assert (and (<= Y_0 1)\n(or (<= X_0 0) (<= Y_0 2))))"
    assert len(read_property(write(tmp_path, nested)).regions) == 2  # one of them is the whole box
    two = X0 + "(assert (or (<= X_0 0) (>= X_0 0)))(assert (or (<= X_0 0.5) (<= X_0 -0.5)))"
    assert len(read_property(write(tmp_path, two)).regions) == 3


def test_linear_inequalities_are_half_spaces(tmp_path: Path) -> None:
    base = X0 + X0.replace("X_0", "X_1")
    ways = ("(<= (+ X_0 (* 0.1 X_1)) 0.3)", "(>= 0.3 (- X_0 (* X_1 (- 0.1))))", "(<= X_0 (- 0.3 (* 0.1 X_1)))")
    for way in ways:
        (region,) = read_property(write(tmp_path, base + f"(assert {way})")).regions
        assert isinstance(region, Polytope)
        assert region.A.tolist() == [[1.0, 0.1]]
        assert 0.3 <= region.b[0] <= 0.3 + 1e-15
        corner = Fraction(3, 10) - Fraction(1, 10)  # x_1 = 1: the true end of x_0, which must not be cut off
        true = Fraction(float(region.A[0, 0])) * corner + Fraction(float(region.A[0, 1]))
        assert true <= Fraction(float(region.b[0]))
    (region,) = read_property(write(tmp_path, base + "(assert (<= (+ X_0 (* 0.1 X_1)) 0.5))")).regions
    assert isinstance(region, Polytope)
    true = Fraction(4, 10) + Fraction(float(region.A[0, 1]))  # at (0.4, 1), where 0.1 as a float is above 1/10
    assert Fraction(1, 2) < true <= Fraction(float(region.b[0]))
    (both,) = read_property(write(tmp_path, base + "(assert (= (+ X_0 X_1) 0.5))")).regions
    assert isinstance(both, Polytope)
    assert both.b.tolist() == [0.5, -0.5]


def test_indices_row_by_row_and_equalities(tmp_path: Path) -> None:
    text = "".join(f"(assert (= X_0_{i}_{j} {10 * i + j}))" for j in range(3) for i in range(2))
    assert box_of(read_property(write(tmp_path, text))).lo.tolist() == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("number", ["0.1", "-0.1", "0.30000000000000001", "1e-400", "-1e-400", "123456789.123456789"])
def test_decimal_numbers_are_rounded_outward(tmp_path: Path, number: str) -> None:
    box = box_of(read_property(write(tmp_path, f"(assert (<= X_0 {number}))(assert (>= X_0 {number}))")))
    lo, exact, hi = Fraction(float(box.lo[0])), Fraction(number), Fraction(float(box.hi[0]))
    assert lo <= exact <= hi
    assert box.hi[0] <= np.nextafter(box.lo[0], np.inf)


X0 = "(assert (<= X_0 1))\n(assert (>= X_0 -1))\n"
BAD = {
    "an output in a union": (X0 + "(assert (or (<= X_0 0) (<= X_0 Y_0)))", "line 3: not a linear inequality"),
    "two inputs": (X0 + "(assert (<= X_0 X_1))", "no lower bound of X_1"),
    "input and output": (X0 + "(assert (<= X_0 Y_0))", "line 3: not a linear inequality"),
    "product": (X0 + "(assert (<= (* X_0 X_0) 1))", "line 3: not a linear inequality"),
    "not": ("(assert (not (<= X_0 1)))", "line 1: not a linear inequality"),
    "three arguments": ("(assert (<= X_0 1 2))", "line 1: not a linear inequality"),
    "sum of nothing": (X0 + "(assert (<= (+) X_0))", "line 3: not a linear inequality"),
    "numbers": (X0 + "(assert (<= (- X_0 X_0) -1))", "line 3: an inequality between numbers"),
    "long numbers": (X0 + f"(assert (<= (* X_0 {'1e999 ' * 60}) 1))", "line 3: a number with thousands of digits"),
    "large coefficients": (X0 + X0.replace("X_0", "X_1") + "(assert (<= (+ X_0 (* 1e999 X_1)) 1))", "range of floats"),
    "no way": (X0 + "(assert (or (>= X_0 2) (<= X_0 -2)))", "the bounds of X_0 contradict"),
    "many ways": (X0 + "(assert (or (>= X_0 0) (<= X_0 0)))" * 10, "more than 1,000 regions"),
    "no upper bound": ("(assert (>= X_0 -1))", "no upper bound of X_0; a box needs both sides"),
    "no lower bound": (X0 + "(declare-const X_1 Real)(assert (<= X_1 1))", "no lower bound of X_1"),
    "many missing": ("".join(f"(declare-const X_{i} Real)" for i in range(9)), "X_0, X_1, X_2 and 6 more"),
    "a gap": (X0 + X0.replace("X_0", "X_2"), "no bound of X_1, though there is one of X_2"),
    "contradiction": ("(assert (<= X_0 1))\n(assert (>= X_0 2))", "line 2 and line 1: the bounds of X_0 contradict"),
    "two kinds of names": (X0 + "(assert (<= X_0_1 2))", "another number of indices"),
    "no number": (X0 + "(assert (<= X_0 wide))", "line 3: not a linear inequality"),
    "not finite": (X0 + "(assert (<= X_0 inf))", "line 3: not a linear inequality"),
    "too large": ("(assert (<= X_0 1e999))(assert (>= X_0 0))", "beyond the range of floats"),
    "no inputs": ("(assert (<= Y_0 1))", "no input X_0"),
    "nothing": ("; only a comment", "no input X_0"),
    "unknown variable": ("(declare-const Z_0 Real)", "neither an input X_i nor an output Y_j"),
    "truth": ("(assert true)", "line 1: an assertion about no input"),
    "unknown command": ("(define-fun f () Real)", "line 1: 'define-fun' is not understood"),
    "version 2": ("(vnnlib-version <2.0>)", "line 1: VNN-LIB 2 is not read"),
    "cut off": (X0 + "(assert (<= X_1", "line 3: a bracket opens here and is never closed"),
    "too many brackets": ("(assert (<= X_0 1)))", "line 1: a closing bracket"),
    "deep": ("(" * 1000, "line 1: more than 32 brackets"),
    "text": ("hello", "line 1: 'hello' stands outside all brackets"),
    "many inputs": ("(declare-const X_99999999 Real)", "more than 4,194,304 inputs"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_what_is_not_a_box_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        read_property(write(tmp_path, text))
    assert message in str(caught.value)
    assert "p.vnnlib: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "p.vnnlib.gz"
    packed.write_bytes(b"no gzip at all")
    with pytest.raises(FileFormatError, match="not a readable gzip file"):
        read_property(packed)
    packed.write_bytes(gzip.compress(AIRCRAFT.encode())[:60])
    with pytest.raises(FileFormatError, match="not a readable gzip file"):
        read_property(packed)
    binary = tmp_path / "b.vnnlib"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="not a text file"):
        read_property(binary)
    with pytest.raises(FileFormatError, match=r"\.vnnlib and \.vnnlib\.gz"):
        read_property(write(tmp_path, AIRCRAFT, "p.txt"))
    monkeypatch.setattr(vnnlib, "MAX_BYTES", 1 << 20)
    with pytest.raises(FileFormatError, match="more than 1 MiB"):
        read_property(write(tmp_path, " " * (3 << 20), "bomb.vnnlib.gz"))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Network.from_weights([np.eye(2), np.ones((1, 2))]).save(tmp_path / "net.npz")
    net, file = str(tmp_path / "net.npz"), write(tmp_path, AIRCRAFT)
    assert run(["bound", net, "--vnnlib", file, "--method", "interval", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["region"]["hi"] == pytest.approx([-0.29855281193475053, 0.5])
    assert "outputs play no part" in answer["notes"][-1]
    refused = {
        "--radius and --vnnlib exclude each other": ["--vnnlib", file, "--radius", "1"],
        "--vnnlib and --global exclude each other": ["--vnnlib", file, "--global"],
        "p1.vnnlib: the property has 1 inputs, the network 2": ["--vnnlib", write(tmp_path, X0, "p1.vnnlib")],
        "no such file": ["--vnnlib", "nowhere.vnnlib"],
    }
    for message, options in refused.items():
        assert run(["bound", net, *options]) == 2
        caught = capsys.readouterr()
        assert message in caught.err
        assert caught.err.count("\n") == 1
        assert caught.out == ""

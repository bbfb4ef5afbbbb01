"""A short run of the fuzz harness, and that it finds what is wrong: a bound that lies, a reader that breaks."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.fuzz import _hostile, _questions, cheap, files, folders, forged, hostile
from benchmarks.fuzz.__main__ import again, kind_of, main
from benchmarks.fuzz._cuts import cut
from benchmarks.fuzz._harness import Run, judged
from benchmarks.fuzz._oracle import FUNCTIONS, floor, forward, jacobians, points_of
from benchmarks.fuzz._problems import Case, random_case

from lipcert import Ball, Box, Certificate, Polytope, Verification
from lipcert.bounds import zonotope
from lipcert.errors import FileFormatError
from lipcert.polynomial.certificates import stored
from lipcert.polynomial.certificates.stored import StoredRelaxation
from lipcert.problem import polytope
from lipcert.problem.activations import BOUNDED, KINDS, elementary
from lipcert.proof.arithmetic import prove_product
from lipcert.proof.jacobian import JacobianCertificate
from lipcert.proof.margins import MarginCertificate
from lipcert.proof.partition import PartitionCertificate
from lipcert.proof.union import UnionCertificate
from tests.problems import net_of

CUT = (18, 34, 51, 53)  # numbers of seed 1 whose regions have half-spaces


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("cheap", [*range(14), *CUT, 50, 100]),
        ("deep", [*range(1, 9), 19, 20]),
        ("ways", [*range(30), 40]),
        ("relaxations", [1, 2, 3, 5, 9, 11, 100]),
        ("files", [*range(90)]),
        ("forged", [*range(17), *range(136, 153), *range(272, 289)]),
        ("hostile", [*range(0, 17 * 300, 29)]),
    ],
)
def test_a_short_run_finds_nothing(name: str, numbers: list[int]) -> None:
    run = Run(kind_of(name), seed=1)
    for number in numbers:
        run.one(number)
    assert run.done >= len(numbers)
    assert run.faults == []
    assert sum(run.counts.values()) >= len(numbers)


@pytest.mark.parametrize("name", ["cheap", "deep", "smooth", "ways", "relaxations", "files", "forged", "hostile"])
def test_a_case_is_always_the_same(name: str, tmp_path: Path) -> None:
    """Made twice it is the same, and so it is when it was written to files and read again."""
    kind = kind_of(name)
    for number in (3, 4, 13, 14, 15):
        first, second = (kind.make(np.random.default_rng([7, number]), number) for _ in range(2))
        about = [kind.save(case, tmp_path / f"{k}") for k, case in enumerate((first, second))]
        kept = kind.load(tmp_path / "0", json.loads(json.dumps(about[0])))
        again_ = kind.save(kept, tmp_path / "2")
        contents = [{p.name[1:]: p.read_bytes() for p in tmp_path.glob(f"{k}*")} for k in range(3)]
        if name not in ("forged", "hostile"):  # names of files are in what is said, and times in archives
            assert about[0] == about[1] == again_
        assert len(contents[0]) >= 1
        assert contents[0].keys() == contents[1].keys() == contents[2].keys()


def test_a_lie_is_found_made_small_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(problem: Any) -> Certificate:
        honest = prove_product(problem)
        return replace(honest, upper=honest.upper / 1e6)

    monkeypatch.setitem(cheap.PROVERS, "product", lying)
    assert main(["cheap", "--count", "4", "--seed", "2", "--out", str(tmp_path)]) == 1
    written = sorted(tmp_path.glob("*.json"))
    assert written
    about = json.loads(written[0].read_text())
    assert about["fault"] == "product too small"
    assert about["again"] == f"python -m benchmarks.fuzz again {written[0]}"
    small = Case.load(written[0].with_suffix(""), about).network
    assert small.depth <= 1
    assert small.inputs == small.outputs == 1
    assert main(["again", str(written[0])]) == 1
    monkeypatch.undo()
    assert again(written[0]) == 0


def test_zonotopes_that_leave_something_out_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their columns count for half, their rest for nothing: values lie outside."""
    run = Run(kind_of("ways"), seed=1)
    with monkeypatch.context() as lying:
        lying.setattr(zonotope, "magnitudes", lambda columns: 0.5 * np.abs(columns).sum(axis=1))
        for number in range(12):
            run.one(number)
    assert any("value outside" in words for words in run.faults)


AROUND = elementary.Elementary._around
LIES: dict[str, tuple[Any, str, Any, Iterable[int]]] = {
    "domains": (elementary.Power, "defined", lambda _self, lo, _hi: np.ones(lo.shape, dtype=bool), range(3)),
    "lines": (elementary.Elementary, "_around", lambda self, lo, hi, convex: AROUND(self, lo, hi, ~convex), (80,)),
    "turning points": (elementary, "_meets", lambda lo, _hi, _quarter: np.zeros(lo.shape, dtype=bool), (116,)),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_an_elementary_function_is_found(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, lying, numbers = LIES[lie]
    honest, deceived = Run(kind_of("smooth"), seed=3), Run(kind_of("smooth"), seed=3)
    for number in numbers:
        honest.one(number)
        with monkeypatch.context() as changed:
            changed.setattr(where, name, lying)
            deceived.one(number)
    assert honest.faults == []
    assert any("too small" in words for words in deceived.faults)


def test_a_reader_that_breaks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the file is cut down to the byte that breaks it."""

    def breaking(path: str) -> None:
        if b"^" in Path(path).read_bytes():
            raise KeyError("power")

    monkeypatch.setitem(files.READERS, ".pop", breaking)
    run = Run(kind_of("files"), 0, tmp_path)
    case = files.Damaged("pop", ".pop", b"variables x y\nminimize x^2 + y^2\n")
    run.keep(0, case, judged(run.kind, case))
    assert (tmp_path / "files-0-0-file.pop").read_bytes() == b"^"
    assert json.loads((tmp_path / "files-0-0.json").read_text())["fault"] == "KeyError"


def test_a_forgery_that_is_believed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def believing(certificate: Certificate, _: Any) -> Verification:
        return Verification(True, certificate.claim, certificate.claim, "proved")

    kind, own = forged.Forged(), forged.base(1)
    boast = forged.Forgery(own, own.arrays | {"upper": np.array(own.attained / 2)})
    assert not judged(kind, boast).fault
    monkeypatch.setattr(forged, "verify", believing)
    assert judged(kind, boast).fault == "proves too much"


def test_the_forger_finds_a_scale_that_makes_every_term_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `StoredRelaxation` once did: the absolute value of the least whole number is negative, so it passed."""

    def trusting(self: StoredRelaxation, problem: Any, degree: int) -> Any:  # noqa: ARG001
        exponents = np.asarray(self.arrays["sos_scale"]).astype(np.int64)
        if np.any(np.abs(exponents) > min(20, 300 // max(1, degree))):
            raise FileFormatError("the scales of the proof are not those of such a problem")
        return 2.0 ** exponents.astype(np.float64), 1.0

    def found(kind: str) -> set[str]:
        own = forged.KINDS.index(kind)
        numbers = (own + len(forged.KINDS) * k for k in range(280, 300))
        cases = (hostile.Hostile().make(np.random.default_rng(0), number) for number in numbers)
        return {judged(hostile.Hostile(), case).fault for case in cases}

    kinds = ("literal", "polynomial")
    assert [found(kind) for kind in kinds] == [{""}, {""}]
    monkeypatch.setattr(StoredRelaxation, "_scales", trusting)
    monkeypatch.setattr(stored, "_check_scaled", lambda _: None)
    assert ["proves too much" in found(kind) for kind in kinds] == [True, True]


def test_edits_of_a_proof_leave_nothing_out() -> None:
    """Every array of numbers is emptied, zeroed and made extreme: alone, with the others emptied, and in pairs."""
    own = forged.base(forged.KINDS.index("patterns")).arrays
    every = _hostile.edits(own)
    numbers = {name for name in own if own[name].dtype.kind in "iuf"}
    pairs = math.comb(len(numbers - _hostile.QUESTION), 2)
    assert {"splits", "leaf_nogoods", "nogood_literals"} <= numbers - _hostile.QUESTION
    assert {changes[0][0] for changes, _ in every if len(changes) == 1} == numbers
    assert {changes[0][0] for changes, alone in every if alone} == numbers - _hostile.QUESTION
    assert len({frozenset(name for name, _ in changes) for changes, _ in every if len(changes) == 2}) == pairs
    claims = [float(_hostile.edited(own, edit)["upper"]) for edit in every if edit[0][0][0] != "upper"]
    assert max(claims) < float(own["upper"]) / 100


BELIEVED: dict[str, tuple[Any, str, Any]] = {
    "jacobian": (JacobianCertificate, "verify", lambda *_: SimpleNamespace(proved=True)),
    "partition": (PartitionCertificate, "verify", lambda *_: SimpleNamespace(proved=True)),
    "union": (UnionCertificate, "verify", lambda *_: SimpleNamespace(proved=True)),
    "margins": (MarginCertificate, "verify", lambda *_: SimpleNamespace(proved=True)),
    "polynomial": (_questions, "verify_polynomial", lambda kept, _: SimpleNamespace(proved=True, bound=kept.bound)),
}
BOASTS: dict[str, Any] = {  # what no honest checker proves
    "jacobian": lambda a: {"upper": a["lower"] - 1.0},
    "partition": lambda a: {"claims": a["claims"] * 1e-3},
    "margins": lambda a: {"claim": a["claim"] - 1e3},
    "polynomial": lambda a: {"bound": a["bound"] + (1e6 if str(a["sense"]) == "min" else -1e6)},
    "union": lambda a: {name: _smaller_part(part) for name, part in a.items() if name.startswith("part_")},
}


def _smaller_part(data: Any) -> Any:
    with np.load(io.BytesIO(data.tobytes())) as stored:
        arrays = dict(stored)
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays | {"upper": arrays["upper"] * 1e-3})
    return np.frombuffer(stream.getvalue(), dtype=np.uint8)


@pytest.mark.parametrize("name", BOASTS)
def test_a_boast_about_any_question_is_found_when_it_is_believed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, own = forged.Forged(), forged.base(forged.KINDS.index(name))
    assert judged(kind, forged.Forgery(own, own.arrays)).counts == [f"proved {name}"]
    boast = forged.Forgery(own, own.arrays | BOASTS[name](own.arrays))
    assert judged(kind, boast).counts == [f"not proved {name}"]
    monkeypatch.setattr(*BELIEVED[name])
    assert judged(kind, boast).fault == "proves too much"


def test_a_value_that_is_not_seen_is_found_when_it_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, own = forged.Forged(), forged.base(forged.KINDS.index("jacobian"))
    boast = forged.Forgery(own, own.arrays | {"seen_most": own.arrays["seen_most"] + 1.0})
    monkeypatch.setattr(*BELIEVED["jacobian"])
    assert judged(kind, boast).detail == "a value is not seen at its point"


def test_points_of_regions_with_half_spaces_lie_in_them() -> None:
    """In fractions; and where half-spaces leave an interior there are some."""
    rng, some = np.random.default_rng(0), 0
    for _ in range(60):
        base = Box(rng.normal(size=3), 0.5) if rng.random() < 0.5 else Ball(rng.normal(size=3), 0.5)
        region = cut(rng, base)
        points = points_of(rng, region, 3, 16)
        some += len(points) > 0
        for x in points:
            values = [Fraction(float(v)) for v in x]
            for a, b in zip(region.A, region.b, strict=True):
                assert sum(Fraction(float(u)) * v for u, v in zip(a, values, strict=True)) <= Fraction(float(b))
            assert base.box.contains(x) if isinstance(base, Ball) else base.contains(x)
    assert some > 40


def test_a_lie_about_half_spaces_is_found_and_made_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cheap, "ready", lambda *_: None)  # none has a point
    run = Run(kind_of("cheap"), 1, tmp_path)
    for number in CUT:
        run.one(number)
    assert any("not empty" in words for words in run.faults)
    written = sorted(tmp_path.glob("*.json"))[0]
    about = json.loads(written.read_text())
    small = Case.load(written.with_suffix(""), about)
    assert isinstance(small.region, Polytope)
    assert small.region.count == small.network.inputs == 1
    assert main(["again", str(written)]) == 1
    monkeypatch.undo()
    assert again(written) == 0


def test_a_box_that_loses_points_of_the_region_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run, true = Run(kind_of("cheap"), 5), polytope.tops

    def lying(base: Any, box: Box, *rest: Any) -> Any:
        return true(base, box, *rest) - 0.1 * np.max(box.hi - box.lo)

    monkeypatch.setattr(polytope, "tops", lying)
    for number in (12, 25, 61):
        run.one(number)
    assert len(run.faults) == 3
    assert all("box too small" in words for words in run.faults)


def test_every_kind_of_proof_is_forged() -> None:
    literal = [k for k in range(forged.BASES) if forged.KINDS[k % len(forged.KINDS)] == "literal"]
    proofs = {str(forged.base(k).arrays["proof"]) for k in (*range(10), *literal)}
    assert proofs == {"arithmetic", "multipliers", "cases", "slopes", "tree", "literal", "lipopt"}
    assert any("nogood_literals" in forged.base(k).arrays for k in range(10))
    assert "side_rows" in forged.base(8).arrays
    own = {str(forged.base(k).arrays["kind"]) for k in range(10, 15)}
    assert own == set(_questions.JUDGES)
    assert "collapsed" in forged.base(7).arrays
    assert any(name.startswith("sharp") for name in forged.base(6).arrays)


def test_an_honest_folder_is_resumed_below_the_distance_of_another_class() -> None:
    own = folders.job(0)
    assert np.all(own.reach > 0)
    assert {Path(name).suffix for name in own.files} == {".json", ".npz"}
    verdict = judged(folders.Folders(), folders.Edited(0, {}))
    assert verdict.fault == ""
    assert "resumed" in verdict.counts


def test_the_oracle_knows_every_activation() -> None:
    """Its derivatives are those of its own values, by differences."""
    assert set(FUNCTIONS) == set(KINDS)
    for kind, function in FUNCTIONS.items():
        z, h = np.linspace(-4.03 if kind in BOUNDED else 0.1, 4.0, 97), 1e-6
        rise = (function(z + h, 0.3)[0] - function(z - h, 0.3)[0]) / (2 * h)
        np.testing.assert_allclose(function(z, 0.3)[1], rise, atol=1e-7, rtol=1e-6)


def test_the_oracle_agrees_with_the_network() -> None:
    for number in range(30):
        case = random_case(np.random.default_rng(number))
        points = np.random.default_rng(1).normal(size=(5, case.network.inputs))
        with np.errstate(all="ignore"):
            J, off, _ = jacobians(case, points)
            rows = np.stack([case.network.gradient(points, row) for row in np.eye(case.network.outputs)], axis=1)
            scores, size = forward(case.network, points)
            assert np.all(np.abs(scores - case.network.forward(points)) <= 1e-13 * size)
        np.testing.assert_allclose(
            J[off], rows[off], rtol=1e-9, atol=1e-12 * max(1.0, np.abs(rows[off]).max(initial=0))
        )


def test_the_oracle_attains_what_is_known() -> None:
    net = net_of(2, 3, 1)
    case = Case(net, Box(np.zeros(2), 1.0), np.ones(1), "inf")
    exact = floor(case, np.random.default_rng(0), enumerate_=True)
    assert 0 < exact <= prove_product(case.problem()).upper

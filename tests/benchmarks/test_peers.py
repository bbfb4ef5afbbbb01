"""Peers: their programs as written here have the values that they must have; who is away or breaks says so."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks._random_chains import chain
from benchmarks._rows import Measured
from benchmarks.peers._auto_lirpa import VARIABLE, AutoLiRPA
from benchmarks.peers._cases import PEERS, cases, matches, with_peer
from benchmarks.peers._csdp import CSDP, specification
from benchmarks.peers._eclipse import ClosedForm, EclipseFast
from benchmarks.peers._peer import Answer, Peer, dense_weights
from benchmarks.peers._slope_programs import GeoLIP, LipSDP

from lipcert import Box, Everywhere, Network, bound
from lipcert.budget import Budget
from lipcert.problem.problem import Problem
from lipcert.relaxation.slopes import SlopeMultipliers
from lipcert.relaxation.specification import build
from lipcert.solver.slopes.choice import SlopeSolver
from tests.enumeration import exact_constant
from tests.problems import net_of

OURS = Measured("a net", "auto", lower=1.0, upper=2.0, curve=((0.1, 1.0, 2.0),))


@pytest.mark.parametrize(("peer", "norm"), [(GeoLIP(), "inf"), (LipSDP(), "2")], ids=["GeoLIP", "LipSDP"])
@pytest.mark.parametrize("sizes", [(3, 5, 1), (3, 4, 4, 1)], ids=str)
def test_programs_of_slopes_have_the_value_of_slopes(peer: Peer, norm: str, sizes: tuple[int, ...]) -> None:
    """The same program by our own solver; `slopes` knows signs besides, so it is no higher; the constant is below."""
    net = net_of(*sizes, seed=3)
    problem = Problem.of(net, Everywhere(), 0, norm)
    answer, seen = peer.run(problem), [np.inf]
    program = replace(chain(dense_weights(problem)), weighted=norm == "inf")

    def better(_: SlopeMultipliers, value: float) -> bool:
        seen.append(value)
        return False

    SlopeSolver(program).run(Budget.of_work(2.0), better)
    assert answer.remark == ""
    assert answer.value == pytest.approx(min(seen), rel=1e-4)
    assert bound(net, Everywhere(), output=0, norm=norm, method="slopes", work=2.0).upper <= answer.value * (1 + 1e-4)
    assert answer.value >= exact_constant(net, Box(np.zeros(3), 10.0), problem.output.c, problem.norm) * (1 - 1e-4)


def test_whole_map_is_no_less_than_its_outputs() -> None:
    net = net_of(3, 5, 3, seed=1)
    whole = LipSDP().run(Problem.of(net, Everywhere(), "all", "2")).value
    ones = [LipSDP().run(Problem.of(net, Everywhere(), k, "2")).value for k in range(3)]
    assert whole >= max(ones) * (1 - 1e-4)
    closed = ClosedForm().run(Problem.of(net, Everywhere(), "all", "2")).value
    assert closed >= whole * (1 - 1e-4)


def test_eclipse_of_its_package() -> None:
    if reason := EclipseFast().available():
        pytest.skip(reason)
    problem = Problem.of(net_of(3, 5, 4, 2, seed=1), Everywhere(), "all", "2")
    assert EclipseFast().run(problem).value == pytest.approx(ClosedForm().run(problem).value, rel=1e-6)


def test_who_applies_to_what() -> None:
    box, net = Box(np.zeros(3), 0.5), net_of(3, 5, 2)
    names = {p.name for p in PEERS if p.refusal(Problem.of(net, box, 0)) is None}
    assert names == {"GeoLIP (SCS)", "CSDP", "auto_LiRPA (CROWN)", "auto_LiRPA (optimised)"}
    euclidean = {p.name for p in PEERS if p.refusal(Problem.of(net, Everywhere(), "all", "2")) is None}
    assert euclidean == {
        "LipSDP-Neuron (SCS)",
        "ECLipsE-Fast (closed form)",
        "ECLipsE-Fast (eclipse-nn)",
        "ECLipsE (eclipse-nn)",
    }
    smooth = net_of(3, 5, 2, kind="tanh")
    assert "ReLU" in (GeoLIP().refusal(Problem.of(smooth, box, 0)) or "")
    deep = Problem.of(net_of(3, 4, 4, 4, 1), box, 0)
    assert "hidden layers" in (GeoLIP().refusal(deep) or "")
    wide = Network.from_weights([np.ones((300, 3)), np.ones((1, 300))])
    assert "too large" in (LipSDP().refusal(Problem.of(wide, Everywhere(), 0, "2")) or "")


FAKE = """#!/bin/sh
test -s "$1" || exit 9
echo "Success: SDP solved"
echo "Primal objective value: 1.5000000e+00"
echo "Dual objective value: 1.2500000e+00"
"""


def _csdp(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "csdp").write_text(text)
    (folder / "csdp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_csdp_gets_the_rows_and_its_dual_value_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _csdp(tmp_path, FAKE, monkeypatch)
    problem = Problem.of(net_of(3, 5, 2), Box(np.zeros(3), 0.5), 0)
    assert CSDP().available() is None
    assert CSDP().rival(problem) == "hr2"
    assert CSDP().run(problem).value == 1.25 + build(problem, specification(problem)).offset
    _csdp(tmp_path, "#!/bin/sh\necho Stuck at edge of dual feasibility\nexit 5\n", monkeypatch)
    answer = CSDP().run(problem)
    assert np.isnan(answer.value)
    assert answer.remark == "Stuck at edge of dual feasibility"


def test_auto_lirpa_is_asked_for_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert "--auto-lirpa" in (AutoLiRPA().available() or "")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert "not a checkout" in (AutoLiRPA().available() or "")


class Stand:
    """A peer that is away, breaks, or answers."""

    name = "a peer"
    proof = False

    def __init__(self, away: str | None, answer: Answer | Exception) -> None:
        self._away, self._answer = away, answer

    def available(self) -> str | None:
        return self._away

    def refusal(self, problem: Problem) -> str | None:  # noqa: ARG002
        return None

    def rival(self, problem: Problem) -> str | None:  # noqa: ARG002
        return None

    def run(self, problem: Problem) -> Answer:  # noqa: ARG002
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_rows_of_peers() -> None:
    problem = Problem.of(net_of(3, 5, 1), Everywhere(), 0)
    found = with_peer(OURS, Stand(None, Answer(3.0, 0.5)), problem)
    assert (found.upper, found.peer, found.peer_value, found.peer_seconds, found.curve) == (2.0, "a peer", 3.0, 0.5, ())
    away = with_peer(OURS, Stand("not installed", Answer(3.0, 0.5)), problem)
    assert (away.peer_value, away.remark) == (None, "not installed")
    broken = with_peer(OURS, Stand(None, ValueError("no luck\nat all")), problem)
    assert (broken.peer_value, broken.remark) == (None, "ValueError: no luck")
    nothing = with_peer(OURS, Stand(None, Answer(float("nan"), 2.0, "not in 2 s")), problem)
    assert (nothing.peer_value, nothing.peer_seconds, nothing.remark) == (None, 2.0, "not in 2 s")


def test_every_question_has_a_peer() -> None:
    assert len(cases()) == len(matches())
    for match in matches():
        if not match.data:
            problem = Problem.of(*match.question.make())
            assert any(p.refusal(problem) is None for p in PEERS), match.question.network

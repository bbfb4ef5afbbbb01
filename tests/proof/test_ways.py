"""Certificates that name the way in which their pre-activation bounds were made: files, checks, users of the bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lipcert import Activation, Ball, Box, Network, verify
from lipcert.bounds import cut_short, preactivations
from lipcert.bounds.choice import chosen_way, fitting_symbols
from lipcert.bounds.collapse import collapse
from lipcert.bounds.propagation import in_way, made_in
from lipcert.budget import Budget
from lipcert.errors import FileFormatError
from lipcert.files import write_npz
from lipcert.method import bound as bounding
from lipcert.method.bracket import Bracket
from lipcert.method.cheap import Interval, Linear
from lipcert.problem.norms import parse_norm
from lipcert.problem.problem import FORMS, INTERVALS, Problem, Way
from lipcert.proof import Certificate
from lipcert.proof.arithmetic import prove_interval, prove_linear
from lipcert.proof.balls.check import check_with_balls
from lipcert.proof.file import load_certificate
from lipcert.proof.sharpened import Sharpened, innermost, prove_within
from lipcert.proof.ways import WithBounds
from lipcert.rounding import Array
from lipcert.search.settings import Settings
from tests.constants import set_constant
from tests.problems import net_of

WAYS = (Way(forms=False), Way(8, forms=False), Way(100, forms=False), Way(100), FORMS)


def deep(kind: str = "relu", seed: int = 0) -> Network:
    """Three hidden layers; forms of all neurons, zonotopes and intervals differ."""
    return net_of(4, 6, 6, 5, 2, kind=kind, seed=seed)


def proved(way: Way, kind: str = "relu", region: Box | Ball | None = None) -> tuple[Network, Certificate]:
    net = deep(kind)
    problem = made_in(Problem.of(net, region or Box(np.zeros(4), 0.3), 0), way)
    return net, prove_linear(problem)


@pytest.mark.parametrize("kind", ["relu", "tanh", "leaky_relu"])
@pytest.mark.parametrize("way", WAYS)
def test_a_file_names_the_way_and_the_checkers_make_the_same_bounds(kind: str, way: Way, tmp_path: Path) -> None:
    pytest.importorskip("flint")
    for region in (Box(np.zeros(4), 0.3), Ball(np.full(4, 0.1), 0.4)):
        net, certificate = proved(way, kind, region)
        assert isinstance(certificate.proof, WithBounds) == (way != FORMS)
        certificate.save(tmp_path / "proof.npz")
        found = load_certificate(tmp_path / "proof.npz")
        answer = verify(found, net, exact=True)
        assert answer.proved
        assert answer.upper == certificate.upper
        assert answer.exact is not None
        assert answer.exact.upper <= certificate.claim


def test_bounds_of_all_ways_differ_so_that_the_name_matters() -> None:
    """A file that loses its way, or names another one, proves another number."""
    uppers = {way: proved(way, "tanh")[1].upper for way in WAYS}
    assert len(set(uppers.values())) == len(WAYS)
    assert uppers[Way(forms=False)] > uppers[Way(100, forms=False)] > uppers[Way(100)]
    assert uppers[Way(8, forms=False)] > uppers[Way(100, forms=False)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bounds": np.array("guesses")}, "unknown bounds"),
        ({"bounds": np.array("intervals")}, "do not fit"),
        ({"symbols": np.array(0)}, "symbols"),
        ({"symbols": np.array(2**62)}, "symbols"),
        ({"symbols": None}, "do not fit"),
        ({"bounds": None}, "bounds without any"),
    ],
)
def test_forged_ways_are_refused(change: dict[str, Array | None], words: str, tmp_path: Path) -> None:
    _, certificate = proved(Way(8, forms=False))
    arrays = {name: value for name, value in (certificate.arrays() | change).items() if value is not None}
    write_npz(tmp_path / "forged.npz", arrays)
    with pytest.raises(FileFormatError, match=words):
        load_certificate(tmp_path / "forged.npz")


def test_a_claim_of_better_bounds_than_its_way_makes_is_not_proved(tmp_path: Path) -> None:
    net, certificate = proved(Way(100), "tanh")
    write_npz(tmp_path / "forged.npz", certificate.arrays() | {"bounds": np.array("zonotopes")})
    assert not verify(tmp_path / "forged.npz", net).proved
    write_npz(tmp_path / "forged.npz", certificate.arrays() | {"symbols": np.array(1)})
    assert not verify(tmp_path / "forged.npz", net).proved


def test_collapsed_and_whole_problems_keep_the_way() -> None:
    net = net_of(6, 30, 30, 30, 3, seed=3)
    for output, norm in ((0, "inf"), ("all", "2"), (0, "1")):
        problem = made_in(Problem.of(net, Box(np.zeros(6), 0.05), output, parse_norm(norm)), Way(200, forms=False))
        certificates = [prove_interval(problem)]
        small = collapse(problem)
        if small is not None:
            certificates.append(prove_within(problem, prove_linear(small.problem)))
        for certificate in certificates:
            assert isinstance(certificate.proof, WithBounds)
            assert verify(certificate, net).proved
    assert small is not None


def test_cases_share_the_bounds_and_parts_leave_the_way_to_the_whole() -> None:
    problem = made_in(Problem.of(deep(), Box(np.zeros(4), 0.3), "all"), Way(50, forms=False))
    case, part = problem.case(1, None), problem.case(1, None, part=True)
    assert case.facts.way == problem.facts.way
    assert preactivations(case) is preactivations(problem)
    assert part.facts.way == FORMS
    assert verify(prove_linear(case), problem.network).proved


@pytest.mark.parametrize("method", ["exact", "tight", "slopes", "backward-free"])
def test_methods_prove_with_zonotopes(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that uses pre-activation bounds uses those of the problem, and says so in its certificates."""
    net = net_of(3, 6, 6, 6, 1, seed=5)
    box = Box(np.full(3, 0.1), 0.4)
    with monkeypatch.context() as forwards:
        set_constant(forwards, "FORMS_QUICK", 0.0)
        set_constant(forwards, "FORMS_TIMES", 0.0)
        found = bounding.bound(net, box, output=0, method=method, work=2.0)
    assert isinstance(found.certificate.proof, WithBounds)
    assert found.certificate.proof.way.forms
    assert verify(found.certificate, net, exact=True).proved
    plain = bounding.bound(net, box, output=0, method="exact", work=2.0)
    assert plain.lower is not None
    assert found.upper >= plain.lower
    if method == "exact":
        assert found.upper == pytest.approx(plain.upper, rel=1e-4)


def test_sharper_bounds_are_proved_on_top_of_zonotopes() -> None:
    from lipcert.method.sharpen import sharpen

    net = net_of(4, 10, 10, 10, 1, seed=5)
    problem = made_in(Problem.of(net, Box(np.zeros(4), 0.5), 0), Way(60))
    better = sharpen(problem, Budget.of_work(5.0))
    assert better is not None
    certificate = prove_linear(better)
    assert isinstance(certificate.proof, WithBounds)
    assert isinstance(certificate.proof.inner, Sharpened)
    assert certificate.upper < prove_linear(problem).upper
    assert verify(certificate, net, exact=True).proved
    assert innermost(certificate.proof).method == "linear"


def test_the_way_is_the_cheapest() -> None:
    """Few inputs and many neurons go forwards; small networks, and those of one hidden layer, backwards."""
    rng = np.random.default_rng(0)
    wide = Network.from_weights([rng.normal(size=(m, n)) / np.sqrt(n) for n, m in ((3, 400), (400, 400), (400, 1))])
    budget = Budget.of_work(1.0)
    assert chosen_way(wide, Box(np.zeros(3), 0.01), budget) == FORMS
    little = Budget.of_work(1e-3)
    assert chosen_way(wide, Box(np.zeros(3), 0.01), little).symbols > 3
    assert chosen_way(net_of(3, 400, 1), Box(np.zeros(3), 0.01), little) == FORMS
    smooth = net_of(3, 20, 20, 1, kind="sigmoid")
    assert chosen_way(smooth, Box(np.zeros(3), 0.1), budget).symbols == 43
    assert fitting_symbols(wide, Budget.of_work(1e9)) == wide.inputs + wide.neurons
    assert chosen_way(wide, Box(np.zeros(3), 0.01), little).symbols > 2 * fitting_symbols(wide, little)


def test_networks_too_large_for_all_but_intervals_say_so() -> None:
    """Forms that would take many times what is left are not begun, and a checker need not make them."""
    rng = np.random.default_rng(0)
    net = Network.from_weights([rng.normal(size=(m, n)) / np.sqrt(n) for n, m in ((30, 400), (400, 400), (400, 1))])
    box = Box(np.zeros(30), 0.01)
    assert chosen_way(net, box, Budget.of_work(1e-6)) == INTERVALS
    problem, bracket = Problem.of(net, box, 0), Bracket(Settings())
    Interval().run(problem, bracket, Budget.of_work(1e-6))
    assert problem.facts.way == INTERVALS
    assert any("plain intervals" in note for note in bracket.notes)
    assert bracket.certificate is not None
    assert verify(bracket.certificate, net).proved


def test_forms_that_end_early_leave_the_zonotopes() -> None:
    net, box = deep("tanh"), Box(np.zeros(4), 0.3)
    found, way = in_way(net, box, Way(100), Budget.of_work(0.0))
    assert way == Way(21, forms=False)
    assert not found.cut_short
    again, _ = in_way(net, box, way)
    for a, b in zip(found.pre, again.pre, strict=True):
        np.testing.assert_array_equal(a, b)


def test_cheap_methods_choose_and_name_the_way() -> None:
    net = net_of(5, 12, 12, 12, 2, kind="sigmoid", seed=1)
    problem = Problem.of(net, Box(np.zeros(5), 0.1), 0)
    bracket = Bracket(Settings())
    for method in (Interval(), Linear()):
        method.run(problem, bracket, Budget.of_work(5.0))
    assert not cut_short(problem)
    assert problem.facts.way.symbols == 5 + 36
    assert bracket.certificate is not None
    assert verify(bracket.certificate, net).proved
    assert bracket.upper < prove_linear(Problem.of(net, Box(np.zeros(5), 0.1), 0)).upper


def test_balls_refuse_what_is_narrower_than_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zonotopes of the ordinary engine that lie are hints, and proved again."""
    pytest.importorskip("flint")
    from lipcert.bounds import zonotope

    net, box = deep(), Box(np.zeros(4), 0.3)
    honest = prove_linear(made_in(Problem.of(net, box, 0), Way(100, forms=False)))
    with monkeypatch.context() as lying:
        lying.setattr(zonotope, "magnitudes", lambda columns: 0.5 * np.abs(columns).sum(axis=1))
        forged = prove_linear(made_in(Problem.of(net, box, 0), Way(100, forms=False)))
        assert forged.upper < honest.upper
        assert check_with_balls(forged, net) > forged.claim
    assert not verify(forged, net).proved


def test_activations_of_all_kinds_are_bounded_in_balls() -> None:
    pytest.importorskip("flint")
    for kind in ("gelu", "elu", "softplus", "hardswish", "softsign", "mish"):
        net = net_of(2, 3, 3, 1, kind=kind, seed=2)
        assert all(f == Activation(kind) for f in net.activations)
        certificate = prove_interval(made_in(Problem.of(net, Box([0.1, -0.2], 0.2), 0), Way(20, forms=False)))
        assert verify(certificate, net, exact=True).proved

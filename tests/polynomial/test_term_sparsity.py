"""Term sparsity, sign symmetry, the Newton polytope, and what orders cost."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from lipcert.cli.pop import pop_command
from lipcert.errors import InputError
from lipcert.polynomial import Polynomial, PolynomialProblem
from lipcert.polynomial.hierarchy.hierarchies import chordal_cliques, dense, homes, nearly_sparse, sparse
from lipcert.polynomial.hierarchy.model import MomentBlock, MomentModel
from lipcert.polynomial.hierarchy.optimise import minimize
from lipcert.polynomial.hierarchy.plan import monomial_count, plan
from lipcert.polynomial.hierarchy.solve import Splitting, relax, solve_model
from lipcert.polynomial.hierarchy.terms import exploit
from lipcert.polynomial.monomials import all_monomials
from lipcert.polynomial.text import parse
from lipcert.solver.conic.conic import solve_conic
from tests.constants import set_constant
from tests.polynomial_problems import boxed, broyden_tridiagonal, max_cut, rosenbrock_chain, solved

x = [Polynomial.variable(i) for i in range(6)]
SPLITS = [("sign", None), ("term", None), ("term", 1), ("term-chordal", None), ("term-chordal", 1)]


def bases(model: MomentModel) -> list[set[tuple[int, ...]]]:
    return [set(b.basis) for b in model.blocks if b.multiplier is None]


def grouped(model: MomentModel) -> set[frozenset[tuple[int, ...]]]:
    return {frozenset(basis) for basis in bases(model)}


@st.composite
def problems(draw: st.DrawFn) -> PolynomialProblem:
    """Few terms in two or three variables over a box, with an inequality or an equality at times."""
    n = draw(st.integers(2, 3))
    monomials = st.sampled_from(all_monomials(range(n), 4))
    numbers = st.integers(-3, 3).filter(bool)
    f = Polynomial.from_terms(draw(st.dictionaries(monomials, numbers, min_size=1, max_size=4)))
    extra = Polynomial.from_terms(
        draw(st.dictionaries(st.sampled_from(all_monomials(range(n), 2)), numbers, max_size=2))
    )
    kind = draw(st.sampled_from(["box", "inequality", "signs"]))
    equalities = tuple(x[i] ** 2 - 1.0 for i in range(n - 1)) if kind == "signs" else ()
    inequalities = (extra + 8.0,) if kind == "inequality" else ()
    one = np.ones(n)
    return PolynomialProblem(f, inequalities, equalities, lower=-one, upper=one).boxed()


@settings(max_examples=25, deadline=None)
@given(problems(), st.integers(0, 2**31))
def test_sparse_bounds_are_below_the_dense_one_and_all_values(problem: PolynomialProblem, seed: int) -> None:
    whole = solve_model(dense(problem, 2)).bound
    points = np.random.default_rng(seed).uniform(-1, 1, (200, problem.n))
    if problem.equalities:
        points[:, : problem.n - 1] = np.sign(points[:, : problem.n - 1])
    feasible = points[[problem.violation(p) == 0 for p in points]]
    least = float(problem.objective.evaluate(feasible).min(initial=np.inf))
    room = 2e-5 * (1 + np.abs(problem.objective.coefficients).sum())
    for sparsity, order in SPLITS:
        bound = solve_model(exploit(dense(problem, 2), sparsity, order)).bound
        assert bound <= min(least, whole + room)
        if sparsity == "sign" or (sparsity, order) == ("term", None):
            assert bound >= whole - room


def test_orders_of_term_sparsity_grow_to_the_stable_one() -> None:
    """A ring of products: connected in steps."""
    f = sum((x[i] ** 2 * x[(i + 1) % 4] for i in range(4)), Polynomial.constant(0.0)) + x[0] * x[2]
    problem = boxed("x1", [(-1, 1)] * 4)
    problem = PolynomialProblem(f, problem.inequalities)
    bounds, sizes = [], []
    for order in (1, 2, 3, None):
        model = relax(problem, "dense", 2, sparsity="term-chordal", sparse_order=order)
        bounds.append(solve_model(model).bound)
        sizes.append(max(len(b.basis) for b in model.blocks))
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert all(a <= b + 1e-6 for a, b in pairwise(bounds))
    stable = relax(problem, "dense", 2)
    assert bases(stable) == bases(relax(problem, "dense", 2, sparsity="term", sparse_order=50))


def test_blocks_of_a_known_example() -> None:
    """By hand: 1 meets x y^2 (in f) and x^2 y^2 (even); xy and x^2 y meet nothing; the other monomials vanish."""
    f = parse("1 + x^2*y^4 + x^4*y^2 + x^4*y^4 - x*y^2 - 3*x^2*y^2", ["x", "y"])
    model = relax(PolynomialProblem(f), sparsity="term", sparse_order=1)
    assert grouped(model) == {frozenset({(), (0, 0, 1, 1), (0, 1, 1)}), frozenset({(0, 1)}), frozenset({(0, 0, 1)})}


def test_blocks_of_even_problems() -> None:
    """x^4 + y^4 - x^2 y^2 has both sign symmetries: {1, x^2, y^2}, {x}, {y}, {xy}, and boxes of [-1, 1] keep them."""
    problem = boxed("x1^4 + x2^4 - x1^2*x2^2", [(-1, 1)] * 2)
    expected = {frozenset({(), (0, 0), (1, 1)}), *(frozenset({m}) for m in ((0,), (1,), (0, 1)))}
    for sparsity in ("sign", "term"):
        model = relax(problem, "dense", 2, sparsity=sparsity)
        assert grouped(model) == expected
    assert bases(relax(problem, "dense", 2, sparsity="none")) == [set(all_monomials([0, 1], 2))]


def test_max_cut_splits_by_parity() -> None:
    model = relax(max_cut(5, [(i, (i + 1) % 5) for i in range(5)]), "dense", 2)
    assert Counter(map(len, bases(model))) == {11: 1, 5: 1}  # 1 and ten pairs; five singles


@settings(max_examples=20, deadline=None)
@given(problems())
def test_sign_symmetry_is_that_of_all_sign_changes(problem: PolynomialProblem) -> None:
    """Two monomials share a block exactly when every change of signs that keeps the problem agrees on them."""
    n = problem.n
    symmetries = [
        s for s in product([1.0, -1.0], repeat=n) if all(p.rescale(np.array(s)) == p for p in problem.polynomials)
    ]
    blocks = bases(exploit(dense(problem, 2), "sign"))
    for a, b in combinations(dense(problem, 2).blocks[0].basis, 2):
        signs = [np.prod([s[i] for i in (*a, *b)]) for s in symmetries]
        assert any({a, b} <= block for block in blocks) == all(v > 0 for v in signs)


def test_equalities_that_no_moment_needs_are_dropped() -> None:
    """x^2 + y^2 = 1: only even multiples meet the support of an even objective, and nothing is lost."""
    problem = PolynomialProblem(parse("x^4 + x^2*y^2", ["x", "y"]), equalities=(parse("x^2 + y^2 - 1", ["x", "y"]),))
    whole, split = dense(problem, 3), exploit(dense(problem, 3))
    assert len(split.equalities) < len(whole.equalities)
    for model in (whole, split, exploit(dense(problem, 3), "sign")):
        assert -1e-4 <= solve_model(model).bound <= 0.0


def in_half_newton_polytope(f: Polynomial, monomial: tuple[int, ...], n: int) -> bool:
    """Whether 2 m is in the hull of the exponents of f and 0, by a linear program."""
    exponents = np.stack([(f.indices == i).sum(axis=1) for i in range(n)] + [np.ones(len(f.indices))])
    exponents = np.column_stack([exponents, [*np.zeros(n), 1.0]])
    target = np.array([*(2.0 * monomial.count(i) for i in range(n)), 1.0])
    return bool(linprog(np.zeros(exponents.shape[1]), A_eq=exponents, b_eq=target).status == 0)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-2, 2).filter(bool)), min_size=2, max_size=4)
)
def test_bases_lie_in_half_the_newton_polytope(terms: list[tuple[int, int, int]]) -> None:
    """Of sums of squares; and the squares can still be written in what is left."""
    q = Polynomial.from_terms({(0,) * a + (1,) * b: float(c) for a, b, c in terms})
    f = q * q + x[0] ** 2
    full = MomentModel(f, blocks=(MomentBlock(tuple(all_monomials(range(2), f.degree // 2))),), n=2)
    used = set().union(*bases(exploit(full, "term")))
    assert all(in_half_newton_polytope(f, m, 2) for m in used)
    assert {(), (0,), *q.terms()} - {()} <= used


@pytest.mark.parametrize(
    "text", ["(x*y - 1)^2 + x^2 + y^2", "(x^2*y + x)^2 + (y - 2)^2 + x^2", "x^4*y^2 + x^2 + y^2 - x*y"]
)
def test_the_newton_polytope_loses_nothing(text: str) -> None:
    """The optimum of the moment relaxation with all monomials, and with those that remain."""
    f = parse(text, ["x", "y"])
    full = MomentModel(f, blocks=(MomentBlock(tuple(all_monomials(range(2), f.degree // 2))),), n=2)
    reduced = exploit(full, "term")
    assert sum(map(len, bases(reduced))) < len(full.blocks[0].basis)
    whole, part = (solve_conic(m.conic().problem) for m in (full, reduced))
    assert part.dual == pytest.approx(whole.dual, abs=1e-5)


def test_what_is_no_sum_of_squares_keeps_its_basis() -> None:
    model = relax(PolynomialProblem(x[0] * x[1] + x[0] ** 4), "dense", 2)
    assert model.conic().problem.columns > 0
    assert not solve_model(model).certified


@pytest.mark.parametrize("sparsity", ["term", "term-chordal"])
@pytest.mark.parametrize("problem", [rosenbrock_chain(12), broyden_tridiagonal(12)], ids=["rosenbrock", "broyden"])
def test_correlative_and_term_sparsity_together(problem: PolynomialProblem, sparsity: str) -> None:
    result = solved(problem, "sparse", 2, splitting=Splitting(sparsity=sparsity, sparse_order=1))
    assert -1e-4 <= result.bound <= 0.0
    assert len(result.notes) == 2 or sparsity == "term"  # there nothing is split at times


def test_term_sparsity_splits_the_dense_matrix_of_nearly_sparse_problems() -> None:
    """A chain, and a ball around all variables, which no clique holds: M_1 falls into the pairs that meet."""
    n = 8
    x = [Polynomial.variable(i) for i in range(n)]
    f = sum((x[i] ** 2 * x[i + 1] ** 2 - x[i] * x[i + 1] for i in range(n - 1)), Polynomial.constant(0.0))
    ball = 2.0 - sum((v * v for v in x), Polynomial.constant(0.0))
    pairs = tuple(2.0 - x[i] ** 2 - x[i + 1] ** 2 for i in range(n - 1))
    problem = PolynomialProblem(f, (*pairs, ball))
    whole, split = (
        nearly_sparse(problem, 2),
        relax(problem, "nearly-sparse", 2, sparsity="term-chordal", sparse_order=1),
    )
    assert max(len(b.basis) for b in whole.blocks) == n + 1
    assert max(len(b.basis) for b in split.blocks) <= 4
    ours, theirs = solve_model(split).bound, solve_model(whole).bound
    point = np.zeros(n)
    point[:2] = np.sqrt(0.5)
    assert ours <= theirs + 1e-5
    assert theirs <= float(f.evaluate(point)[0])
    assert ours >= theirs - 0.2


def test_duplicated_blocks_go() -> None:
    """Cliques that share a variable share its blocks: each is kept once."""
    problem = boxed("x1^4 - x1^2*x2^2 + x2^4 - x2^2*x3^2 + x3^4", [(-1, 1)] * 3)
    blocks = bases(relax(problem, "sparse", 2))
    assert not any(a <= b for a, b in product(blocks, blocks) if a is not b)


def test_homes_are_the_smallest_cliques() -> None:
    cliques = [(0, 1, 2), (1, 2), (2, 3)]
    assert homes([x[1] * x[2], x[2], x[0] * x[3], Polynomial.constant(1.0)], cliques) == [1, 1, None, 1]


def test_long_chains_have_their_cliques() -> None:
    n = 3000
    graph = [{i - 1, i + 1} & set(range(n)) for i in range(n)]
    assert {frozenset(c) for c in chordal_cliques(graph)} == {frozenset((i, i + 1)) for i in range(n - 1)}


def test_bad_options() -> None:
    problem = boxed("x1*x2", [(-1, 1)] * 2)
    for relaxation, sparsity, order, text in [
        ("dense", "best", None, "must be one of none, sign, term, term-chordal"),
        ("dense", "term", 0, "an integer >= 1"),
        ("dense", "sign", 1, "for term and term-chordal"),
        ("krivine", "term", None, "krivine relaxation does not have"),
    ]:
        with pytest.raises(InputError, match=text):
            relax(problem, relaxation, 2, sparsity=sparsity, sparse_order=order)
    with pytest.raises(InputError, match="must be one of dense"):
        plan(problem, "best")


def test_options_of_minimize() -> None:
    one = np.ones(2)
    for sparsity in ("none", "sign", "term", "term-chordal"):
        result = minimize(x[0] ** 4 - x[0] * x[1] + x[1] ** 4, order=2, lower=-one, upper=one, sparsity=sparsity)
        assert result.bound == pytest.approx(-0.125, abs=1e-5)
        assert result.bound <= -0.125


@pytest.mark.parametrize("relaxation", ["dense", "sparse", "nearly-sparse"])
def test_plan_counts_what_is_built(relaxation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = rosenbrock_chain(5)
    for sparsity in ("none", "term-chordal"):
        counted = plan(problem, relaxation, 2, sparsity=sparsity, sparse_order=1 if sparsity != "none" else None)
        for stage in counted.stages[:2]:
            model = relax(problem, relaxation, stage.order, None, None, sparsity, 1 if sparsity != "none" else None)
            built = model.conic().problem
            assert stage.counted
            assert stage.moments == built.columns
            assert dict(stage.blocks) == Counter(built.orders)
    whole = plan(problem, relaxation, 2, sparsity="none").stages
    set_constant(monkeypatch, "COUNTED", 0)
    for guess, real in zip(plan(problem, relaxation, 2, sparsity="none").stages, whole, strict=True):
        assert not guess.counted
        assert guess.blocks == real.blocks
        assert guess.moments >= real.moments
        assert guess.moments == real.moments or relaxation == "nearly-sparse"


def test_plan_of_what_cannot_be_built() -> None:
    f = sum((Polynomial.variable(i) for i in range(200)), Polynomial.constant(0.0)) ** 2
    stages = plan(PolynomialProblem(f), "dense", 4).stages
    assert stages[0].blocks == ((monomial_count(tuple(range(200)), 4, set()), 1),)
    assert "beyond the limit" in stages[0].verdict
    assert [s.order for s in stages] == [4, 5, 6]


@pytest.mark.parametrize("simple", [set(), {0, 2}, {0, 1, 2, 3}])
def test_monomials_are_counted(simple: set[int]) -> None:
    for degree in range(6):
        assert monomial_count((0, 1, 2, 3), degree, simple) == len(all_monomials(range(4), degree, simple))


def test_plan_command(tmp_path: Path) -> None:
    path = tmp_path / "disk.pop"
    path.write_text("variables x y\nminimize x^4 + y^4 - x*y\nx^2 + y^2 <= 1\n")
    run = CliRunner().invoke(pop_command, [str(path), "--plan"], standalone_mode=False)
    assert run.return_value == 0
    assert "order 2" in run.output
    assert "order 4" in run.output
    run = CliRunner().invoke(
        pop_command, [str(path), "--plan", "--json", "--relaxation", "krivine"], standalone_mode=False
    )
    assert json.loads(run.output)["stages"][0]["blocks"] == []
    run = CliRunner().invoke(
        pop_command, [str(path), "--json", "--sparsity", "term", "--sparse-order", "1"], standalone_mode=False
    )
    answer = json.loads(run.output)
    assert answer["bound"] == pytest.approx(-0.125, abs=1e-5)
    assert "term sparsity" in answer["notes"][-1]


def test_sparse_models_are_the_same_with_given_cliques() -> None:
    problem = rosenbrock_chain(4)
    found, named = sparse(problem, 2), sparse(problem, 2, [(0, 1), (1, 2), (2, 3)])
    assert grouped(found) == grouped(named)


@pytest.mark.parametrize("relaxation", ["sparse", "nearly-sparse"])
@pytest.mark.parametrize("seed", range(3))
def test_stable_term_sparsity_keeps_the_bound_on_cliques(relaxation: str, seed: int) -> None:
    """Chains of random terms of even and odd degree, with a ball around all variables for the nearly sparse one."""
    rng = np.random.default_rng(seed)
    n = 5
    monomials = [m for i in range(n - 1) for m in [(i, i + 1), (i, i, i + 1), (i, i, i + 1, i + 1), (i,)]]
    f = Polynomial.from_terms({m: float(rng.integers(-3, 4)) for m in monomials if rng.random() < 0.5})
    ball = 3.0 - sum((x[i] ** 2 for i in range(n)), Polynomial.constant(0.0))
    extra = (ball,) if relaxation == "nearly-sparse" else ()
    problem = PolynomialProblem(f, extra, lower=-np.ones(n), upper=np.ones(n)).boxed()
    whole = solved(problem, relaxation, 2, splitting=Splitting(sparsity="none"))
    split = solved(problem, relaxation, 2)
    room = 1e-5 * (1 + np.abs(f.coefficients).sum())
    assert split.bound == pytest.approx(whole.bound, abs=room)
    points = rng.uniform(-1, 1, (500, n))
    inside = points[(points**2).sum(axis=1) <= 3.0] if extra else points
    for sparse_order in (1, 2):
        chordal = solved(
            problem, relaxation, 2, splitting=Splitting(sparsity="term-chordal", sparse_order=sparse_order)
        )
        assert chordal.bound <= min(whole.bound + room, float(f.evaluate(inside).min()))

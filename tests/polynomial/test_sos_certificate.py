"""The bound of a polynomial problem is a theorem: exact arithmetic, and solvers that lie."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from lipcert.errors import InputError
from lipcert.polynomial import Polynomial, PolynomialProblem
from lipcert.polynomial.hierarchy.assembly import MomentConic
from lipcert.polynomial.hierarchy.attempts import identity_of
from lipcert.polynomial.hierarchy.hierarchies import dense
from lipcert.polynomial.hierarchy.model import MomentBlock, MomentModel
from lipcert.polynomial.hierarchy.optimise import minimize
from lipcert.polynomial.hierarchy.solve import relax, solve_model
from lipcert.proof.sos import SosIdentity, SosProof, monomial_reach, prove_sos
from lipcert.rounding import Array
from lipcert.solver.conic.conic import ConicProblem, ConicSolution, ConicStatus, solve_conic
from tests.polynomial_problems import CHAIN, CYCLE5, DISK, LIBRARY, Named, max_cut

x = [Polynomial.variable(i) for i in range(4)]
rng = np.random.default_rng(0)
FREE = PolynomialProblem((x[0] ** 2 + x[1] - 11.0) ** 2 + (x[0] + x[1] ** 2 - 7.0) ** 2)
SMALL = [n for n in LIBRARY if n.problem.n <= 4 and n.name not in ("goldstein-price",)]


def lying(change: Callable[[Array], Array]) -> Callable[[ConicProblem], ConicSolution]:
    def solve(problem: ConicProblem) -> ConicSolution:
        true = solve_conic(problem)
        return ConicSolution(true.x, true.s, change(true.z), ConicStatus.OPTIMAL, 1e9, 1e9, 0.0, 1, "liar")

    return solve


LIES: dict[str, Callable[[Array], Array]] = {
    "zeros": lambda z: 0.0 * z,
    "nan": lambda z: np.full_like(z, np.nan),
    "one nan": lambda z: np.where(np.arange(len(z)) == 1, np.nan, z),
    "infinite": lambda z: np.full_like(z, np.inf),
    "noise": lambda z: z + 0.1 * rng.normal(size=len(z)),
    "little noise": lambda z: z + 1e-6 * rng.normal(size=len(z)),
    "huge": lambda z: 1e200 * z,
    "negated": lambda z: -z,
    "cut short": lambda z: z[:-1],
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_solver_loosens_and_never_breaks(lie: str) -> None:
    for named in SMALL:
        model = relax(named.problem, named.relaxation, named.order)
        bound = solve_model(model, solve=lying(LIES[lie])).bound
        sign = 1.0 if named.problem.sense == "min" else -1.0
        assert sign * bound <= sign * named.optimum + 1e-9 * (1 + abs(named.optimum)), named.name
        if lie == "little noise":
            assert np.isfinite(bound)


@pytest.mark.parametrize("lie", LIES)
def test_lies_about_other_relaxations(lie: str) -> None:
    """Nearly sparse with squares of a bad equality (optimum -0.96), Krivine (-1), rules (max-cut, 4)."""
    chain = PolynomialProblem(CHAIN.objective, CHAIN.inequalities, (0.3 - 0.3 * x[0] - 0.3 * x[1] - 0.3 * x[2],))
    square = PolynomialProblem(x[0] * x[1] - x[0] - x[1], lower=np.zeros(2), upper=np.ones(2)).boxed()
    liar = lying(LIES[lie])
    assert solve_model(relax(chain, "nearly-sparse", 2, [(0, 1), (1, 2)]), solve=liar).bound <= -0.96
    assert solve_model(relax(square, "krivine", 2), solve=liar).bound <= -1.0
    assert solve_model(relax(max_cut(5, CYCLE5), "dense", 2), solve=liar).bound >= 4.0


def test_true_duals_are_nearly_the_solvers_value() -> None:
    model = dense(SMALL[0].problem, 1)
    conic = model.conic()
    solution = solve_conic(conic.problem)
    lower, upper = model.bounds()
    proof = prove_sos(identity_of(conic, lower, upper), solution.z)
    assert proof.bound <= -0.5
    assert proof.bound == pytest.approx(solution.dual, abs=1e-6)


@pytest.mark.parametrize("named", [n for n in LIBRARY if n.problem.n <= 3], ids=lambda n: n.name)
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_the_identity_in_rational_arithmetic(named: Named, noise: float) -> None:
    model = relax(named.problem, named.relaxation, named.order)
    conic = model.conic()
    solution = solve_conic(conic.problem)
    lower, upper = model.bounds()
    identity = identity_of(conic, lower, upper)
    proof = prove_sos(identity, solution.z + noise * rng.normal(size=len(solution.z)))
    assert np.isfinite(proof.bound)
    gamma, residual = _exact_residual(conic, proof)
    for column, value in residual.items():
        assert abs(value) <= Fraction(float(proof.residual[column]))
    cost = sum((abs(v) * _reach(conic, c, lower, upper) for c, v in residual.items()), Fraction(0))
    sizes = _exact_sizes(conic, lower, upper)
    psd = [rows for cone, rows in conic.problem.blocks() if cone.kind == "psd"]
    for Q, shift, rows in zip(proof.grams, proof.shifts, psd, strict=True):
        assert _is_semidefinite(Q, shift)
        for i, s in enumerate(shift):
            cost += Fraction(float(s)) * sizes.get(rows.start + (i + 1) * (i + 2) // 2 - 1, Fraction(0))
    assert Fraction(proof.bound) <= gamma - cost


def _exact_residual(conic: MomentConic, proof: SosProof) -> tuple[Fraction, dict[int, Fraction]]:
    """f - sum of weighted terms; models without rules and products have exact coefficients."""
    left = {c: Fraction(float(v)) for c, v in enumerate(conic.objective)}
    for s, c, v in zip(conic.slots.tolist(), conic.columns.tolist(), conic.coefficients.tolist(), strict=True):
        left[c] -= Fraction(float(proof.weights[s])) * Fraction(v)
    gamma = left.pop(0)
    return gamma, left


def _exact_sizes(conic: MomentConic, lower: Array, upper: Array) -> dict[int, Fraction]:
    """By slot, sum |coefficient| max |x^a|."""
    sizes: dict[int, Fraction] = {}
    for s, c, v in zip(conic.slots.tolist(), conic.columns.tolist(), conic.coefficients.tolist(), strict=True):
        sizes[s] = sizes.get(s, Fraction(0)) + abs(Fraction(v)) * _reach(conic, c, lower, upper)
    return sizes


def _reach(conic: MomentConic, column: int, lower: Array, upper: Array) -> Fraction:
    product = Fraction(1)
    for i in conic.monomials[column]:
        product *= Fraction(float(max(abs(lower[i]), abs(upper[i]))))
    return product


def _is_semidefinite(Q: Array, shift: Array) -> bool:
    """LDL' of Q + diag(shift) in rational arithmetic."""
    n = len(Q)
    M = [[Fraction(float(Q[i, j])) for j in range(n)] for i in range(n)]
    for i in range(n):
        M[i][i] += Fraction(float(shift[i]))
    for k in range(n):
        if M[k][k] < 0 or (M[k][k] == 0 and any(M[k][j] for j in range(k + 1, n))):
            return False
        for i in range(k + 1, n):
            if M[k][k] and M[i][k]:
                ratio = M[i][k] / M[k][k]
                for j in range(k + 1, n):
                    M[i][j] -= ratio * M[k][j]
    return True


@pytest.mark.parametrize("seed", range(12))
def test_random_problems_bound_their_samples(seed: int) -> None:
    """Cubic objectives on boxes with a binary variable, a quadratic and an affine constraint; every relaxation."""
    random = np.random.default_rng(seed)
    monomials = [tuple(sorted(random.integers(0, 3, size=k).tolist())) for k in random.integers(0, 4, size=7)]
    f = Polynomial.from_terms({m: float(random.normal()) for m in monomials})
    lower = np.array([random.uniform(-2, -0.1), 0.0, random.uniform(-1, 0)])
    upper = np.array([random.uniform(0.1, 3), 1.0, random.uniform(0.1, 1)])
    g = (1.7 - 0.3 * x[0] * x[0] - 0.9 * x[0] * x[2], 1.9 - 0.7 * x[0] - 0.6 * x[1] - 0.4 * x[2])
    sense = "min" if seed % 2 else "max"
    problem = PolynomialProblem(f, g, (x[1] ** 2 - x[1],), sense, lower=lower, upper=upper).boxed()
    points = random.uniform(lower, upper, size=(20000, 3))
    points[:, 1] = np.round(points[:, 1])
    inside = np.all([h.evaluate(points) >= 0 for h in g], axis=0)
    values = f.evaluate(points[inside])
    for relaxation, order in (("dense", 2), ("sparse", 2), ("nearly-sparse", 2), ("krivine", 3)):
        bound = solve_model(relax(problem, relaxation, order)).bound
        assert np.isfinite(bound)
        assert bound <= values.min() if sense == "min" else bound >= values.max()


def test_unbounded_variables() -> None:
    """Definite Gram matrices absorb the residual; where they cannot, there is no bound and the reason is said."""
    result = minimize((x[0] - 1.0) ** 2 + (x[1] + 2.0) ** 2 + x[0] ** 4)
    best = 0.2892734309
    assert best - 1e-4 <= result.bound <= best
    himmelblau = minimize((x[0] ** 2 + x[1] - 11.0) ** 2 + (x[0] + x[1] ** 2 - 7.0) ** 2)
    assert -0.01 <= himmelblau.bound <= 0.0
    line = minimize(x[0] + x[1] ** 2)
    assert line.bound == -np.inf
    assert line.status in {f"not certified: variable x{i} is unbounded" for i in (1, 2)}
    motzkin = minimize(x[0] ** 4 * x[1] ** 2 + x[0] ** 2 * x[1] ** 4 - 3.0 * x[0] ** 2 * x[1] ** 2 + 1.0)
    assert motzkin.bound == -np.inf  # non-negative, yet no sum of squares


def test_one_unbounded_variable_beside_bounded_ones() -> None:
    result = minimize(x[1] ** 2 - 2.0 * x[1] * x[0] - x[0], [1.0 - x[0] ** 2])  # (y - x)^2 - x^2 - x
    assert -2.0 - 1e-3 <= result.bound <= -2.0


def test_unbounded_with_lies() -> None:
    model = dense(FREE, 2)
    for lie in LIES.values():
        assert solve_model(model, solve=lying(lie)).bound <= 0.0


def test_reach() -> None:
    rows = np.array([[-1, -1], [-1, 0], [0, 0], [0, 1], [1, 2], [2, 2]], dtype=np.int32)
    reach = monomial_reach(rows, np.array([-0.1, 0.0, -np.inf]), np.array([0.05, 0.0, 1.0]))
    assert reach[0] == 1.0
    assert Fraction(float(reach[2])) >= Fraction(0.1) ** 2
    assert reach[2] <= 0.01 * (1 + 1e-12)
    assert reach[3] == 0.0
    assert reach[4] == 0.0
    assert reach[5] == np.inf


def test_empty_identity() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    identity = SosIdentity(np.array([2.0]), np.zeros(1), nothing, nothing, np.zeros(0), 8, (), np.ones(1))
    assert prove_sos(identity, np.zeros(0)).bound <= 2.0
    constant = minimize(Polynomial.constant(3.0), lower=[0.0], upper=[1.0])
    assert 3.0 - 1e-6 <= constant.bound <= 3.0


def test_rules_that_round() -> None:
    """x^2 = 0.1 x + 0.3: the objective's merged coefficients carry an error, and the bound stays below both roots."""
    rule = 0.1 * x[0] + 0.3
    f = 0.7 * x[0] ** 3 + 0.1 * x[0] ** 2 - 0.9 * x[0]
    model = MomentModel(f, blocks=(MomentBlock(((), (0,))),), rules={0: rule}, n=1)
    assert np.all(model.conic().objective_error[:2] > 0)
    roots = [0.05 + s * np.sqrt(0.0025 + 0.3) for s in (1.0, -1.0)]
    result = solve_model(model)
    best = min(float(f.evaluate([r])[0]) for r in roots)
    assert best - 1e-6 <= result.bound <= best + 1e-15
    assert not np.any(dense(DISK, 1).conic().objective_error)


@pytest.mark.parametrize("size", [1e-90, 1e-30, 1e30, 1e90])
def test_large_and_small_coefficients(size: float) -> None:
    """min size (x^2 - x) = -size / 4 on [-1, 1], and mixed sizes."""
    for f in (size * x[0] ** 2 - size * x[0], x[0] ** 2 - x[0] + size * x[1] ** 3):
        result = minimize(f, lower=[-1.0, -1.0], upper=[1.0, 1.0], order=2)
        best = -size / 4 if f.degree == 2 else -0.25 - size
        assert result.bound <= best * (1 - 1e-15)
        assert result.bound >= best - 1e-6 * max(size, 1.0 if f.degree == 3 else 0.0)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_ends_of_the_range_are_refused(size: float) -> None:
    with pytest.raises(InputError, match="rescale the problem"):
        minimize(size * x[0] ** 2 - x[0], lower=[-1.0], upper=[1.0])


def test_scaling_is_undone() -> None:
    """Bounds far from one: 1000 <= x <= 3000, min (x - 2000)^2 - 7, and a scaled maximiser."""
    result = minimize((x[0] - 2000.0) ** 2 - 7.0, lower=[1000.0], upper=[3000.0])
    assert -8.0 <= result.bound <= -7.0
    assert isinstance(MomentModel(x[0], n=1).label(), tuple)
    tiny = minimize(x[0] ** 2 - 2e-3 * x[0], lower=[-0.01], upper=[0.01])
    assert -1e-6 - 1e-11 <= tiny.bound <= -1e-6
    assert tiny.minimizer == pytest.approx([1e-3], abs=1e-5)

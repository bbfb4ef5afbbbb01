"""Operator norms, rounded up: of one large matrix, and of many small ones at once.

For one matrix the spectral norm is proved by a Cholesky factorisation, for a large convolution by its symbol
(`symbols`), for any other large one by a positive vector, which is exact where no entry is negative. For stacks
(.., rows, columns) eigenvectors and positive vectors are hints: for any square V near orthogonal and any positive x

    lambda_max(S)  <=  max(0, lambda_max(V'SV)) / (1 - |V'V - I|)       V'SV is diagonal but for rounding [Gershgorin]
    |R|_2^2        <=  max_i (R'R x)_i / x_i                             R >= 0 entry by entry [Collatz-Wielandt]
"""

from __future__ import annotations

import itertools

import numpy as np

from lipcert.bounds.symbols import Symbol, convolution_norm
from lipcert.problem.convolution import Convolution
from lipcert.problem.maps import Matrix, Operator, Selected, Transposed, dense, entries, summed
from lipcert.problem.norms import EUCLIDEAN, Norm
from lipcert.rounding import TINY, UNIT, Array, add_up, gamma, grow, or_infinite
from lipcert.rounding.definite import is_positive
from lipcert.steps import step

_SPECTRAL_UP_TO = 4096  # the shorter side of a matrix whose Gram matrix is factored
_KERNEL_UP_TO = 2e10  # operations of a Gram matrix and its factors up to which convolutions have them too
_ROWS = 1 << 22  # numbers in the rows of a convolution that are written out at a time


def operator_norm(weight: Matrix, p: str, q: str, *, exact: bool = True) -> float:
    """An upper bound on max |weight t|_q over |t|_p <= 1; exact up to rounding for p = 1, for q = inf and for p = q.

    Else it is the least of what the rows, and the spectral norm with the norms' ratios, give. Without `exact` sums of
    rows and columns take the place of the spectral norm: a few products with the matrix, and no smaller bound.
    """
    rows, columns = weight.shape
    if p == "1":
        return float(np.max(Norm(q).rows_above(weight.T), initial=0.0))
    by_rows = Norm(q).above(Norm(p).dual.rows_above(weight))
    if q == "inf":
        return by_rows
    wide = columns if p == "inf" else 1  # |t|_2 <= sqrt(n) |t|_inf
    tall = rows if q == "1" else 1  # |v|_1 <= sqrt(m) |v|_2
    by_spectral = grow(
        np.sqrt(np.asarray(float(wide * tall))) * (spectral_norm(weight) if exact else EUCLIDEAN.gain(weight)), 4
    )
    return min(by_rows, float(by_spectral))


def spectral_norm(weight: Matrix) -> float:
    """An upper bound of the spectral norm: mu I - A A' (or A'A) is proved positive semidefinite."""
    if 0 in weight.shape:
        return 0.0
    kernel, cheap = _kernel(weight), EUCLIDEAN.gain(weight)
    A = weight if weight.shape[0] <= weight.shape[1] else weight.T
    n, terms = A.shape
    if not np.isfinite(cheap) or not 1e-100 < cheap < 1e100:
        return cheap
    if not _is_factored(weight, kernel):
        return min(cheap, _positive_norm(weight) if kernel is None else convolution_norm(kernel))
    step(_gram_operations(weight))  # the work below cannot be interrupted
    gram = _gram(A)
    gram = (gram + gram.T) / 2
    magnitude = abs(A)
    error = grow(gamma(terms + 8) * np.asarray(magnitude @ (magnitude.T @ np.ones(n))) + n * terms * TINY, n + terms)
    hint = _largest_eigenvalue(gram)
    for growth in (1e-6, 1e-3, 0.05):
        step(float(n) ** 3 / 3)
        mu = np.full(n, hint * (1.0 + growth))
        if is_positive(-gram, mu, error):
            return min(cheap, float(grow(np.sqrt(mu[:1]), 4)[0]))
    return cheap


def quick_norm(weight: Matrix, most: float) -> float:
    """An upper bound of the spectral norm in about so many operations: the norm, else that of all frequencies of a
    convolution, else sums of rows and columns."""
    if spectral_operations(weight) <= most:
        return spectral_norm(weight)
    kernel, cheap = _kernel(weight), EUCLIDEAN.gain(weight)
    return (
        min(cheap, convolution_norm(kernel)) if kernel is not None and Symbol.of(kernel).operations <= most else cheap
    )


def spectral_operations(weight: Matrix) -> float:
    """The operations of `spectral_norm`, about: a Gram matrix and its factors, or a symbol, or a few products."""
    kernel = _kernel(weight)
    if _is_factored(weight, kernel):
        return _gram_operations(weight)
    return 4.0 * _STEPS * entries(weight) if kernel is None else Symbol.of(kernel).operations


def _kernel(weight: Matrix) -> Convolution | None:
    """The convolution whose matrix has all rows of this one, or of its transpose; none for other matrices."""
    while isinstance(weight, Selected | Transposed):
        weight = weight.map
    return weight if isinstance(weight, Convolution) else None


def _is_factored(weight: Matrix, kernel: Convolution | None) -> bool:
    most = np.inf if kernel is None else _KERNEL_UP_TO
    return int(min(weight.shape)) <= _SPECTRAL_UP_TO and _gram_operations(weight) <= most


def _gram_operations(weight: Matrix) -> float:
    n = int(min(weight.shape))
    return 2.0 * n * entries(weight) + 2.0 * float(n) ** 3


def _positive_norm(weight: Matrix) -> float:
    """The spectral norm of the magnitudes of the entries, which is no less, by a positive vector (see above)."""
    size = abs(weight)
    x, terms = np.ones(weight.shape[1]), summed(weight, 0) + summed(weight, 1)
    for _ in range(_STEPS):
        y = np.asarray(size.T @ (size @ x))
        x = y / max(float(y.max()), TINY) + _LEAST
    above = grow(np.asarray(size.T @ (size @ x)), 2 * terms) / x
    return float(grow(np.sqrt(np.asarray(above.max(initial=0.0))), 8))


def _gram(A: Matrix) -> Array:
    """A A', of a convolution some rows at a time."""
    if not isinstance(A, Operator):
        return dense(A @ A.T)
    step = max(1, _ROWS // A.shape[1])
    return np.concatenate([dense(A[k : k + step]) @ A.T for k in range(0, A.shape[0], step)])


def _largest_eigenvalue(gram: Array) -> float:
    """A hint: the norm that is derived from it is proved."""
    from scipy.linalg import LinAlgError, eigh  # here, so that importing lipcert stays fast

    n = len(gram)
    if n <= 400:
        try:
            return float(eigh(gram, eigvals_only=True, subset_by_index=(n - 1, n - 1))[0])
        except LinAlgError:  # the search for one eigenvalue gives up on some plain matrices
            return float(np.linalg.eigvalsh(gram)[-1])
    from scipy.sparse.linalg import eigsh

    start = np.random.default_rng(0).standard_normal(n)
    return float(eigsh(gram, k=1, v0=start, tol=1e-7, return_eigenvectors=False)[0])


SIGNS_UP_TO = 8  # outputs: so many signs are enumerated for a norm to 1
CORNERS_UP_TO = 12  # inputs: so many signs are enumerated for a norm from inf to 2
_STEPS = 12  # steps of the power method
_LEAST = 1e-6  # added to every entry of a positive vector, relative to its largest
_CROOKED = 0.1  # the largest |V'V - I| that is accepted
_NUMBERS = 1 << 22  # in one array of products with corners


def matrix_norms(middle: Array, radius: Array, p: str, q: str) -> Array:
    """Upper bounds of the norm from p to q of every matrix within `radius` of `middle`, entry by entry.

    Exact, up to rounding and the radius, from 2 to 2, from 1, to inf, to 1 with few rows, and from inf to 2 with few
    columns; else the least of what rows, magnitudes and the spectral norm give.
    """
    magnitude = or_infinite(grow(np.abs(middle) + radius, 2))
    by_rows = vector_norms(vector_norms(magnitude, Norm(p).dual.p), q)
    if p == "1":
        return np.asarray(vector_norms(np.swapaxes(magnitude, -1, -2), q).max(axis=-1, initial=0.0))
    if q == "inf":
        return by_rows
    rows, columns = middle.shape[-2:]
    more = spectral_norms(middle, radius)
    if (p, q) != ("2", "2"):
        factor = float((columns if p == "inf" else 1) * (rows if q == "1" else 1))
        more = grow(np.sqrt(np.asarray(factor)) * more, 4)
    if q == "1" and rows <= SIGNS_UP_TO:
        signs = corners(rows)
        moved = np.abs(signs @ middle) + vector_norms(np.swapaxes(radius, -1, -2), "1")[..., None, :]
        error = gamma(rows + 2) * vector_norms(np.swapaxes(np.abs(middle), -1, -2), "1")[..., None, :]
        more = np.fmin(more, vector_norms(grow(moved + error, 4), Norm(p).dual.p).max(axis=-1))
    if (p, q) == ("inf", "2") and columns <= CORNERS_UP_TO:
        more = np.fmin(more, grow(corner_norms(middle) + vector_norms(vector_norms(radius, "1"), "2"), 2))
    return np.fmin(by_rows, or_infinite(more))


def hard(p: str, q: str, rows: int, columns: int) -> str | None:
    """Why the norm of one matrix of this shape is not computed, in words; None where it is, up to rounding."""
    if q == "1" and p != "1" and rows > SIGNS_UP_TO:
        return f"norm {p} to 1 of {rows} outputs is hard: it is computed up to {SIGNS_UP_TO}"
    if (p, q) == ("inf", "2") and rows > 1 and columns > CORNERS_UP_TO:
        return f"norm inf to 2 of {columns} inputs is hard: it is computed up to {CORNERS_UP_TO}"
    return None


def vector_norms(magnitudes: Array, p: str) -> Array:
    """Upper bounds of the norm of all vectors with these largest |entries|, along the last axis."""
    n = magnitudes.shape[-1]
    match p:
        case "inf":
            return np.asarray(magnitudes.max(axis=-1, initial=0.0))
        case "1":
            return grow(magnitudes.sum(axis=-1), n)
        case _:
            most = magnitudes.max(axis=-1, keepdims=True, initial=0.0)
            unit = np.where(most > 0, magnitudes / np.where(most > 0, most, 1.0), 0.0)  # squares would vanish
            length = grow(np.sqrt(grow(np.square(unit).sum(axis=-1), n + 4)), 4)
            return np.where(np.isfinite(most[..., 0]), grow(most[..., 0] * length, 4), np.inf)


def spectral_norms(middle: Array, radius: Array) -> Array:
    """Upper bounds of the spectral norm: the sum of the norms of middle and radius."""
    return grow(middle_norms(middle) + positive_norms(radius), 2)


def middle_norms(M: Array) -> Array:
    """Upper bounds of every matrix's spectral norm, by the eigenvalues of the smaller of both Gram matrices."""
    M, unit = _scaled(M)
    empty = unit == 0
    if M.shape[-2] > M.shape[-1]:
        M = np.swapaxes(M, -1, -2)
    n = M.shape[-1]
    size = np.abs(M)
    gram, error = M @ np.swapaxes(M, -1, -2), gamma(n + 2) * (size @ np.swapaxes(size, -1, -2)) + 4 * n * TINY
    top = largest_eigenvalues(gram, grow(error, n + 4))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(empty, TINY, or_infinite(grow(np.sqrt(top) * unit, 6)))


def positive_norms(R: Array) -> Array:
    """Upper bounds of the spectral norm of every matrix with these largest |entries|."""
    filled = R != 0
    R, unit = _scaled(R)
    rows, columns = R.shape[-2:]
    R = np.where(filled, R + TINY, 0.0)  # for what vanished in the division
    x = np.ones((*R.shape[:-2], columns, 1))
    across = np.swapaxes(R, -1, -2)
    for _ in range(_STEPS):
        y = across @ (R @ x)
        x = y / np.maximum(y.max(axis=-2, keepdims=True), TINY) + _LEAST
    above = grow(across @ (R @ x), 2 * (rows + columns))[..., 0] / x[..., 0]
    with np.errstate(invalid="ignore", over="ignore"):
        return or_infinite(grow(np.sqrt(grow(above.max(axis=-1, initial=0.0), 4)) * unit, 6))


def largest_eigenvalues(S: Array, radius: Array) -> Array:
    """Upper bounds of the largest eigenvalue, or zero, of symmetric matrices within `radius` of S, entry by entry."""
    n = S.shape[-1]
    S = (S + np.swapaxes(S, -1, -2)) / 2
    radius = grow(np.maximum(radius, np.swapaxes(radius, -1, -2)) + 2 * UNIT * np.abs(S) + TINY, 4)
    fine = np.isfinite(S.sum(axis=(-1, -2)) + radius.sum(axis=(-1, -2)))
    V = _vectors(np.where(fine[..., None, None], S, 0.0))
    across, size = np.swapaxes(V, -1, -2), np.abs(V)
    turned = across @ (S @ V)
    lost = gamma(2 * n + 4) * (np.swapaxes(size, -1, -2) @ (np.abs(S) @ size)) + 4 * n * n * TINY
    own = np.einsum("...ii->...i", turned)
    off = grow((np.where(np.eye(n, dtype=bool), 0.0, np.abs(turned)) + lost).sum(axis=-1), 4 * n)
    top = np.maximum(add_up(own, off).max(axis=-1, initial=0.0), 0.0)
    crooked = np.abs(across @ V - np.eye(n)) + gamma(n + 4) * (np.swapaxes(size, -1, -2) @ size + np.eye(n))
    bend = grow(crooked.sum(axis=-1), 4 * n + 8).max(axis=-1, initial=0.0)
    straight = np.where(bend < _CROOKED, 1.0 - 2 * bend, 1.0)  # twice: for the rounding of the difference
    answer = grow(grow(top / straight, 4) + positive_norms(radius), 2)
    return np.where(fine & (bend < _CROOKED), answer, np.inf)


def _vectors(S: Array) -> Array:
    """Eigenvectors, as a hint."""
    try:
        return np.asarray(np.linalg.eigh(S)[1])
    except np.linalg.LinAlgError:
        return np.broadcast_to(np.eye(S.shape[-1]), S.shape)


def corner_norms(M: Array) -> Array:
    """Upper bounds of the largest |M t|_2 over the corners t of the unit box; few columns."""
    columns = M.shape[-1]
    flat = M.reshape(-1, *M.shape[-2:])
    signs = corners(columns)
    step = max(1, _NUMBERS // (len(signs) * M.shape[-2]))
    found = [_corner_norms(flat[k : k + step], signs) for k in range(0, len(flat), step)]
    return np.concatenate(found).reshape(M.shape[:-2]) if found else np.zeros(M.shape[:-2])


def corners(n: int) -> Array:
    """The corners of the unit box, one of every opposite pair."""
    return np.array(list(itertools.product((1.0,), *[(-1.0, 1.0)] * (n - 1))))


def _corner_norms(M: Array, signs: Array) -> Array:
    most = vector_norms(np.abs(M), "1")[:, :, None]  # no product is larger
    moved = grow(np.abs(M @ signs.T) + gamma(M.shape[-1] + 2) * most, 4)
    return np.asarray(vector_norms(np.swapaxes(moved, -1, -2), "2").max(axis=-1))


def _scaled(A: Array) -> tuple[Array, Array]:
    """Every matrix divided by a power of two not below its largest |entry|, so that squares neither vanish nor
    overflow. The divisor is said to be zero where all entries are, and infinite where one is."""
    most = np.abs(A).max(axis=(-1, -2), initial=0.0)
    fine = np.isfinite(most) & (most > 0)
    unit = np.ldexp(1.0, np.clip(np.frexp(np.where(fine, most, 1.0))[1], -1000, 1000))
    scaled = np.where(np.isfinite(A), A, 0.0) / unit[..., None, None]
    return scaled, np.where(fine, unit, np.where(most == 0, 0.0, np.inf))

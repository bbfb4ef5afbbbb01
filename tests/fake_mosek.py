"""A stand-in for the package mosek: the calls of its documentation, on data kept in numpy, solved by Clarabel.

MOSEK's problem: min c'x + sum <C_j, X_j>  s.t.  A x + sum <A_j, X_j> = b, x free or >= 0, X_j >= 0; y are the
multipliers of the rows, s_l those of x >= 0, S_j those of X_j; triangles are lower ones by columns.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from lipcert.solver.conic.conic import Cone, ConicProblem, ConicStatus, smat, solve_conic, svec


class Error(Exception):
    """As mosek.Error."""


class _Names:
    """Any attribute is the string `kind.attribute`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __getattr__(self, name: str) -> str:
        return f"{self.kind}.{name}"


def lower(matrix: Any) -> Any:
    """The lower triangle by columns, unscaled."""
    column, row = np.triu_indices(len(matrix))
    return matrix[row, column]


class Task:
    """The part of mosek.Task that the back end calls."""

    raises: Error | None = None
    answers: tuple[str, str] | None = None  # solution status and termination code, in place of the true ones

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}

    def __enter__(self) -> Task:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def set_Stream(self, _stream: str, write: Any) -> None:
        write("MOSEK\n")

    def putintparam(self, name: str, value: Any) -> None:
        self.parameters[name] = value

    putdouparam = putintparam

    def appendcons(self, number: int) -> None:
        self.m = number

    def appendvars(self, number: int) -> None:
        self.n = number
        self.appendbarvars([])
        self.c, self.A, self.free = np.zeros(number), np.zeros((self.m, number)), np.zeros(number, bool)

    def putvarboundsliceconst(self, first: int, last: int, key: str, *_: float) -> None:
        self.free[first:last] = key == "boundkey.fr"

    def putclist(self, where: Any, values: Any) -> None:
        self.c[where] = values

    def putconboundslice(self, first: int, last: int, keys: list[str], low: Any, high: Any) -> None:
        assert (first, last) == (0, self.m)
        assert set(keys) == {"boundkey.fx"}
        assert np.array_equal(low, high)
        self.b = np.array(low)

    def putobjsense(self, sense: str) -> None:
        assert sense == "objsense.minimize"

    def putaijlist(self, i: Any, j: Any, values: Any) -> None:
        self.A[i, j] = values

    def appendbarvars(self, orders: list[int]) -> None:
        self.orders: list[int] = orders
        self.C = [np.zeros((n, n)) for n in orders]
        self.F = [np.zeros((self.m, n, n)) for n in orders]

    def putbarcblocktriplet(self, block: Any, k: Any, ell: Any, values: Any) -> None:
        assert np.all(k >= ell)
        for j, p, q, v in zip(block, k, ell, values, strict=True):
            self.C[j][p, q] = self.C[j][q, p] = v

    def putbarablocktriplet(self, i: Any, block: Any, k: Any, ell: Any, values: Any) -> None:
        assert np.all(k >= ell)
        for row, j, p, q, v in zip(i, block, k, ell, values, strict=True):
            self.F[j][row, p, q] = self.F[j][row, q, p] = v

    def optimize(self) -> str:
        if self.raises is not None:
            raise self.raises
        E = np.hstack([self.A, *(svec(F) for F in self.F)])
        f = np.concatenate([self.c, *(svec(C) for C in self.C)])
        signed = np.flatnonzero(~self.free)
        tail = np.eye(E.shape[1])[np.concatenate([signed, np.arange(self.n, E.shape[1])])]
        cones = (Cone("zero", self.m), Cone("nonnegative", len(signed)), *(Cone("psd", n) for n in self.orders))
        problem = ConicProblem(f, np.vstack([E, -tail]), np.r_[self.b, np.zeros(len(tail))], cones)
        found = solve_conic(problem, "clarabel")
        self.status = {
            ConicStatus.OPTIMAL: "optimal",
            ConicStatus.INFEASIBLE: "prim_infeas_cer",
            ConicStatus.UNBOUNDED: "dual_infeas_cer",
        }[found.status]
        self.x, self.y = found.x[: self.n], -found.z[: self.m]
        self.slx = np.zeros(self.n)
        self.slx[signed] = found.z[self.m : self.m + len(signed)]
        ends = np.cumsum([n * (n + 1) // 2 for n in self.orders])[:-1]
        self.X = [smat(v) for v in np.split(found.x[self.n :], ends)] if self.orders else []
        self.S = [smat(v) for v in np.split(found.z[self.m + len(signed) :], ends)] if self.orders else []
        return f"rescode.{self.answers[1] if self.answers else 'ok'}"

    def getsolsta(self, _which: str) -> str:
        return f"solsta.{self.answers[0] if self.answers else self.status}"

    def getxx(self, _which: str) -> Any:
        return self.x

    def getslx(self, _which: str) -> Any:
        return self.slx

    def gety(self, _which: str) -> Any:
        return self.y

    def getbarxj(self, _which: str, j: int) -> Any:
        return lower(self.X[j])

    def getbarsj(self, _which: str, j: int) -> Any:
        return lower(self.S[j])

    def getintinf(self, _item: str) -> int:
        return 7


def module(**changes: Any) -> Any:
    """A module object for sys.modules; `changes` are attributes of its Task."""
    kinds = (
        "soltype",
        "iinfitem",
        "iparam",
        "dparam",
        "optimizertype",
        "basindtype",
        "boundkey",
        "objsense",
        "streamtype",
    )
    task = type("Task", (Task,), changes)
    return SimpleNamespace(Task=task, Error=Error, **{kind: _Names(kind) for kind in kinds})

"""The exported .dat-s file, read by a parser of our own and solved by clarabel, has the value of the relaxation."""

from __future__ import annotations

from pathlib import Path

import clarabel
import numpy as np
import pytest
from scipy import sparse

from lipcert import Box, Everywhere
from lipcert.problem.problem import Problem
from lipcert.problem.region import Region
from lipcert.relaxation.model import write_sdpa
from tests.lift_tools import built
from tests.one_layer_tools import random_case, solved


class _Sdpa:
    """max F0.Y s.t. Fk.Y = c_k, Y >= 0: the format's dual side. Blocks of negative size are diagonal."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text(encoding="ascii").splitlines()
        while lines[0][0] in '"*':
            lines.pop(0)
        rows, blocks = int(lines[0]), int(lines[1])
        self.sizes = [int(n) for n in lines[2].split()]
        self.rhs = np.array([float(v) for v in lines[3].split()])
        assert (len(self.sizes), len(self.rhs)) == (blocks, rows)
        self.entries = []
        for line in lines[4:]:
            k, block, i, j, value = line.split()
            self.entries.append((int(k), int(block) - 1, int(i) - 1, int(j) - 1, float(value)))
        assert len({entry[:4] for entry in self.entries}) == len(self.entries), "an entry is given twice"
        assert all(i <= j for _, _, i, j, _ in self.entries)
        assert all(i == j for _, block, i, j, _ in self.entries if self.sizes[block] < 0)

    def maximum(self) -> float:
        """The variables are svec(Y) block by block (columns of the upper triangle)."""
        starts = np.cumsum([0, *(n * (n + 1) // 2 if n > 0 else -n for n in self.sizes)])
        objective, equations = np.zeros(starts[-1]), np.zeros((len(self.rhs), starts[-1]))
        for k, block, i, j, value in self.entries:
            place = starts[block] + (j * (j + 1) // 2 + i if self.sizes[block] > 0 else i)
            weight = value if i == j else np.sqrt(2.0) * value
            if k == 0:
                objective[place] -= weight
            else:
                equations[k - 1, place] += weight
        A = sparse.csc_matrix(np.vstack([equations, -np.eye(starts[-1])]))
        b = np.concatenate([self.rhs, np.zeros(starts[-1])])
        cones = [clarabel.ZeroConeT(len(self.rhs))]
        cones += [clarabel.PSDTriangleConeT(n) if n > 0 else clarabel.NonnegativeConeT(-n) for n in self.sizes]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        none = sparse.csc_matrix((starts[-1], starts[-1]))
        solution = clarabel.DefaultSolver(none, objective, A, b, cones, settings).solve()
        assert str(solution.status) in ("Solved", "AlmostSolved")
        return -float(solution.obj_val)


@pytest.mark.parametrize("method", ["hr2", "shor"])
@pytest.mark.parametrize("seed", [0, 1])
def test_exported_program_has_the_same_value(method: str, seed: int, tmp_path: Path) -> None:
    net, box, c = random_case(seed, 5, 6, 0.6, 0.1 * seed)
    regions: list[Region] = [box, Everywhere(), Box(box.center, np.array([0.6, 0.0, 0.6, 0.6, 0.6]))]
    for region in regions:
        relaxation = built(Problem.of(net, region, c), method)
        path = tmp_path / "problem.dat-s"
        write_sdpa(path, relaxation, "a title")
        program = _Sdpa(path)
        assert program.sizes[0] == relaxation.problem.size
        assert len(program.rhs) == relaxation.problem.rows
        assert program.maximum() + relaxation.offset == pytest.approx(solved(net, region, c, method).upper, rel=1e-5)


def test_title_comes_first_and_numbers_are_exact(tmp_path: Path) -> None:
    net, box, c = random_case(2, 3, 3, 0.5)
    relaxation = built(Problem.of(net, box, c), "hr2")
    write_sdpa(tmp_path / "problem.dat-s", relaxation, "näme")
    first = (tmp_path / "problem.dat-s").read_text(encoding="ascii").splitlines()[0]
    assert first.startswith('"n?me; bound = optimal value + ')
    program = _Sdpa(tmp_path / "problem.dat-s")
    C = np.zeros((relaxation.problem.size,) * 2)
    for k, _, i, j, value in program.entries:
        if k == 0:
            C[i, j] = C[j, i] = value
    assert np.array_equal(C, relaxation.problem.objective.toarray())
    assert np.array_equal(program.rhs, relaxation.problem.rhs)

"""Small whole files of every format that is read, to be damaged: networks, regions, problems, data sets, proofs."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io

from benchmarks.fuzz._problems import random_network

NNET = """// a network
2,2,1,3,
2,3,1,
0,
-1.0,-1.0,
1.0,1.0,
0.0,0.0,0.0,
1.0,1.0,1.0,
0.5,-1.0,
1.5,0.25,
-0.125,2.0,
0.1,
-0.2,
0.3,
1.0,-1.0,0.5,
0.25,
"""
VNNLIB = """; a property
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(assert (<= X_0 0.5))
(assert (>= X_0 -0.5))
(assert (and (<= X_1 1e-1) (>= X_1 -1.0)))
(assert (or (and (>= Y_0 1.0)) (and (<= Y_0 -1.0))))
"""
POP = """variables x y z
minimize x*y + 2*(y - z)^2 - 0.5*x
x^2 + y^2 <= 1
-1 <= z <= 1
clique x y
clique y z
bad x + y + z = 1
"""
GAMS = """* a scalar model
Variables x1, x2, x3, objvar;
Positive Variables x2;
Binary Variables x3;
Equations e1, e2, e3;
e1.. sqr(x1) + 2*x1*x2 - 0.5*power(x2, 3) + x3 - objvar =E= 0;
e2.. x1**2 + x2**2 =L= 4.5;
e3.. x1 - (x2 - 1)/2 =G= -1E0;
x1.lo = -2; x1.up = 2; x2.up = 3; x1.l = 0.25;
Model m / all /;
m.limrow = 0;
Solve m using NLP minimizing objvar;
"""
BOXQP = "3\n1 -2 0.5\n2 1 0\n1 -4 3e0\n0 3 -1\n"
SIDES = "1,0.5,2,1\n-1,0,1e-1,0.5\n"
CSV = "a,b,c\n0.5,1,-2\n1e-3,0,4\n-1,2.25,0\n"

SUFFIXES = {
    "multipliers": ".proof.npz",
    "tree": ".proof.npz",
    "patterns": ".proof.npz",
    "halfspaces": ".proof.npz",
    "literal": ".proof.npz",
    "jacobian": ".jacobian.npz",
    "partition": ".cells.npz",
    "union": ".union.npz",
    "margins": ".margins.npz",
    "polynomial": ".polynomial.npz",
}


@dataclass(frozen=True)
class Source:
    """A whole file: how its name ends, its bytes, and those of the file beside it."""

    name: str
    suffix: str
    content: bytes
    data: bytes | None = None


@cache
def sources() -> tuple[Source, ...]:
    """All but ONNX, which has damage of its own."""
    rng = np.random.default_rng(5)
    found = [Source("nnet", ".nnet", NNET.encode()), Source("vnnlib", ".vnnlib", VNNLIB.encode())]
    found.append(Source("vnnlib packed", ".vnnlib.gz", gzip.compress(VNNLIB.encode(), mtime=0)))
    found += [Source("pop", ".pop", POP.encode()), Source("csv", ".csv", CSV.encode())]
    found += [Source("gams", ".gms", GAMS.encode()), Source("boxqp", ".in", BOXQP.encode())]
    sides = np.array([[1, 0.5, 2, 1], [-1, 0, 0.1, 0.5]])
    found.append(Source("half-spaces", ".sides.csv", SIDES.encode()))
    found.append(Source("half-spaces in npz", ".sides.npz", _archive({"A": sides[:, :-1], "b": sides[:, -1]})))
    problem: dict[str, Any] = {"variables": ["x", "y"], "minimize": "x*y - x^2", "constraints": ["x^2 + y^2 <= 1"]}
    problem |= {"bounds": {"x": [-1, 1], "y": [None, 2.5]}, "cliques": [["x", "y"]], "bad": ["x + y = 1"]}
    found.append(Source("pop in json", ".json", json.dumps(problem).encode()))
    images = rng.integers(0, 255, size=(3, 4, 4), dtype=np.uint8)
    idx = b"\0\0\x08\x03" + np.array(images.shape, dtype=">u4").tobytes() + images.tobytes()
    found += [Source("idx", ".idx", idx), Source("idx packed", ".idx.gz", gzip.compress(idx, mtime=0))]
    found.append(Source("npy", ".npy", _numpy(rng.normal(size=(3, 2)))))
    found.append(Source("data", ".data.npz", _archive({"images": images, "labels": np.array([0, 1, 2])})))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.npz"
        for k in range(6):
            random_network(rng, 3, 4).save(path)
            found.append(Source(f"npz {k}", ".npz", path.read_bytes()))
    return tuple(found + _mats(rng) + _certificates())


def _certificates() -> list[Source]:
    """Two of every kind of question, and of some kinds of proof of one constant."""
    from benchmarks.fuzz.forged import KINDS, base

    found = []
    for k, kind in enumerate(KINDS + KINDS):
        if kind in SUFFIXES:
            found.append(Source(f"{kind} {k}", SUFFIXES[kind], _archive(base(k).arrays)))
    return found


def _mats(rng: np.random.Generator) -> list[Source]:
    cells = np.empty((1, 2), dtype=object)
    cells[0, 0], cells[0, 1] = rng.normal(size=(3, 2)), rng.normal(size=(1, 3))
    one = {"A": rng.normal(size=(3, 2)), "b": rng.normal(size=3), "c": rng.normal(size=3), "x00": np.zeros(2)}
    found = []
    for name, variables in (("one output", one), ("chain", {"weights": cells})):
        for packed in (False, True):
            stream = io.BytesIO()
            scipy.io.savemat(stream, variables, do_compression=packed)
            content = b"MATLAB 5.0 MAT-file".ljust(116) + stream.getvalue()[116:]  # the header has the time of day
            found.append(Source(f"mat {name}{' packed' * packed}", ".mat", content))
    return found


@cache
def graphs() -> tuple[Any, ...]:
    """ONNX models, each as one file and with its tensors in a second one; none where onnx is not installed."""
    try:
        from benchmarks.fuzz._onnx_damage import Source as Graph
        from benchmarks.fuzz._onnx_damage import outside
        from benchmarks.reading.patterns import patterns
    except ImportError:
        return ()
    found = []
    for pattern in patterns(""):
        content = pattern.model().SerializeToString()
        found.append(Graph(pattern.name, content))
        if pattern.constants and not pattern.edit:
            found.append(outside(pattern.name, content))
    return tuple(found)


def _numpy(values: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=False)
    return stream.getvalue()


def _archive(arrays: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()

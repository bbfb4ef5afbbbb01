"""One process that reads damaged files, many in a row; the parent watches its clock.

    python -m benchmarks.reading._fuzz_worker SOURCES FOLDER SEED FIRST LAST COMPARE

Prints `begin N` before each file and one line of JSON after it. Ends itself when it has grown beyond a gigabyte.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.reading._mutants import Source, mutant, stored

ROOM = 1_500_000_000  # bytes of address space above what the process starts with
LIMIT = 2**20  # kilobytes of memory that a file may need


def main(sources_path: str, folder_name: str, seed: str, first: str, last: str, compare: str) -> None:
    import lipcert
    from lipcert.readers import onnx as warm  # noqa: F401 - so that imports are not counted for the first file

    sources = stored(Path(sources_path))
    folder = Path(folder_name)
    lipcert.load(_first(sources, folder))
    warnings.simplefilter("error")  # a warning that leaks out of a reader is a fault
    base = _peak()
    if compare == "0":
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    for number in range(int(first), int(last)):
        source, kind = mutant(sources, int(seed), number, folder)
        print(f"begin {number}", flush=True)
        start = time.perf_counter()
        outcome, message, network = _read(folder / "model.onnx")
        grown = _peak() - base
        row = {"number": number, "source": source, "damage": kind, "outcome": outcome, "message": message}
        row |= {"seconds": round(time.perf_counter() - start, 3), "megabytes": grown // 1024}
        if grown > LIMIT and outcome in ("read", "refused"):
            row["outcome"] = "memory"
        if outcome == "read" and _left_the_folder(folder):
            row["outcome"] = "followed"
        if compare != "0" and network is not None and row["outcome"] == "read":
            row["outcome"] = _compared(network, folder / "model.onnx")
        print(json.dumps(row), flush=True)
        if grown > LIMIT:
            return


def _first(sources: list[Source], folder: Path) -> Path:
    """A file that is read, whole, to load all modules of the package."""
    path = folder / "model.onnx"
    path.write_bytes(next(s for s in sources if s.name.startswith("gemm")).model)
    return path


def _read(path: Path) -> tuple[str, str, Any]:
    import lipcert

    try:
        network = lipcert.load(path)
    except lipcert.LipcertError as error:
        message = str(error)
        if "not enough memory" in message:
            return "memory", message, None
        return ("refused" if "\n" not in message and len(message) < 2000 else "many lines"), message[:300], None
    except MemoryError as error:
        return "memory", f"MemoryError: {error}"[:300], None
    except Exception as error:
        import traceback

        where = traceback.extract_tb(error.__traceback__)[-1]
        return "exception", f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"[:300], None
    return "read", "", network


def _left_the_folder(folder: Path) -> bool:
    """Whether a file that was read keeps a tensor that is used elsewhere than in a plain file of its folder."""
    graph = onnx.ModelProto.FromString((folder / "model.onnx").read_bytes()).graph
    used = {name for node in graph.node for name in node.input}
    places = {e.value for t in graph.initializer if t.name in used for e in t.external_data if e.key == "location"}
    return any("/" in place or place in ("", ".", "..") or (folder / place).is_symlink() for place in places)


def _compared(network: Any, path: Path) -> str:
    """Whether onnxruntime computes the same, where it reads the file too."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(str(path), options)
        value = session.get_inputs()[0]
        shape = [n if isinstance(n, int) and n > 0 else 1 for n in value.shape]
        kind = np.float64 if "double" in value.type else np.float32
        points = np.random.default_rng(0).standard_normal((3, network.inputs)).astype(kind)
        output = next(o.name for o in session.get_outputs() if "tensor(" in o.type and "int" not in o.type)
        found = np.stack([np.ravel(session.run([output], {value.name: x.reshape(shape)})[0]) for x in points])
    except Exception:
        return "read"
    if any("softmax" in note.lower() for note in network.notes):  # left out, as it should be
        return "read"
    ours = network.forward(points.astype(np.float64))
    if found.shape != ours.shape:
        return "differs"
    if not np.all(np.isfinite(found)):
        return "read"
    near = np.max(np.abs(ours - found)) <= 1e-4 * max(float(np.max(np.abs(found))), 1e-6)
    return "read the same" if near else "differs"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main(*sys.argv[1:])

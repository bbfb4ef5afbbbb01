"""The list of hand-written ONNX graphs, over the operator sets 7 to 21: what `onnx` of this benchmark reads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reading._judge import Row, Truth, judge
from benchmarks.reading._pattern import Pattern
from benchmarks.reading._patterns_functions import function_patterns
from benchmarks.reading._patterns_joins import join_patterns
from benchmarks.reading._patterns_models import model_patterns
from benchmarks.reading._patterns_windows import window_patterns

POINTS = 20
# The evaluator of onnx 1.23 mixes the input's own statistics in at this operator set; numpy agrees with onnxruntime.
EVALUATOR_WRONG = ("batch_normalization",)
PARTS = (join_patterns, window_patterns, function_patterns, model_patterns)


def patterns(only: str = "") -> Iterator[Pattern]:
    """All graphs, or those whose name holds `only`."""
    return (pattern for part in PARTS for pattern in part() if only in pattern.name)


def read_patterns(folder: Path, only: str) -> Iterator[Row]:
    """Each graph read by `lipcert.load`, beside onnxruntime."""
    import lipcert

    for pattern in patterns(only):
        path = pattern.write(folder / "patterns")
        options: dict[str, Any] = {} if pattern.given is None else {"onnx_output": pattern.given}
        inputs = pattern.inputs(POINTS)
        values = None if pattern.refused else pattern.run(inputs)
        truth = Truth(inputs, values, final=pattern.final)
        yield judge(
            Row("onnx", pattern.name, f"opset {pattern.opset}"),
            partial(lipcert.load, path, **options),
            truth,
            pattern.refused,
        )


def check_patterns(folder: Path, only: str) -> Iterator[Row]:
    """Whether onnx's reference evaluator and onnxruntime agree on each graph, without lipcert."""
    from onnx.reference import ReferenceEvaluator

    del folder
    for pattern in patterns(only):
        row = Row("onnx", pattern.name, f"opset {pattern.opset}", outcome="agree")
        inputs = pattern.inputs(3)
        try:
            values = pattern.run(inputs)
        except Exception as error:
            row.outcome, row.message = "not run", f"{type(error).__name__}: {error}".splitlines()[0]
            row.expected = bool(pattern.refused)
            yield row
            continue
        try:
            other: Any = ReferenceEvaluator(pattern.model(as_run=True))
            kind = np.float64 if pattern.kind == 11 else np.float32
            feeds = [{"X": x.reshape(pattern.shape).astype(kind)} for x in inputs]
            found = np.stack(
                [np.asarray(other.run([pattern.output], f)[0], dtype=np.float64).reshape(-1) for f in feeds]
            )
            row.values = float(np.max(np.abs(found - values))) / max(float(np.max(np.abs(values))), 1e-30)
            row.outcome = "agree" if row.values <= 1e-5 else "differ"
            row.expected = row.outcome == "agree" or bool(pattern.refused) or pattern.name in EVALUATOR_WRONG
        except Exception as error:  # the evaluator has gaps: onnxruntime is the judge
            row.outcome, row.message = "run once", f"{type(error).__name__}: {error}".splitlines()[0][:100]
        yield row

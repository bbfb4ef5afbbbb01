"""The torch modules that people have, by kinds, read through ONNX files and through `lipcert.from_torch`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.reading._activations import activation_cases
from benchmarks.reading._blocks import block_cases
from benchmarks.reading._case import Case
from benchmarks.reading._convolutions import convolution_cases
from benchmarks.reading._exports import EXPORTERS, NotExported, exported, silence
from benchmarks.reading._forwards import forward_cases
from benchmarks.reading._judge import Row, Truth, judge, relative
from benchmarks.reading._layers import layer_cases
from benchmarks.reading._products import product_cases
from benchmarks.reading._refusals import refusal_cases

POINTS = 20
PARTS = (layer_cases, convolution_cases, block_cases, forward_cases, activation_cases, product_cases, refusal_cases)


def cases(only: str = "") -> Iterator[Case]:
    """All modules, or those whose name or kind holds `only`."""
    for part in PARTS:
        for case in part():
            if only in case.name or only in case.kind:
                yield case


def truth_of(case: Case) -> Truth:
    """Values and gradients of a copy of the module in double precision; values in single precision are near."""
    inputs = case.inputs(POINTS).requires_grad_()
    with silence():
        single = case.module()(inputs.detach().float()).reshape(POINTS, -1)
        values = case.module().double()(inputs).reshape(POINTS, -1)
    weights = torch.randn(values.shape[1], generator=torch.Generator().manual_seed(2)).double()
    if case.final:
        weights -= weights.mean()
    logs = torch.log(values) if case.final == "softmax" else values
    (logs @ weights).sum().backward()
    if relative(single.detach().numpy(), values.detach().numpy()) > 1e-4:
        raise RuntimeError(f"{case.name}: single and double precision differ; the case is badly chosen")
    gradients = inputs.grad.reshape(POINTS, -1).numpy()
    flat = inputs.detach().reshape(POINTS, -1).numpy()
    return Truth(flat, values.detach().numpy(), weights.numpy(), gradients, case.final)


def read_exports(folder: Path, only: str) -> Iterator[Row]:
    """Each module exported by each exporter, then read by `lipcert.load`."""
    import lipcert

    for case in cases(only):
        truth = truth_of(case)
        for how in EXPORTERS:
            row = Row(f"torch export, {how}", case.name, case.kind)
            try:
                path = exported(case, how, folder)
            except NotExported as error:
                row.outcome, row.message, row.counted = "not exported", str(error), False
                yield row
                continue
            if how != "default" and case.kind == "refused: control flow":
                continue  # tracing keeps the branch that it took: the file is another network
            yield judge(row, partial(lipcert.load, path), truth, case.refused)


def read_modules(folder: Path, only: str) -> Iterator[Row]:
    """Each module read by `lipcert.from_torch`, which must leave it as it was."""
    import lipcert

    del folder
    for case in cases(only):
        module = case.module()
        before = _state(module, case)
        row = Row("from_torch", case.name, case.kind)
        judge(row, partial(lipcert.from_torch, module, case.shape), truth_of(case), case.refused)
        if _state(module, case) != before:
            row.outcome, row.message, row.expected = "wrong", "the module was changed by reading it", False
        yield row


def _state(module: Any, case: Case) -> Any:
    """What must not change: the weights, the mode of every part, the value at a point."""
    with silence(), torch.no_grad():
        value = module(case.inputs(1).float()).numpy().tobytes()
    weights = {name: tensor.detach().clone().numpy().tobytes() for name, tensor in module.state_dict().items()}
    return weights, [part.training for part in module.modules()], value


def check_exports(folder: Path, only: str) -> Iterator[Row]:
    """Whether onnxruntime computes what torch does on each exported file, without lipcert."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for case in cases(only):
        truth = truth_of(case)
        assert truth.values is not None
        for how in EXPORTERS:
            row = Row(f"torch export, {how}", case.name, case.kind, outcome="agree")
            try:
                session = onnxruntime.InferenceSession(str(exported(case, how, folder)), options)
            except NotExported as error:
                row.outcome, row.message, row.counted = "not exported", str(error), False
                yield row
                continue
            name = session.get_inputs()[0].name
            points = truth.inputs.reshape(POINTS, 1, *case.shape).astype(np.float32)
            found = np.stack([session.run(None, {name: x})[0].reshape(-1) for x in points])
            row.values = relative(found, truth.values)
            if row.values > 1e-5:
                row.outcome, row.expected = "differ", case.name in ("control_flow", "batch_norm_without_statistics")
            yield row

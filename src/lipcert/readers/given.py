"""The network that a caller gives: a `Network`, the path of a file, or a torch module."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.problem.network import Network
from lipcert.readers import load


@runtime_checkable
class TorchModule(Protocol):
    """A torch.nn.Module, known by what it can do: torch is not imported."""

    def named_children(self) -> Any: ...

    def state_dict(self) -> Any: ...


def network_of(given: Network | str | os.PathLike[str] | TorchModule, shape: Sequence[int] | None = None) -> Network:
    """The network that is given: as it is, read from a file, or made of a torch module.

    shape: of one input as the caller holds it, for modules that do not tell it themselves; a fourth axis in front, of
        size 1, is a batch.

    Raises InputError for anything else.
    """
    if isinstance(given, Network):
        return given
    if isinstance(given, str | os.PathLike):
        return load(given)
    if isinstance(given, TorchModule) and not isinstance(given, type):
        return _read_module(given, tuple(shape or ()))
    kind = f"the class {given.__name__}" if isinstance(given, type) else f"{type(given).__name__}"
    raise InputError(
        f"net={kind}: a network is a lipcert.Network, the path of a network file or a torch module; "
        "export others to ONNX and give that file"
    )


def _read_module(module: TorchModule, shape: tuple[int, ...]) -> Network:
    """Read the module with the number of inputs that its layers tell, where it fits the shape; else with the shape."""
    if len(shape) < 2:
        return _read_with_flat_inputs(module, shape)
    network = _network_or_none(module, None)
    if network is not None and network.inputs == math.prod(shape):
        return network
    if network is not None and network.inputs == math.prod(shape[1:]):
        more = f", or lipcert.from_torch(module, {shape}) as the network where that is one input"
        raise InputError(_batch_words(shape) + more)
    try:
        return from_torch(module, shape[1:] if len(shape) == 4 and shape[0] == 1 else shape)
    except InputError:
        if shape[0] > 1 and _network_or_none(module, shape[1:]) is not None:
            raise InputError(_batch_words(shape)) from None
        raise


def _read_with_flat_inputs(module: TorchModule, shape: tuple[int, ...]) -> Network:
    """Read the module with the number of inputs that its layers tell; where they tell none, with the given number."""
    try:
        return from_torch(module)
    except UnsupportedOperator:
        raise
    except InputError as error:
        first = InputError(f"{error}: lipcert.from_torch(module, input_shape=...) is the network")
    if not shape:
        raise first
    try:
        return from_torch(module, shape)
    except UnsupportedOperator:
        raise
    except InputError:
        raise first from None


def _network_or_none(module: TorchModule, shape: tuple[int, ...] | None) -> Network | None:
    try:
        return from_torch(module, shape)
    except InputError:
        return None


def _batch_words(shape: tuple[int, ...]) -> str:
    return f"the shape {shape} is a batch of {shape[0]} inputs of shape {shape[1:]}; give one of them, center[i]"


def from_torch(module: TorchModule, input_shape: Sequence[int] | None = None) -> Network:
    """`lipcert.from_torch`; its reader is imported here, because a check of a file needs no torch reader."""
    from lipcert.readers.torch import from_torch as read_module

    return read_module(module, input_shape)

"""What a caller gives as a network: a `Network`, the path of a file, or a torch module."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
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
        return _of_module(given, tuple(shape or ()))
    kind = f"the class {given.__name__}" if isinstance(given, type) else f"{type(given).__name__}"
    raise InputError(
        f"net={kind}: a network is a lipcert.Network, the path of a network file or a torch module; "
        "export others to ONNX and give that file"
    )


def _of_module(module: TorchModule, shape: tuple[int, ...]) -> Network:
    """By what the module itself tells about its inputs where that fits, else by the shape."""
    if len(shape) < 2:
        try:
            return from_torch(module)
        except UnsupportedOperator:
            raise
        except InputError as error:
            raise InputError(f"{error}: lipcert.from_torch(module, input_shape=...) is the network") from None
    with suppress(InputError):
        network = from_torch(module)
        if network.inputs == math.prod(shape):
            return network
    return from_torch(module, shape[1:] if len(shape) == 4 and shape[0] == 1 else shape)


def from_torch(module: TorchModule, input_shape: Sequence[int] | None = None) -> Network:
    """As `lipcert.from_torch`, which is loaded for modules only: whoever checks a certificate of a file needs none."""
    from lipcert.readers.torch import from_torch as read_module

    return read_module(module, input_shape)

"""PyTorch modules, recognised by their class names: torch itself is never imported.

A module is read as in evaluation mode: batch normalisation uses its running statistics and dropout does nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.files.boundary import quoted
from lipcert.problem.activations import Activation
from lipcert.problem.convolution import Window
from lipcert.problem.network import Network
from lipcert.readers.chain import Chain
from lipcert.rounding import Array


def from_torch(module: Any, input_shape: Sequence[int] | int | None = None) -> Network:
    """The network of a torch.nn.Sequential (nested ones too) or of a single layer.

    input_shape: the shape of one input without the batch axis, such as (channels, height, width); needed where the
        network starts with a convolution or a pooling, otherwise taken from the first linear layer. The network's
        input is that tensor flattened in C order.

    Supported: Linear, Conv1d, Conv2d, AvgPool1d, AvgPool2d, BatchNorm1d, BatchNorm2d, Flatten, Dropout, Identity, ReLU,
    LeakyReLU, ELU, Softplus, Sigmoid, Tanh; a Softmax or LogSoftmax at the end is left out (see `Network.notes`).
    Raises UnsupportedOperator for other layers and InputError for shapes that do not fit.
    """
    layers = list(_layers(module, ""))
    given = (input_shape,) if isinstance(input_shape, int) else input_shape
    shape = _first_shape(layers) if given is None else tuple(int(n) for n in given)
    if not shape or min(shape) < 1:
        raise InputError(
            f"from_torch: input_shape={shape} must be sizes of at least 1, such as (channels, height, width)"
        )
    with np.errstate(all="ignore"):
        try:
            chain = Chain((1, *shape))
            for name, layer in layers:
                _apply(name, layer, chain)
            return chain.network()
        except (UnsupportedOperator, MemoryError):
            raise
        except InputError as error:
            text = str(error)
            raise InputError(text if text.startswith("from_torch") else f"from_torch: {text}") from None


def _layers(module: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The layers of nested Sequentials in order, each with its dotted name."""
    # Hooks can change what a layer computes without changing its weights.
    if getattr(module, "_forward_hooks", None) or getattr(module, "_forward_pre_hooks", None):
        raise UnsupportedOperator(
            f"from_torch: {_label(name, module)} has forward hooks; remove them "
            "(torch.nn.utils.remove_spectral_norm, remove_weight_norm)"
        )
    if _kind(module) == "Sequential":
        for key, child in module.named_children():
            yield from _layers(child, f"{name}.{key}" if name else str(key))
    else:
        yield name, module


def _first_shape(layers: Sequence[tuple[str, Any]]) -> tuple[int, ...]:
    """The input's shape, from the first layer that tells it."""
    for name, layer in layers:
        kind = _kind(layer)
        if kind == "Linear":
            return (int(layer.in_features),)
        if kind == "BatchNorm1d":
            return (int(layer.num_features),)
        if kind in _LAYERS and kind not in _SHAPELESS:
            raise InputError(
                f"from_torch: {_label(name, layer)} needs the input's size; give input_shape=(channels, height, width)"
            )
        if kind not in _LAYERS:
            raise _unknown(name, layer)
    raise InputError("from_torch: no layer tells the number of inputs; give input_shape")


def _apply(name: str, layer: Any, chain: Chain) -> None:
    kind = _kind(layer)
    if kind not in _LAYERS:
        raise _unknown(name, layer)
    try:
        _LAYERS[kind](layer, chain)
    except UnsupportedOperator as error:
        raise UnsupportedOperator(f"from_torch: {_label(name, layer)}: {error}") from None
    except InputError as error:
        raise InputError(f"from_torch: {_label(name, layer)}: {error}") from None


def _kind(module: Any) -> str:
    return type(module).__name__


def _label(name: str, module: Any) -> str:
    return f"{_kind(module)} {quoted(name)}" if name else _kind(module)


def _unknown(name: str, layer: Any) -> UnsupportedOperator:
    supported = ", ".join(["Sequential", *_LAYERS])
    return UnsupportedOperator(f"from_torch: layer {_label(name, layer)} is not supported; supported: {supported}")


def _array(tensor: Any, what: str) -> Array:
    """The numbers of a parameter, in float64."""
    if tensor is None:
        raise InputError(f"it has no {what}")
    if hasattr(tensor, "detach"):
        if not tensor.is_floating_point():
            raise InputError(f"its {what} is not of a real floating point type")
        tensor = tensor.detach().cpu().double().numpy()
    return np.array(tensor, dtype=np.float64)


def _linear(layer: Any, chain: Chain) -> None:
    weight = _array(layer.weight, "weight")
    if weight.ndim != 2:
        raise InputError(f"its weight has the shape {weight.shape}; two axes are needed")
    chain.times(weight.T)
    if layer.bias is not None:
        chain.scale_and_shift(1.0, _array(layer.bias, "bias"))


def _conv(layer: Any, chain: Chain) -> None:
    if getattr(layer, "padding_mode", "zeros") != "zeros":
        raise UnsupportedOperator(f"padding_mode={layer.padding_mode!r} is not supported; only 'zeros' is")
    weight = _array(layer.weight, "weight")
    kernel = weight.shape[2:]
    axes = len(kernel)
    strides, dilations = _sizes(layer.stride, axes), _sizes(layer.dilation, axes)
    match layer.padding:
        case "valid":
            before = after = (0,) * axes
        case "same":
            totals = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
            before, after = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
        case padding:
            before = after = _sizes(padding, axes)
    bias = None if layer.bias is None else _array(layer.bias, "bias")
    chain.convolve(weight, bias, int(layer.groups), Window(kernel, strides, dilations, before, after))


def _average_pool(layer: Any, chain: Chain) -> None:
    if getattr(layer, "divisor_override", None) is not None:
        raise UnsupportedOperator("divisor_override is not supported")
    axes = int(_kind(layer)[-2])
    kernel = _sizes(layer.kernel_size, axes)
    strides = kernel if layer.stride is None else _sizes(layer.stride, axes)
    pads = _sizes(layer.padding, axes)
    window = Window(kernel, strides, (1,) * axes, pads, pads, bool(layer.ceil_mode))
    chain.average(window, bool(layer.count_include_pad))


def _sizes(value: Any, axes: int) -> tuple[int, ...]:
    """One number for all axes, or one per axis."""
    sizes = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(sizes) == 1:
        sizes *= axes
    if axes < 1 or len(sizes) != axes:
        raise InputError(f"{value!r} does not give a size for each of {axes} axes")
    return tuple(int(n) for n in sizes)


def _batch_norm(layer: Any, chain: Chain) -> None:
    if layer.running_mean is None or layer.running_var is None:
        raise UnsupportedOperator("it keeps no running statistics (track_running_stats=False)")
    if len(chain.shape) not in ((2, 3) if _kind(layer) == "BatchNorm1d" else (4,)):
        raise InputError(f"it does not fit an input of shape {chain.shape[1:]}")
    mean, variance = _array(layer.running_mean, "mean"), _array(layer.running_var, "variance")
    scale = np.ones(mean.shape) if layer.weight is None else _array(layer.weight, "weight")
    bias = np.zeros(mean.shape) if layer.bias is None else _array(layer.bias, "bias")
    chain.normalize_channels(scale, bias, mean, variance, float(layer.eps))


def _flatten(layer: Any, chain: Chain) -> None:
    axes = len(chain.shape)
    start, end = int(layer.start_dim) % axes, int(layer.end_dim) % axes
    if start > end:
        raise InputError(f"start_dim={layer.start_dim} is after end_dim={layer.end_dim}")
    shape = chain.shape
    chain.reshape((*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def _nothing(layer: Any, chain: Chain) -> None:
    """Identity, and dropout in evaluation."""


def _softmax(layer: Any, chain: Chain) -> None:
    chain.drop(_kind(layer))


def _plain(kind: Any, alpha: str = "") -> Callable[[Any, Chain], None]:
    def activate(layer: Any, chain: Chain) -> None:
        chain.activate(Activation(kind, float(getattr(layer, alpha)) if alpha else 0.0))

    return activate


def _softplus(layer: Any, chain: Chain) -> None:
    # Above its threshold torch returns z itself, which differs from softplus by less than exp(-threshold).
    if float(layer.beta) != 1.0 or float(layer.threshold) < 20.0:
        raise UnsupportedOperator("only beta=1 with a threshold of at least 20 is supported")
    chain.activate(Activation("softplus"))


_DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout")
_SHAPELESS = frozenset(
    {
        "ReLU",
        "LeakyReLU",
        "ELU",
        "Softplus",
        "Sigmoid",
        "Tanh",
        "Flatten",
        "Identity",
        "Softmax",
        "LogSoftmax",
        *_DROPOUTS,
    }
)
_LAYERS: dict[str, Callable[[Any, Chain], None]] = {
    "Linear": _linear,
    "Conv1d": _conv,
    "Conv2d": _conv,
    "AvgPool1d": _average_pool,
    "AvgPool2d": _average_pool,
    "BatchNorm1d": _batch_norm,
    "BatchNorm2d": _batch_norm,
    "Flatten": _flatten,
    "Identity": _nothing,
    **dict.fromkeys(_DROPOUTS, _nothing),
    "ReLU": _plain("relu"),
    "LeakyReLU": _plain("leaky_relu", "negative_slope"),
    "ELU": _plain("elu", "alpha"),
    "Softplus": _softplus,
    "Sigmoid": _plain("sigmoid"),
    "Tanh": _plain("tanh"),
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}

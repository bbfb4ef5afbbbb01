"""The layers of torch.nn by class name: which attributes each reads, and the function that it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.files.boundary import quoted
from lipcert.readers.graph import places
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch.functions import FUNCTIONS, batch_norm
from lipcert.readers.torch.products import linear
from lipcert.readers.torch.values import Entry, parameter, refused

Apply = Callable[[Graph, Any, Tensor], Tensor]


def _linear(graph: Graph, layer: Any, x: Tensor) -> Tensor:
    return linear(graph, x, parameter(layer.weight, "weight"), _bias(layer))


def _batch_norm(*ranks: int) -> Apply:
    def apply(graph: Graph, layer: Any, x: Tensor) -> Tensor:
        if layer.running_mean is None or layer.running_var is None:
            raise UnsupportedOperator("it keeps no running statistics (track_running_stats=False)")
        if ranks and len(x.shape) not in ranks:
            raise InputError(f"it does not fit an input of shape {x.shape[1:]}")
        mean, variance = parameter(layer.running_mean, "mean"), parameter(layer.running_var, "variance")
        weight = None if layer.weight is None else parameter(layer.weight, "weight")
        return batch_norm(graph, x, mean, variance, weight, _bias(layer), eps=layer.eps)

    return apply


def _unflatten(graph: Graph, layer: Any, x: Tensor) -> Tensor:
    if not isinstance(layer.dim, int):
        raise UnsupportedOperator("names its axes; numbers are supported")
    return graph.pick(x, places.unflatten(x.places, layer.dim, tuple(layer.unflattened_size)))


def _nothing(graph: Graph, layer: Any, x: Tensor) -> Tensor:  # noqa: ARG001
    return x


def _softmax(graph: Graph, layer: Any, x: Tensor) -> Tensor:
    return graph.drop(x, type(layer).__name__)


def _pad(mode: str) -> Apply:
    def apply(graph: Graph, layer: Any, x: Tensor) -> Tensor:
        # F.pad counts axes from the last one, and so does the layer.
        value = getattr(layer, "value", 0.0) if mode == "constant" else None
        return _function("pad")(graph, x, layer.padding, mode, value)

    return apply


def _by(function: str, *attributes: str, **fixed: Any) -> Apply:
    """The function of this name with attributes of the layer, by their own names; absent ones have torch's default."""

    def apply(graph: Graph, layer: Any, x: Tensor) -> Tensor:
        settings = {name: _setting(layer, name) for name in attributes if hasattr(layer, name)}
        return _function(function)(graph, x, **settings, **fixed)

    return apply


def _function(name: str) -> Callable[..., Tensor]:
    apply = FUNCTIONS[name].apply
    assert apply is not None
    return apply


def _setting(layer: Any, name: str) -> Any:
    """An attribute of a layer; weights must be of a floating point type."""
    value = getattr(layer, name)
    return parameter(value, name) if name in ("weight", "bias") and value is not None else value


def _bias(layer: Any) -> Any:
    return None if layer.bias is None else parameter(layer.bias, "bias")


def _same_as(function: str, *attributes: str, **fixed: Any) -> Entry:
    """The entry of the function, with the layer's attributes for its parameters."""
    entry = FUNCTIONS[function]
    return Entry(_by(function, *attributes, **fixed), entry.how, entry.words, entry.is_view)


def _each_axis(name: str, make: Callable[[int], Entry]) -> dict[str, Entry]:
    return {name.format(axes): make(axes) for axes in (1, 2, 3)}


_CONVOLUTION = ("weight", "bias", "stride", "padding", "dilation", "groups")
_POOL = ("kernel_size", "stride", "padding")
_ACTIVATIONS: dict[str, Entry] = {
    "ReLU": _same_as("relu"),
    "LeakyReLU": _same_as("leaky_relu", "negative_slope"),
    "PReLU": _same_as("prelu", "weight"),
    "RReLU": _same_as("rrelu", "lower", "upper"),
    "ELU": _same_as("elu", "alpha"),
    "SELU": _same_as("selu"),
    "CELU": _same_as("celu", "alpha"),
    "GELU": _same_as("gelu", "approximate"),
    "SiLU": _same_as("silu"),
    "Mish": _same_as("mish"),
    "Hardswish": _same_as("hardswish"),
    "Softplus": _same_as("softplus", "beta", "threshold"),
    "Sigmoid": _same_as("sigmoid"),
    "Tanh": _same_as("tanh"),
    "Softsign": _same_as("softsign"),
    "LogSigmoid": _same_as("logsigmoid"),
    "Hardtanh": _same_as("hardtanh", "min_val", "max_val"),
    "ReLU6": _same_as("relu6"),
    "Hardsigmoid": _same_as("hardsigmoid"),
    "Threshold": _same_as("threshold", "threshold", "value"),
    "Softshrink": _same_as("softshrink", "lambd"),
    "Tanhshrink": _same_as("tanhshrink"),
    "Hardshrink": FUNCTIONS["hardshrink"],
    "GLU": FUNCTIONS["glu"],
}
DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")
NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")
_PADS = {
    "ZeroPad": "constant",
    "ConstantPad": "constant",
    "ReflectionPad": "reflect",
    "ReplicationPad": "replicate",
    "CircularPad": "circular",
}
_STATISTICS = refused("divides by statistics of its own input")
_RECURRENT = refused("multiplies tensors that both depend on the input, step after step")
_ATTENTION = refused("multiplies tensors that both depend on the input")
_REFUSED: dict[str, Entry] = {
    **dict.fromkeys(("LayerNorm", "RMSNorm", "GroupNorm", "LocalResponseNorm", "CrossMapLRN2d"), _STATISTICS),
    **{f"InstanceNorm{axes}d": _STATISTICS for axes in (1, 2, 3)},
    **dict.fromkeys(("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"), _RECURRENT),
    **dict.fromkeys(("MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerDecoder"), _ATTENTION),
    **dict.fromkeys(("TransformerEncoderLayer", "TransformerDecoderLayer"), _ATTENTION),
    **dict.fromkeys(("Embedding", "EmbeddingBag"), refused("reads whole numbers, not a point of a space")),
    "Bilinear": refused("multiplies two tensors that both depend on the input"),
    **dict.fromkeys(("LPPool1d", "LPPool2d", "LPPool3d"), refused("takes powers, whose slope has no bound")),
    **{f"MaxUnpool{axes}d": refused("reads the indices of a maximum, which jump") for axes in (1, 2, 3)},
}
LAYERS: dict[str, Entry] = {
    "Linear": Entry(_linear, "read", "affine"),
    **_each_axis("Conv{}d", lambda n: _same_as(f"conv{n}d", *_CONVOLUTION, "padding_mode")),
    **_each_axis("ConvTranspose{}d", lambda n: _same_as(f"conv_transpose{n}d", *_CONVOLUTION, "output_padding")),
    **_each_axis("AvgPool{}d", lambda n: _same_as(
        f"avg_pool{n}d", *_POOL, "ceil_mode", "count_include_pad", "divisor_override")),
    **_each_axis("MaxPool{}d", lambda n: _same_as(
        f"max_pool{n}d", *_POOL, "dilation", "ceil_mode", "return_indices")),
    **_each_axis("AdaptiveAvgPool{}d", lambda n: _same_as(f"adaptive_avg_pool{n}d", "output_size")),
    **_each_axis("AdaptiveMaxPool{}d", lambda n: _same_as(f"adaptive_max_pool{n}d", "output_size", "return_indices")),
    "BatchNorm1d": Entry(_batch_norm(2, 3), "read", "affine, with running statistics"),
    "BatchNorm2d": Entry(_batch_norm(4), "read", "affine, with running statistics"),
    "BatchNorm3d": Entry(_batch_norm(5), "read", "affine, with running statistics"),
    "SyncBatchNorm": Entry(_batch_norm(), "read", "affine, with running statistics"),
    "Flatten": _same_as("flatten", "start_dim", "end_dim"),
    "Unflatten": Entry(_unflatten, "read", "a change of shape", is_view=True),
    "Identity": Entry(_nothing, "read", "nothing to do", is_view=True),
    **dict.fromkeys(DROPOUTS, Entry(_nothing, "left out", "as in evaluation", is_view=True)),
    "Upsample": _same_as("interpolate", "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor"),
    "UpsamplingNearest2d": _same_as("interpolate", "size", "scale_factor", mode="nearest"),
    "UpsamplingBilinear2d": _same_as("interpolate", "size", "scale_factor", mode="bilinear", align_corners=True),
    "PixelShuffle": _same_as("pixel_shuffle", "upscale_factor"),
    "PixelUnshuffle": _same_as("pixel_unshuffle", "downscale_factor"),
    "ChannelShuffle": _same_as("channel_shuffle", "groups"),
    **{f"{name}{n}d": Entry(_pad(mode), "read", "padding") for name, mode in _PADS.items() for n in (1, 2, 3)},
    **_ACTIVATIONS,
    **dict.fromkeys(("Softmax", "LogSoftmax"), Entry(_softmax, "left out", "at the end only")),
    **_REFUSED,
}  # fmt: skip

_WEIGHT_HOOKS = ("WeightNorm", "SpectralNorm")  # of torch.nn.utils, as they were before parametrisations

# Layers that any shape may enter: they do not tell the input's.
SHAPELESS = frozenset(_ACTIVATIONS) | {"Flatten", "Identity", "Softmax", "LogSoftmax", *DROPOUTS}


def apply_layer(graph: Graph, name: str, layer: Any, kind: str, x: Tensor) -> Tensor:
    """What a layer makes of a tensor; `kind` is its class in the table. Whatever does not fit is told with its name."""
    entry = LAYERS[kind]
    if entry.apply is None:
        raise UnsupportedOperator(f"{label(name, layer)}: {entry.words}")
    try:
        result: Tensor = entry.apply(graph, evaluated(name, layer), x)
    except UnsupportedOperator as error:
        raise UnsupportedOperator(f"{label(name, layer)}: {error}") from None
    except InputError as error:
        raise InputError(f"{label(name, layer)}: {error}") from None
    return result


def evaluated(name: str, layer: Any) -> Any:
    """The layer, with the weights that its hooks compute before a call."""
    computed: dict[str, Any] = {}
    for hook in check_hooks(name, layer, computing=True):
        settings = {"do_power_iteration": False} if type(hook).__name__ == "SpectralNorm" else {}
        computed[hook.name] = hook.compute_weight(layer, **settings)
    return _Computed(layer, computed) if computed else layer


def check_hooks(name: str, module: Any, *, computing: bool) -> list[Any]:
    """The hooks that compute weights; others can change what a module does without changing its weights: refused."""
    if any(cls.__name__ == "LazyModuleMixin" for cls in type(module).__mro__):
        raise InputError(f"{label(name, module)} has no size yet; run the module once")
    hooks = list((getattr(module, "_forward_pre_hooks", None) or {}).values())
    known = all(type(hook).__name__ in _WEIGHT_HOOKS for hook in hooks) and (computing or not hooks)
    if getattr(module, "_forward_hooks", None) or not known:
        raise UnsupportedOperator(
            f"{label(name, module)} has forward hooks; remove them "
            "(torch.nn.utils.remove_spectral_norm, remove_weight_norm)"
        )
    return hooks


def label(name: str, module: Any) -> str:
    """A module's class and its dotted name, for messages."""
    return f"{type(module).__name__} {quoted(name)}" if name else type(module).__name__


class _Computed:
    """A layer of which some attributes are replaced."""

    def __init__(self, layer: Any, values: dict[str, Any]) -> None:
        self._layer, self._values = layer, values

    def __getattr__(self, name: str) -> Any:
        return self._values[name] if name in self._values else getattr(self._layer, name)

"""The layers of torch.nn by class name: each stands for a function, and its attributes for the arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.files.boundary import quoted
from lipcert.readers.graph import Entry, places, refused
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.torch import norms
from lipcert.readers.torch.blocks import BLOCKS
from lipcert.readers.torch.functions import FUNCTIONS
from lipcert.readers.torch.values import parameter

Apply = Callable[[Graph, Any, Tensor], Tensor]


def _batch_norm(*ranks: int) -> Entry:
    """Batch normalisation with running statistics, of inputs with this many axes where they are named."""
    entry = _same_as("batch_norm", training=False)
    normalised = entry.apply
    assert normalised is not None

    def apply(graph: Graph, layer: Any, x: Tensor) -> Any:
        if layer.running_mean is not None and ranks and len(x.shape) not in ranks:
            raise InputError(f"it does not fit an input of shape {x.shape[1:]}")
        return normalised(graph, layer, x)

    return replace(entry, apply=apply)


def _instance_norm() -> Entry:
    """Instance normalisation by the input, or by running statistics, which is batch normalisation."""
    by_input, by_statistics = _same_as("instance_norm", use_input_stats=True), _same_as("batch_norm", training=False)

    def apply(graph: Graph, layer: Any, x: Tensor) -> Any:
        chosen = by_input if layer.running_mean is None else by_statistics
        assert chosen.apply is not None
        return chosen.apply(graph, layer, x)

    return replace(by_input, apply=apply)


def _unflatten(graph: Graph, layer: Any, x: Tensor) -> Tensor:
    if not isinstance(layer.dim, int):
        raise UnsupportedOperator("names its axes; numbers are supported")
    return graph.pick(x, places.unflatten(x.places, layer.dim, tuple(layer.unflattened_size)))


def _nothing(graph: Graph, layer: Any, x: Tensor) -> Tensor:  # noqa: ARG001
    return x


def _softmax(graph: Graph, layer: Any, x: Tensor) -> Tensor:
    return norms.softmax(graph, x, getattr(layer, "dim", None), type(layer).__name__)


def _pad(mode: str) -> Apply:
    def apply(graph: Graph, layer: Any, x: Tensor) -> Tensor:
        # F.pad counts axes from the last one, and so does the layer.
        value = getattr(layer, "value", 0.0) if mode == "constant" else None
        return _function("pad")(graph, x, layer.padding, mode, value)

    return apply


def _same_as(function: str, **fixed: Any) -> Entry:
    """The function's entry, with the layer's attributes for the parameters that are called so.

    An attribute that a layer does not have leaves torch's default of the function.
    """
    entry = FUNCTIONS[function]
    apply_function = _function(function)
    parameters = list(inspect.signature(apply_function).parameters.values())[2:]
    needed = {p.name: p.default is p.empty for p in parameters if p.name not in fixed}

    def apply(graph: Graph, layer: Any, x: Tensor) -> Tensor:
        settings = {name: _setting(layer, name, must) for name, must in needed.items() if hasattr(layer, name)}
        return apply_function(graph, x, **settings, **fixed)

    return replace(entry, apply=apply)


def _function(name: str) -> Callable[..., Tensor]:
    apply = FUNCTIONS[name].apply
    assert apply is not None
    return apply


def _setting(layer: Any, name: str, needed: bool) -> Any:
    """An attribute of a layer; weights and statistics must be of a floating point type."""
    value = getattr(layer, name)
    return parameter(value, name) if name in _NUMBERS and (needed or value is not None) else value


def _each_axis(layer: str, function: str) -> dict[str, Entry]:
    return {layer.format(axes): _same_as(function.format(axes)) for axes in (1, 2, 3)}


_NUMBERS = ("weight", "bias", "running_mean", "running_var")
_ACTIVATIONS: dict[str, Entry] = {
    "ReLU": _same_as("relu"),
    "LeakyReLU": _same_as("leaky_relu"),
    "PReLU": _same_as("prelu"),
    "RReLU": _same_as("rrelu", training=False),
    "ELU": _same_as("elu"),
    "SELU": _same_as("selu"),
    "CELU": _same_as("celu"),
    "GELU": _same_as("gelu"),
    "SiLU": _same_as("silu"),
    "Mish": _same_as("mish"),
    "Hardswish": _same_as("hardswish"),
    "Softplus": _same_as("softplus"),
    "Sigmoid": _same_as("sigmoid"),
    "Tanh": _same_as("tanh"),
    "Softsign": _same_as("softsign"),
    "LogSigmoid": _same_as("logsigmoid"),
    "Hardtanh": _same_as("hardtanh"),
    "ReLU6": _same_as("relu6"),
    "Hardsigmoid": _same_as("hardsigmoid"),
    "Threshold": _same_as("threshold"),
    "Softshrink": _same_as("softshrink"),
    "Tanhshrink": _same_as("tanhshrink"),
    "Hardshrink": FUNCTIONS["hardshrink"],
    "GLU": _same_as("glu"),
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
_STATISTICS = refused("divides by powers of sums over its input, which is not read")
_DECODER = refused("reads two inputs; write it with attention layers")
_REFUSED: dict[str, Entry] = {
    **dict.fromkeys(("LocalResponseNorm", "CrossMapLRN2d"), _STATISTICS),
    **dict.fromkeys(("Transformer", "TransformerDecoder", "TransformerDecoderLayer"), _DECODER),
    **dict.fromkeys(("Embedding", "EmbeddingBag"), refused("reads whole numbers, not a point of a space")),
    "Bilinear": refused("multiplies two tensors that both depend on the input"),
    **dict.fromkeys(("LPPool1d", "LPPool2d", "LPPool3d"), refused("takes powers, whose slope has no bound")),
    **{f"MaxUnpool{axes}d": refused("reads the indices of a maximum, which jump") for axes in (1, 2, 3)},
}
LAYERS: dict[str, Entry] = {
    "Linear": _same_as("linear"),
    **_each_axis("Conv{}d", "conv{}d"),
    **_each_axis("ConvTranspose{}d", "conv_transpose{}d"),
    **_each_axis("AvgPool{}d", "avg_pool{}d"),
    **_each_axis("MaxPool{}d", "max_pool{}d"),
    **_each_axis("AdaptiveAvgPool{}d", "adaptive_avg_pool{}d"),
    **_each_axis("AdaptiveMaxPool{}d", "adaptive_max_pool{}d"),
    "BatchNorm1d": _batch_norm(2, 3),
    "BatchNorm2d": _batch_norm(4),
    "BatchNorm3d": _batch_norm(5),
    "SyncBatchNorm": _batch_norm(),
    "Flatten": _same_as("flatten"),
    "Unflatten": Entry(_unflatten, "read", "a change of shape", is_view=True),
    "Identity": Entry(_nothing, "read", "nothing to do", is_view=True),
    **dict.fromkeys(DROPOUTS, Entry(_nothing, "left out", "as in evaluation", is_view=True)),
    "Upsample": _same_as("interpolate"),
    "UpsamplingNearest2d": _same_as("interpolate", mode="nearest"),
    "UpsamplingBilinear2d": _same_as("interpolate", mode="bilinear", align_corners=True),
    "PixelShuffle": _same_as("pixel_shuffle"),
    "PixelUnshuffle": _same_as("pixel_unshuffle"),
    "ChannelShuffle": _same_as("channel_shuffle"),
    **{f"{name}{n}d": Entry(_pad(mode), "read", "padding") for name, mode in _PADS.items() for n in (1, 2, 3)},
    **_ACTIVATIONS,
    **dict.fromkeys(("Softmax", "LogSoftmax"), replace(FUNCTIONS["softmax"], apply=_softmax)),
    "LayerNorm": _same_as("layer_norm"),
    "RMSNorm": _same_as("rms_norm"),
    "GroupNorm": _same_as("group_norm"),
    **{f"InstanceNorm{axes}d": _instance_norm() for axes in (1, 2, 3)},
    **BLOCKS,
    **_REFUSED,
}  # fmt: skip

_WEIGHT_HOOKS = ("WeightNorm", "SpectralNorm")  # hooks of torch.nn.utils from before parametrisations

# Layers that any shape may enter: they do not tell the input's.
SHAPELESS = frozenset(_ACTIVATIONS) | {"Flatten", "Identity", "Softmax", "LogSoftmax", *DROPOUTS}


def apply_layer(graph: Graph, name: str, layer: Any, kind: str, x: Any, *others: Any, **settings: Any) -> Any:
    """The output of a layer; `kind` is its class in the table. Errors name the layer.

    Most layers take one tensor, and give one; those of `BLOCKS` take what their forward does.
    """
    entry = LAYERS[kind]
    if entry.apply is None:
        raise UnsupportedOperator(f"{label(name, layer)}: {entry.words}")
    try:
        for part, module in layer.named_modules() if kind in BLOCKS else ():
            check_hooks(f"{name}.{part}", module, computing=False)
        result = entry.apply(graph, evaluated(name, layer), x, *others, **settings)
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


_INNER = ("forward", "_conv_forward", "_output_padding")  # a subclass that changes one of these is another layer


def kind_of(module: Any) -> str:
    """The class in the table that a module is, "" where its forward is its own."""
    mine = type(module)
    for cls in mine.__mro__:
        if cls.__module__.startswith("torch.nn.") and cls.__name__ in LAYERS:
            changed = any(getattr(mine, n, None) is not getattr(cls, n, None) or n in vars(module) for n in _INNER)
            return "" if changed else str(cls.__name__)
    return ""

"""PyTorch modules by look-alikes: class names and attributes, without torch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lipcert.errors import InputError, UnsupportedOperator
from lipcert.readers.torch import from_torch
from lipcert.rounding import Array

RNG = np.random.default_rng(13)


class Layer:
    """Stands in for a torch module: from_torch looks at the class name and at attributes only."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def fake(kind: str, **attributes: Any) -> Any:
    return type(kind, (Layer,), {})(**attributes)


def sequential(*layers: Any) -> Any:
    return fake("Sequential", named_children=lambda: [(str(i), layer) for i, layer in enumerate(layers)])


def linear(n: int, m: int, bias: bool = True) -> Any:
    weight = RNG.normal(size=(m, n))
    return fake("Linear", in_features=n, weight=weight, bias=RNG.normal(size=m) if bias else None)


def conv(weight: Array, **changes: Any) -> Any:
    settings = {"bias": None, "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1} | changes
    return fake("Conv2d", weight=weight, padding_mode=settings.pop("padding_mode", "zeros"), **settings)


def norm(kind: str, n: int, **changes: Any) -> Any:
    values = {
        "weight": None,
        "bias": None,
        "running_mean": RNG.normal(size=n),
        "running_var": RNG.random(n),
        "eps": 1e-5,
    }
    return fake(kind, num_features=n, **(values | changes))


def pool(**changes: Any) -> Any:
    settings = {"kernel_size": 2, "stride": None, "padding": 0, "ceil_mode": False, "count_include_pad": True}
    return fake("AvgPool2d", **(settings | changes))


FLATTEN = fake("Flatten", start_dim=1, end_dim=-1)
RELU = fake("ReLU")


def test_nested_linear_layers() -> None:
    first, second = linear(3, 4), linear(4, 2, bias=False)
    network = from_torch(sequential(fake("Dropout"), sequential(first, RELU), fake("Identity"), second))
    x = RNG.normal(size=(6, 3))
    expected = np.maximum(x @ first.weight.T + first.bias, 0.0) @ second.weight.T
    np.testing.assert_allclose(network.forward(x), expected, rtol=1e-12)


def test_every_activation() -> None:
    layers = [
        fake("LeakyReLU", negative_slope=0.1),
        fake("ELU", alpha=2.0),
        fake("Softplus", beta=1, threshold=20),
        fake("Sigmoid"),
        fake("Tanh"),
        RELU,
    ]
    network = from_torch(sequential(*layers), input_shape=2)
    assert [str(f) for f in network.activations] == ["leaky_relu(0.1)", "elu(2)", "softplus", "sigmoid", "tanh", "relu"]


def test_convolution_by_hand() -> None:
    weight = RNG.normal(size=(3, 2, 2, 2))
    network = from_torch(sequential(conv(weight, bias=np.arange(3.0)), FLATTEN), input_shape=(2, 4, 3))
    x = RNG.normal(size=(2, 4, 3))
    expected = np.zeros((3, 3, 2))
    for o, i, j in np.ndindex(3, 3, 2):
        expected[o, i, j] = np.sum(weight[o] * x[:, i : i + 2, j : j + 2]) + o
    np.testing.assert_allclose(network.forward(x.reshape(-1)), expected.reshape(-1), rtol=1e-10)


def test_batch_norm_and_pool_by_hand() -> None:
    layer = norm("BatchNorm2d", 2)
    network = from_torch(sequential(layer, pool()), input_shape=(2, 4, 2))
    x = RNG.normal(size=(2, 4, 2))
    scaled = (x - layer.running_mean[:, None, None]) / np.sqrt(layer.running_var + 1e-5)[:, None, None]
    expected = scaled.reshape(2, 2, 2, 2).mean(axis=(2, 3))
    np.testing.assert_allclose(network.forward(x.reshape(-1)), expected.reshape(-1), rtol=1e-10)


def test_a_softmax_at_the_end_is_left_out() -> None:
    layer = linear(3, 2)
    network = from_torch(sequential(layer, fake("LogSoftmax")))
    assert "LogSoftmax" in network.notes[0]
    np.testing.assert_array_equal(network.affines[0].weight, layer.weight)


class Tensor:
    """The few methods of a torch tensor that are used."""

    def __init__(self, array: Array, real: bool = True) -> None:
        self.array, self.real = array, real

    def is_floating_point(self) -> bool:
        return self.real

    def detach(self) -> Any:
        return SimpleNamespace(cpu=lambda: SimpleNamespace(double=lambda: SimpleNamespace(numpy=lambda: self.array)))


def test_tensors_are_detached() -> None:
    weight = RNG.normal(size=(2, 3))
    network = from_torch(fake("Linear", in_features=3, weight=Tensor(weight), bias=None))
    np.testing.assert_array_equal(network.affines[0].weight, weight)
    with pytest.raises(InputError, match="floating point"):
        from_torch(fake("Linear", in_features=3, weight=Tensor(weight, real=False), bias=None))


IMAGE = (2, 4, 4)
KERNEL = RNG.normal(size=(2, 2, 2, 2))
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "unknown": (
        sequential(linear(2, 2), fake("Swirl")),
        None,
        "layer Swirl '1' is not supported; docs/operators.md has the list",
    ),
    "unknown first": (sequential(fake("Swirl"), linear(2, 2)), None, "layer Swirl '0' is not supported"),
    "decoder": (sequential(fake("TransformerDecoder"), linear(2, 2)), None, "TransformerDecoder '0': reads two inputs"),
    "response norm": (
        sequential(linear(2, 2), fake("LocalResponseNorm")),
        None,
        "LocalResponseNorm '1': divides by powers of sums",
    ),
    "jump": (fake("Hardshrink"), (3,), "Hardshrink: jumps"),
    "own module": (fake("MyNet"), (3,), "layer MyNet is not supported"),
    "no shape": (sequential(conv(KERNEL), FLATTEN), None, r"Conv2d '0' needs the input's size; give input_shape="),
    "no shape at all": (sequential(RELU), None, "no layer tells the number of inputs"),
    "bad shape": (sequential(linear(2, 2)), (0,), r"input_shape=\(0,\)"),
    "shape of parts": (sequential(linear(2, 2)), (2.5,), r"input_shape=\(2.5,\)"),
    "no shape of numbers": (sequential(linear(2, 2)), "two", "input_shape='two'"),
    "empty shape": (sequential(linear(2, 2)), (), "input_shape="),
    "sizes": (sequential(linear(2, 3), linear(4, 2)), None, r"Linear '1': a matrix of shape \(4, 2\)"),
    "bias": (fake("Linear", in_features=2, weight=np.ones((3, 2)), bias=np.ones(4)), None, "do not broadcast"),
    "weight": (fake("Linear", in_features=2, weight=np.ones(2), bias=None), None, "two axes"),
    "no weight": (fake("Linear", in_features=2, weight=None, bias=None), None, "has no weight"),
    "nan": (fake("Linear", in_features=2, weight=np.full((1, 2), np.nan), bias=None), None, "from_torch: .*not finite"),
    "padding mode": (conv(KERNEL, padding_mode="fancy"), IMAGE, "padding_mode='fancy'"),
    "stride": (conv(KERNEL, stride=(1, 1, 1)), IMAGE, "each of 2 axes"),
    "channels": (conv(KERNEL), (3, 4, 4), "does not fit 3 channels"),
    "divisor": (pool(divisor_override=0), IMAGE, "divides by zero"),
    "softplus": (fake("Softplus", beta=2.0, threshold=2.0), (2,), "jumps at its threshold"),
    "lazy": (type("Linear", (type("LazyModuleMixin", (Layer,), {}),), {})(), (2,), "has no size yet"),
    "no statistics": (norm("BatchNorm1d", 3, running_mean=None), None, "running statistics"),
    "norm of images": (norm("BatchNorm1d", 2), IMAGE, "does not fit an input of shape"),
    "flatten": (fake("Flatten", start_dim=2, end_dim=1), IMAGE, "start_dim=2 is after"),
    "hooks": (fake("Linear", _forward_pre_hooks={0: print}), None, "forward hooks"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_layer_in_one_line(name: str) -> None:
    module, shape, words = REFUSED[name]
    with pytest.raises(InputError, match=words) as caught:
        from_torch(module, shape)
    assert str(caught.value).startswith("from_torch: ")
    assert "\n" not in str(caught.value)


def test_kinds_of_refusal() -> None:
    with pytest.raises(UnsupportedOperator):
        from_torch(fake("Swirl"), (3,))
    with pytest.raises(UnsupportedOperator):
        from_torch(fake("Bilinear"), (3,))


class WeightNorm:
    """As torch.nn.utils has it: computes the weight before every call."""

    name = "weight"

    def compute_weight(self, module: Any) -> Array:
        return np.asarray(module.weight_g * module.weight_v)


class SpectralNorm:
    name = "weight"

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Array:
        assert not do_power_iteration
        return np.asarray(module.weight_v / 2.0)


@pytest.mark.parametrize(("hook", "factor"), [(WeightNorm(), 3.0), (SpectralNorm(), 0.5)])
def test_weights_that_hooks_compute(hook: Any, factor: float) -> None:
    v = RNG.normal(size=(2, 3))
    layer = fake("Linear", in_features=3, weight=0.0 * v, weight_g=3.0, weight_v=v, bias=None)
    layer._forward_pre_hooks = {0: hook}
    np.testing.assert_allclose(from_torch(layer).affines[0].weight, factor * v, rtol=1e-15)


def test_training_mode_is_told() -> None:
    layers = [linear(3, 3), norm("BatchNorm1d", 3, training=True), fake("Dropout", training=True)]
    module = sequential(*layers)
    module.named_modules = lambda: [(str(i), layer) for i, layer in enumerate(layers)]
    assert from_torch(module).notes == ("BatchNorm1d '1' and 1 more: in training mode, read as in evaluation mode",)
    assert layers[2].training


LAYERS_OF_A_FEW_NUMBERS: dict[str, tuple[Any, tuple[int, ...], Any]] = {
    "PReLU": (fake("PReLU", weight=np.array([0.5, -1.0])), (2,), lambda x: np.where(x > 0, x, [0.5, -1.0] * x)),
    "Hardtanh": (fake("Hardtanh", min_val=-1.0, max_val=0.5, inplace=False), (3,), lambda x: np.clip(x, -1.0, 0.5)),
    "Softplus": (fake("Softplus", beta=2, threshold=20), (3,), lambda x: np.log1p(np.exp(2 * x)) / 2),
    "Unflatten": (fake("Unflatten", dim=1, unflattened_size=(2, 2)), (4,), lambda x: x),
    "MaxPool1d": (fake("MaxPool1d", kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False), (1, 4),
                  lambda x: x.reshape(-1, 2, 2).max(axis=2)),
    "AdaptiveAvgPool1d": (fake("AdaptiveAvgPool1d", output_size=1), (2, 3), lambda x: x.reshape(-1, 2, 3).mean(axis=2)),
    "ConstantPad1d": (fake("ConstantPad1d", padding=(1, 0), value=2.0), (1, 3),
                      lambda x: np.pad(x, ((0, 0), (1, 0)), constant_values=2.0)),
    "ReflectionPad1d": (fake("ReflectionPad1d", padding=(1, 0)), (1, 3), lambda x: x[:, [1, 0, 1, 2]]),
    "Upsample": (fake("Upsample", size=None, scale_factor=2.0, mode="nearest", align_corners=None), (1, 2),
                 lambda x: np.repeat(x, 2, axis=1)),
    "ConvTranspose1d": (fake("ConvTranspose1d", weight=np.array([[[1.0, 2.0]]]), bias=np.ones(1), stride=2, padding=0,
                             output_padding=0, groups=1, dilation=1), (1, 2),
                        lambda x: 1 + np.repeat(x, 2, axis=1) * [1, 2, 1, 2]),
    "Conv1d": (fake("Conv1d", weight=np.array([[[1.0, 2.0]]]), bias=None, stride=1, padding=(1,), dilation=1, groups=1,
                    padding_mode="circular"), (1, 2),
               lambda x: np.stack([x[:, 1] + 2 * x[:, 0], x[:, 0] + 2 * x[:, 1], x[:, 1] + 2 * x[:, 0]], axis=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS_OF_A_FEW_NUMBERS)
def test_layers_by_hand(name: str) -> None:
    layer, shape, expected = LAYERS_OF_A_FEW_NUMBERS[name]
    x = 2.0 * RNG.normal(size=(6, int(np.prod(shape))))
    values = from_torch(layer, shape).forward(x)
    np.testing.assert_allclose(values, expected(x).reshape(6, -1), rtol=1e-12, atol=1e-12)

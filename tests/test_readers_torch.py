"""PyTorch modules: against torch where it is installed, and with look-alikes by class name everywhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

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
        sequential(linear(2, 2), fake("GELU")),
        None,
        "layer GELU '1' is not supported; supported: Sequential, L",
    ),
    "unknown first": (sequential(fake("LSTM"), linear(2, 2)), None, "layer LSTM '0' is not supported"),
    "own module": (fake("MyNet"), (3,), "layer MyNet is not supported"),
    "no shape": (sequential(conv(KERNEL), FLATTEN), None, r"Conv2d '0' needs the input's size; give input_shape="),
    "no shape at all": (sequential(RELU), None, "no layer tells the number of inputs"),
    "bad shape": (sequential(linear(2, 2)), (0,), r"input_shape=\(0,\)"),
    "empty shape": (sequential(linear(2, 2)), (), "input_shape="),
    "sizes": (sequential(linear(2, 3), linear(4, 2)), None, r"Linear '1': a matrix of shape \(4, 2\)"),
    "bias": (fake("Linear", in_features=2, weight=np.ones((3, 2)), bias=np.ones(4)), None, "do not broadcast"),
    "weight": (fake("Linear", in_features=2, weight=np.ones(2), bias=None), None, "two axes"),
    "no weight": (fake("Linear", in_features=2, weight=None, bias=None), None, "has no weight"),
    "nan": (fake("Linear", in_features=2, weight=np.full((1, 2), np.nan), bias=None), None, "from_torch: .*not finite"),
    "padding mode": (conv(KERNEL, padding_mode="reflect"), IMAGE, "padding_mode='reflect'"),
    "stride": (conv(KERNEL, stride=(1, 1, 1)), IMAGE, "each of 2 axes"),
    "channels": (conv(KERNEL), (3, 4, 4), "does not fit 3 channels"),
    "divisor": (pool(divisor_override=3), IMAGE, "divisor_override"),
    "softplus": (fake("Softplus", beta=2.0, threshold=20.0), (2,), "only beta=1"),
    "softmax inside": (sequential(linear(2, 2), fake("Softmax"), linear(2, 2)), None, "only supported at the end"),
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
        from_torch(fake("GELU"), (3,))


def torch_cases(nn: Any) -> dict[str, tuple[Any, tuple[int, ...]]]:
    return {
        "linear": (nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 2, bias=False)), (3,)),
        "activations": (
            nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.2), nn.ELU(1.5), nn.Softplus(), nn.Sigmoid(), nn.Tanh()),
            (3,)),
        "conv": (nn.Sequential(nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)), nn.ReLU(),
                               nn.Flatten(), nn.LazyLinear(3)), (2, 7, 6)),
        "same": (nn.Sequential(nn.Conv2d(2, 4, (4, 3), padding="same", dilation=(1, 2), groups=2), nn.Identity()),
                 (2, 7, 6)),
        "valid": (nn.Sequential(nn.Conv2d(2, 3, 3, padding="valid", bias=False), nn.Flatten(-2)), (2, 7, 6)),
        "norm": (nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4, affine=False)),
                 (2, 7, 6)),
        "norm 1d": (nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), nn.BatchNorm1d(3)), (4,)),
        "pool": (nn.Sequential(nn.AvgPool2d(3, 2, 1), nn.AvgPool2d((2, 1))), (2, 7, 6)),
        "pool ceil": (nn.Sequential(nn.AvgPool2d(3, 2, 1, ceil_mode=True)), (2, 8, 6)),
        "pool ceil not counted": (nn.Sequential(nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False)),
                                  (2, 8, 6)),
        "one axis": (nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.AvgPool1d(2), nn.BatchNorm1d(3)), (2, 9)),
        "linear on rows": (nn.Sequential(nn.Linear(6, 3), nn.ReLU()), (2, 7, 6)),
        "double": (nn.Sequential(nn.Linear(3, 5)).double(), (3,)),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("name", torch_cases(MagicMock()))
def test_agrees_with_torch(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed; the look-alikes above cover the reader")
    torch.manual_seed(0)
    module, shape = torch_cases(torch.nn)[name]
    double = name == "double"
    batch = torch.randn(8, *shape, dtype=torch.float64 if double else torch.float32)
    with torch.no_grad():
        module.train()(batch)  # gives batch normalisation statistics of its own and lazy layers their size
        expected = module.eval()(batch).reshape(8, -1).numpy()
    network = from_torch(module, shape)
    np.testing.assert_allclose(network.forward(batch.reshape(8, -1).numpy()), expected, rtol=1e-5, atol=1e-5)

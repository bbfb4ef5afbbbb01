# mypy: allow-subclassing-any
"""PyTorch modules against torch itself: values, gradients, and what a forward of its own may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lipcert import InputError, UnsupportedOperator, from_torch
from lipcert.problem.activations import KINDS

torch = pytest.importorskip("torch", reason="torch is not installed; look-alikes and nodes by hand cover the reader")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

pytestmark = pytest.mark.filterwarnings("ignore")  # torch deprecates its old weight norm, and says so
IMAGE = (2, 6, 6)


class Net(nn.Module):
    """A forward given as a function of the module, for its parts, and the input."""

    def __init__(self, function: Callable[[Any, Any], Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def parameter(*shape: int) -> Any:
    return nn.Parameter(torch.randn(*shape))


def dense(function: Callable[[Any, Any], Any], **parts: Any) -> tuple[Any, tuple[int, ...]]:
    """A function between two linear layers."""
    return Net(lambda m, x: m.b(function(m, m.a(x))), a=nn.Linear(4, 6), b=nn.Linear(6, 3), **parts), (4,)


def layers(*parts: Any, shape: tuple[int, ...] = IMAGE) -> tuple[Any, tuple[int, ...]]:
    return nn.Sequential(*parts), shape


def residual(m: Any, x: Any) -> Any:
    out = m.bn(m.conv(x))
    out += m.shortcut(x)
    return F.relu(out, inplace=True).mean([2, 3])


def in_place_twice(m: Any, x: Any) -> Any:
    h = g = m.a(x)
    g += m.w  # h has changed, too
    return h + m.b(m.act(g))


def looped(m: Any, x: Any) -> Any:
    assert x.dim() == 2
    for part in m.list:
        x = x + F.relu(part(x)) if x.shape[1] == 4 else x
    first, second = x.chunk(2, dim=1)
    return torch.cat([torch.max(first, second), torch.min(first, second)], 1)


def filled(m: Any, x: Any) -> Any:
    out = torch.zeros(x.shape[0], 3, dtype=x.dtype, device=x.device)
    for i in range(2):
        out += m.a(x) * (i + 1)
    return out


def cases() -> dict[str, Callable[[], tuple[Any, tuple[int, ...]]]]:
    norms = nn.utils.parametrizations
    return {
        "cnn": lambda: layers(
            nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(96, 3),
        ),
        "same": lambda: layers(nn.Conv2d(2, 4, (4, 3), padding="same", dilation=(1, 2), groups=2), nn.Identity()),
        "padding modes": lambda: layers(
            nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"),
            nn.ReLU(),
            nn.Conv2d(2, 2, 3, padding="same", padding_mode="circular"),
        ),
        "transposed": lambda: layers(
            nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2), nn.Tanh()
        ),
        "pools": lambda: layers(nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False)),
        "adaptive": lambda: layers(nn.AdaptiveMaxPool2d((4, None)), nn.AdaptiveAvgPool2d((3, 4))),
        "divisor": lambda: layers(nn.AvgPool2d(3, 2, 1, ceil_mode=True, divisor_override=5)),
        "three axes": lambda: layers(nn.Conv3d(1, 2, 2), nn.BatchNorm3d(2), nn.MaxPool3d(2, 1), shape=(1, 3, 3, 3)),
        "norm": lambda: layers(nn.BatchNorm1d(4), nn.Linear(4, 3), nn.BatchNorm1d(3, affine=False), shape=(4,)),
        "upsample": lambda: layers(
            nn.Upsample(scale_factor=1.7),
            nn.UpsamplingBilinear2d(scale_factor=2),
            nn.Upsample(size=(5, 7), mode="bilinear"),
        ),
        "rounded sizes": lambda: layers(
            nn.Upsample(scale_factor=(1.1, 2.3)), nn.Upsample(scale_factor=(1.1, 1.3), mode="bilinear")
        ),
        "shuffle": lambda: layers(
            nn.PixelUnshuffle(2), nn.ZeroPad2d((1, 0, 0, 1)), nn.PixelShuffle(2), nn.ReplicationPad2d(1)
        ),
        "kinks": lambda: layers(
            nn.Linear(6, 6), nn.LeakyReLU(0.2), nn.PReLU(2), nn.Hardtanh(), nn.ReLU6(), nn.Softshrink(0.1), nn.RReLU()
        ),
        "smooth": lambda: layers(
            nn.Linear(6, 6),
            nn.ELU(1.5),
            nn.SELU(),
            nn.CELU(2.0),
            nn.Softplus(2.0),
            nn.LogSigmoid(),
            nn.Tanhshrink(),
            nn.Hardsigmoid(),
        ),
        "weight norm": lambda: layers(
            norms.weight_norm(nn.Linear(6, 4)), nn.ReLU(), nn.utils.spectral_norm(nn.Linear(4, 2))
        ),
        "spectral norm": lambda: layers(
            norms.spectral_norm(nn.Conv2d(2, 3, 3)), nn.ReLU(), nn.utils.weight_norm(nn.Conv2d(3, 2, 1))
        ),
        "residual": lambda: (
            Net(residual, conv=nn.Conv2d(2, 2, 3, padding=1), bn=nn.BatchNorm2d(2), shortcut=nn.Sequential()),
            IMAGE,
        ),
        "in place": lambda: (
            Net(in_place_twice, a=nn.Linear(4, 4), b=nn.Linear(4, 4), act=nn.ReLU(inplace=True), w=parameter(4)),
            (4,),
        ),
        "input in place": lambda: (Net(lambda m, x: F.relu(x, inplace=True) + m.a(x), a=nn.Linear(4, 4)), (4,)),
        "loops": lambda: (Net(looped, list=nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])), (4,)),
        "filled": lambda: (Net(filled, a=nn.Linear(4, 3)), (4,)),
        "sort": lambda: dense(lambda _, x: x.view(x.size(0), 2, 3).sort(dim=-1)[0].flatten(1)),
        "top": lambda: dense(lambda _, x: torch.topk(x, 2)[0].repeat(1, 3) + x.amin(1, keepdim=True)),
        "where": lambda: dense(lambda _, x: torch.where(x > 0, x, 0.1 * x) + x * (x > 0.0)),
        "clamp": lambda: dense(lambda m, x: x.clamp(max=m.w).clamp_(-0.3) - torch.abs(x), w=parameter(6)),
        "constants": lambda: dense(
            lambda m, x: F.linear(x, m.w / m.w.norm(dim=1, keepdim=True)) * torch.sin(m.v),
            w=parameter(6, 6),
            v=torch.randn(6),
        ),
        "products": lambda: dense(
            lambda m, x: torch.einsum("bi,ij->bj", x @ m.w, m.w) + torch.matmul(m.w, x.unsqueeze(2)).squeeze(2),
            w=parameter(6, 6),
        ),
        "batched": lambda: dense(
            lambda m, x: torch.matmul(m.w, x.view(1, 3, 1, 2)[..., :1]).flatten(1)[:, :6], w=parameter(3, 2, 1)
        ),
        "indexing": lambda: dense(
            lambda m, x: x[:, m.k] + x.view(1, 2, 3)[0, :, [2, 0, 1]].reshape(1, 6), k=torch.tensor([0, 2, 1, 5, 4, 3])
        ),
        "stacks": lambda: dense(
            lambda _, x: torch.stack([x, -x.flip(1)], dim=2).mean(2) + sum(x.split([1, 5], 1)[0:1])
        ),
        "functions": lambda: (
            Net(
                lambda m, x: F.interpolate(
                    F.pad(F.conv2d(x, m.w, stride=2), (1, 1, 0, 2), mode="replicate"), scale_factor=1.5, mode="bilinear"
                ),
                w=parameter(3, 2, 3, 3),
            ),
            IMAGE,
        ),
        "computed kernel": lambda: (nn.Sequential(Standardised(2, 3, 3), nn.ReLU()), IMAGE),
        "subclass": lambda: (nn.Sequential(Doubled(4, 3), nn.ReLU()), (4,)),
    }


class Standardised(nn.Conv2d):
    """Changes its weight on the way, inside a method of torch's own layer."""

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        return super()._conv_forward(input, weight - weight.mean(dim=(1, 2, 3), keepdim=True), bias)


class Doubled(nn.Linear):
    def forward(self, x: Any) -> Any:
        return 2.0 * super().forward(x)


def made(name: str) -> tuple[Any, tuple[int, ...]]:
    torch.manual_seed(0)
    module, shape = cases()[name]()
    module = module.double()
    with torch.no_grad():
        for part in module.modules():
            if getattr(part, "running_mean", None) is not None:
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2.0)
    return module.eval(), shape


@pytest.mark.parametrize("name", cases())
def test_values_and_gradients_are_those_of_torch(name: str) -> None:
    module, shape = made(name)
    network = from_torch(module, shape)
    x = torch.randn(6, *shape, dtype=torch.float64)
    rows = [module(row[None].clone()).reshape(-1) for row in x]
    expected = torch.stack(rows).detach().numpy()
    np.testing.assert_allclose(network.forward(x.reshape(6, -1).numpy()), expected, rtol=1e-9, atol=1e-10)
    c = torch.randn(expected.shape[1], dtype=torch.float64)
    x.requires_grad_()
    total = sum((module(x[i : i + 1].clone()).reshape(-1) * c).sum() for i in range(6))
    (slopes,) = torch.autograd.grad(total, x)
    gradient = network.gradient(x.detach().reshape(6, -1).numpy(), c.numpy())
    np.testing.assert_allclose(gradient + np.zeros((6, 1)), slopes.reshape(6, -1).numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("layer", ["GELU", "SiLU", "Mish", "Hardswish", "Softsign"])
def test_activations_of_a_kind_of_their_own(layer: str) -> None:
    if layer.lower() not in KINDS:
        pytest.skip(f"{layer} is no activation yet")
    module = nn.Sequential(nn.Linear(3, 5), getattr(nn, layer)()).double()
    x = 3.0 * torch.randn(6, 3, dtype=torch.float64)
    np.testing.assert_allclose(from_torch(module).forward(x.numpy()), module(x).detach().numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_parameters_of_other_types_are_exact(kind: str) -> None:
    module = nn.Linear(3, 4).to(getattr(torch, kind))
    np.testing.assert_array_equal(from_torch(module).affines[0].weight, module.weight.detach().double().numpy())


def test_the_module_is_left_as_it_was() -> None:
    class Busy(nn.Module):
        """Keeps what it has seen, counts its calls and registers a buffer when it is first called."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.norm, self.drop = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            if not hasattr(self, "shift"):
                self.register_buffer("shift", torch.arange(4.0))
            self.calls += 1
            self.seen = self.drop(self.norm(self.a(x)))
            return self.seen + self.shift

    module = Busy()
    module.drop.eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    noise = torch.random.get_rng_state()
    network = from_torch(module)
    assert network.notes == ("BatchNorm1d 'norm': in training mode, read as in evaluation mode",)
    assert [part.training for part in module.modules()] == [True, True, True, False]
    assert list(module.state_dict()) == list(before)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not hasattr(module, "seen")
    assert torch.equal(noise, torch.random.get_rng_state())


def test_compiled_modules_are_read_as_what_they_were_made_of() -> None:
    class OptimizedModule(nn.Module):
        """What torch.compile returns, without its compiler."""

        def __init__(self, module: Any) -> None:
            super().__init__()
            self._orig_mod = module

    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    assert from_torch(OptimizedModule(module), (4,)).sha256 == from_torch(module).sha256


def test_a_softmax_at_the_end_is_left_out() -> None:
    module = Net(lambda m, x: F.log_softmax(m.a(x), dim=1), a=nn.Linear(3, 4))
    network = from_torch(module)
    assert network.notes == ("log_softmax at the end is left out: the outputs are the scores that enter it",)
    np.testing.assert_array_equal(network.affines[0].weight, module.a.weight.detach().double().numpy())
    aside = Net(lambda m, x: (m.a(x).softmax(1), m.a(x))[1], a=nn.Linear(3, 4))
    assert from_torch(aside).notes == ()


def test_shapes_from_the_first_layer_of_a_forward() -> None:
    flat = Net(lambda m, x: m.b(F.relu(m.a(torch.flatten(x, 1)))) + 1.0, a=nn.Linear(5, 4), b=nn.Linear(4, 2))
    assert from_torch(flat).inputs == 5
    for module in (Net(lambda m, x: m.a(x), a=nn.Conv2d(1, 2, 3)), Net(lambda _, x: x.relu() if len(x.shape) else x)):
        with pytest.raises(InputError, match="no layer tells the number of inputs; give input_shape"):
            from_torch(module)


class TwoInputs(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x + y


def hooked() -> Any:
    module = nn.Sequential(nn.Linear(4, 4))
    module[0].register_forward_hook(lambda *_: None)
    return module


def stale(m: Any, x: Any) -> Any:
    h = m.a(x)
    h.view(2, 2).relu_()
    return h


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "control flow": (
        lambda: dense(lambda _, x: x if x.sum() > 0 else -x)[0],
        "Net: its forward branches on values of the input, and an ONNX export would keep one branch only",
    ),
    "two inputs": (TwoInputs, "TwoInputs cannot be traced .*missing 1 required positional argument"),
    "two outputs": (lambda: Net(lambda _, x: (x, x)), "something else than one tensor"),
    "assignment": (lambda: dense(lambda _, x: x.__setitem__(0, 1.0))[0], "Tensor.__setitem__ .*not supported"),
    "error": (lambda: dense(lambda _, x: x.view(7, 7))[0], r"Tensor.view \(node 'view', forward of Net\): a tensor of"),
    "unknown": (lambda: dense(lambda _, x: torch.cumsum(x, 1))[0], r"torch.cumsum \(node 'cumsum', forward of Net\)"),
    "layer": (lambda: nn.Sequential(nn.Linear(4, 4), nn.LocalResponseNorm(2)), "LocalResponseNorm '1': divides by"),
    "weights": (lambda: Net(lambda m, x: m.a(x, x, x)[1], a=nn.MultiheadAttention(4, 1)), "weights of an attention"),
    "norm": (
        lambda: dense(lambda _, x: F.normalize(x, eps=1.0))[0],
        "functional.normalize .*divides by a norm",
    ),
    "no statistics": (lambda: nn.BatchNorm1d(4, track_running_stats=False), "running statistics"),
    "noise": (lambda: dense(lambda _, x: x + torch.randn(6))[0], "draws random numbers"),
    "noise like it": (lambda: dense(lambda _, x: x + torch.randn_like(x))[0], "draws random numbers"),
    "dropout": (lambda: dense(lambda _, x: F.dropout(x))[0], "drops values in evaluation too"),
    "hidden": (lambda: dense(lambda _, x: x if isinstance(x, torch.Tensor) else -x)[0], "tracing does not see"),
    "hooks": (hooked, "Linear '0' has forward hooks"),
    "views": (lambda: Net(stale, a=nn.Linear(4, 4)), "after a view of it was changed in place"),
    "indices": (lambda: dense(lambda _, x: x * x.max(1)[1])[0], "indices of a maximum"),
    "complex": (lambda: Net(lambda m, x: x * m.w.real, w=nn.Parameter(torch.ones(4) * 1j)), "not of a real floating"),
    "invalid": (
        lambda: dense(lambda _, x: F.pad(x.view(1, 1, 2, 3), (1, 1), mode="reflect").flatten(1)[:, :6])[0],
        "fails in torch",
    ),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(3)), "LazyLinear '0' has no size yet"),
    "endless": (lambda: Net(lambda m, x: m(x)), "cannot be traced"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_line(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(InputError, match=words) as caught:
        from_torch(make(), (4,))
    assert str(caught.value).startswith("from_torch: ")
    assert "\n" not in str(caught.value)


def test_what_is_not_read_is_an_unsupported_operator() -> None:
    with pytest.raises(UnsupportedOperator):
        from_torch(TwoInputs(), (4,))

"""Modules of torch that multiply, normalise and attend: values and gradients are those of torch, and bounds hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lipcert import Box, bound
from lipcert.readers.torch import from_torch

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
nn, F = torch.nn, torch.nn.functional


class Of(nn.Module):  # type: ignore[misc, name-defined]
    """A module whose forward is a function of itself and x."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self._forward = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Any) -> Any:
        return self._forward(self, x)


def head(own: Any, x: Any) -> Any:
    return torch.softmax(own.q(x) @ own.k(x).transpose(-1, -2) / math.sqrt(4), -1) @ own.v(x)


def heads(own: Any, x: Any) -> Any:
    return F.scaled_dot_product_attention(own.q(x), own.k(x), own.v(x), is_causal=True)


def masked(own: Any, x: Any) -> Any:
    return F.scaled_dot_product_attention(own.q(x), own.k(x), own.v(x), attn_mask=torch.eye(3), scale=0.3)


def projections() -> dict[str, Any]:
    return {name: nn.Linear(4, 4) for name in "qkv"}


MODULES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "exp": (lambda: Of(lambda _, x: torch.exp(x)), (4,)),
    "log and roots": (lambda: Of(lambda _, x: torch.log(x.exp() + 1) + torch.sqrt(x * x + 1) + x.exp().rsqrt()), (4,)),
    "waves": (lambda: Of(lambda _, x: torch.sin(x) * torch.cos(x) + torch.atan(x)), (4,)),
    "powers": (lambda: Of(lambda _, x: x.square() + x**3 + 2**x + 1 / (x.exp() + 1)), (4,)),
    "softmax inside": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1), nn.Linear(4, 2)), (4,)),
    "log softmax inside": (lambda: Of(lambda own, x: own.a(F.log_softmax(x, dim=1)), a=nn.Linear(4, 2)), (4,)),
    "glu": (lambda: nn.Sequential(nn.Linear(4, 6), nn.GLU(), nn.Linear(3, 2)), (4,)),
    "swiglu": (lambda: Of(lambda own, x: F.silu(own.a(x)) * own.b(x), a=nn.Linear(4, 5), b=nn.Linear(4, 5)), (4,)),
    "layer norm": (lambda: nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 2)), (4,)),
    "group norm": (lambda: nn.Sequential(nn.Conv1d(2, 4, 2), nn.GroupNorm(2, 4)), (2, 5)),
    "instance norm": (lambda: nn.InstanceNorm1d(2, affine=True), (2, 5)),
    "rms norm": (lambda: nn.RMSNorm(4, eps=1e-5), (3, 4)),
    "normalize": (lambda: Of(lambda _, x: F.normalize(x, dim=-1) + x.norm(dim=-1, keepdim=True)), (4,)),
    "logsumexp": (lambda: Of(lambda _, x: torch.logsumexp(x, 1)), (4,)),
    "attention": (lambda: Of(head, **projections()), (3, 4)),
    "causal attention": (lambda: Of(heads, **projections()), (3, 4)),
    "masked attention": (lambda: Of(masked, **projections()), (3, 4)),
    "attention with heads": (
        lambda: Of(lambda own, x: own.a(x, x, x)[0], a=nn.MultiheadAttention(4, 2, batch_first=True)), (3, 4),
    ),
    "attention with a mask": (
        lambda: Of(
            lambda own, x: own.a(x, x, x, attn_mask=torch.triu(torch.ones(3, 3), 1).bool())[0],
            a=nn.MultiheadAttention(4, 2, bias=False, batch_first=True),
        ),
        (3, 4),
    ),
    "encoder": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 6, activation="gelu", batch_first=True), 2, norm=nn.LayerNorm(4)
        ),
        (2, 4),
    ),
    "encoder with norms first": (
        lambda: nn.TransformerEncoderLayer(4, 1, 6, batch_first=True, norm_first=True), (2, 4),
    ),
    "lstm": (lambda: Of(lambda own, x: own.a(x)[0], a=nn.LSTM(2, 3, batch_first=True, bidirectional=True)), (3, 2)),
    "gru": (lambda: Of(lambda own, x: own.a(x)[1], a=nn.GRU(2, 3, num_layers=2, batch_first=True)), (3, 2)),
    "rnn": (lambda: Of(lambda own, x: own.a(x)[0], a=nn.RNN(2, 3, batch_first=True)), (3, 2)),
    "cell": (lambda: Of(lambda own, x: own.a(x, own.a(x))[0], a=nn.LSTMCell(3, 2)), (3,)),
    "bilinear form": (lambda: Of(lambda own, x: torch.einsum("bi,bi->b", own.a(x), x), a=nn.Linear(4, 4)), (4,)),
    "excitation": (
        lambda: Of(lambda own, x: x * torch.sigmoid(own.a(x.mean(-1)))[:, :, None], a=nn.Linear(2, 2)), (2, 5),
    ),
    "coupling": (
        lambda: Of(
            lambda own, x: torch.cat([x[:, :2], x[:, 2:] * torch.exp(torch.tanh(own.s(x[:, :2])))], 1),
            s=nn.Linear(2, 2),
        ),
        (4,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_values_gradients_and_bounds(name: str) -> None:
    make, shape = MODULES[name]
    torch.manual_seed(0)
    module = make().double().eval()
    net = from_torch(module, input_shape=shape)
    rng = np.random.default_rng(1)
    x = rng.uniform(0.2, 1.0, net.inputs)
    t = torch.tensor(x.reshape(1, *shape), requires_grad=True)
    there = module(t).reshape(-1)
    np.testing.assert_allclose(net.forward(x), there.detach().numpy(), rtol=1e-9, atol=1e-9)
    c = rng.normal(size=net.outputs)
    (there * torch.tensor(c)).sum().backward()
    np.testing.assert_allclose(net.gradient(x, c)[0], t.grad.numpy().reshape(-1), rtol=1e-7, atol=1e-8)
    found = bound(net, Box(x, 0.01), output=c, method="linear", lower=False)
    sampled = max(np.abs(net.gradient(x + d, c)).sum() for d in rng.uniform(-0.01, 0.01, (20, net.inputs)))
    assert sampled * (1 - 1e-9) <= found.upper <= 1.5 * sampled

"""Modules with a forward of their own: sorting, arithmetic, slices, changes of shape, functions with parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone writes it
from torch import nn

from benchmarks.reading._case import Case, Forward

IMAGE = (2, 6, 6)


def forward_cases() -> Iterator[Case]:
    yield from _sorted()
    yield from _arithmetic()
    yield from _shapes()
    yield from _functional()


def _sorted() -> Iterator[Case]:
    def between(kind: str, name: str, function: Callable[[Any], Any], **parts: Any) -> Case:
        return Case(
            kind,
            name,
            (4,),
            lambda: Forward(lambda m, x: m.b(function(m.a(x))), a=nn.Linear(4, 6), b=nn.Linear(6, 3), **parts),
        )

    yield between("maxmin and groupsort", "maxmin_split", _maxmin_split)
    yield between(
        "maxmin and groupsort",
        "maxmin_view_sort",
        lambda x: x.view(x.shape[0], 3, 2).sort(dim=2)[0].view(x.shape[0], 6),
    )
    yield between(
        "maxmin and groupsort",
        "maxmin_view_max",
        lambda x: torch.cat([x.view(-1, 3, 2).max(2)[0], x.view(-1, 3, 2).min(2)[0]], 1),
    )
    yield between(
        "maxmin and groupsort",
        "groupsort_3",
        lambda x: torch.sort(x.view(-1, 2, 3), dim=-1, descending=True).values.flatten(1),
    )
    yield between("maxmin and groupsort", "fullsort", lambda x: torch.sort(x, dim=1)[0])
    yield Case(
        "maxmin and groupsort",
        "maxmin_channels",
        IMAGE,
        lambda: Forward(lambda m, x: m.b(_maxmin_split(m.a(x)).flatten(1)), a=nn.Conv2d(2, 4, 3), b=nn.Linear(64, 3)),
    )
    theta = torch.linspace(0.3, 2.5, 3)
    yield Case(
        "householder",
        "householder_where",
        (4,),
        lambda: Forward(
            lambda m, x: m.b(_householder_where(m.a(x), m.theta)),
            a=nn.Linear(4, 6),
            b=nn.Linear(6, 3),
            theta=nn.Parameter(theta.clone()),
        ),
    )
    yield Case(
        "householder",
        "householder_relu",
        (4,),
        lambda: Forward(
            lambda m, x: m.b(_householder_relu(m.a(x), m.theta)),
            a=nn.Linear(4, 6),
            b=nn.Linear(6, 3),
            theta=theta.clone(),
        ),
    )


def _maxmin_split(x: Any) -> Any:
    a, b = x.split(x.shape[1] // 2, dim=1)
    return torch.cat([torch.max(a, b), torch.min(a, b)], dim=1)


def _householder_where(z: Any, theta: Any) -> Any:
    """As 1-Lipschitz networks are published: a reflection where the point is on the other side."""
    x, y = z.split(3, dim=1)
    selector = x * torch.sin(0.5 * theta) - y * torch.cos(0.5 * theta)
    a = x * torch.cos(theta) + y * torch.sin(theta)
    b = x * torch.sin(theta) - y * torch.cos(theta)
    return torch.cat([torch.where(selector <= 0, x, a), torch.where(selector <= 0, y, b)], dim=1)


def _householder_relu(z: Any, theta: Any) -> Any:
    """The same function: z - 2 v relu(v'z) with unit vectors v = (sin, -cos)(theta/2)."""
    x, y = z.split(3, dim=1)
    s, c = torch.sin(0.5 * theta), torch.cos(0.5 * theta)
    step = 2.0 * F.relu(x * s - y * c)
    return torch.cat([x - step * s, y + step * c], dim=1)


def _arithmetic() -> Iterator[Case]:
    def made(kind: str, name: str, function: Callable[[Any, Any], Any]) -> Case:
        return Case(
            kind,
            name,
            (4,),
            lambda: Forward(
                lambda m, x: m.b(function(m.a(x), m.c(x))), a=nn.Linear(4, 6), c=nn.Linear(4, 6), b=nn.Linear(6, 3)
            ),
        )

    kind = "clamp, abs, maximum"
    yield made(kind, "clamp", lambda a, c: a.clamp(-0.5, 0.7) + torch.clamp(c, max=0.3))
    yield made(kind, "abs", lambda a, c: a.abs() - torch.abs(c))
    yield made(kind, "maximum", lambda a, c: torch.maximum(a, c))
    yield made(kind, "minimum_sub", lambda a, c: torch.minimum(a, 2 * c) - a / 4 + 1)
    yield made(kind, "neg_and_scalars", lambda a, c: -F.relu(a) * 3 + (1 - c))
    yield made(kind, "amax", lambda a, c: c + a.amax(dim=1, keepdim=True))
    yield Case("input normalisation", "normalisation", IMAGE, _normalised)
    yield Case(
        "input normalisation",
        "normalisation_times",
        (4,),
        lambda: Forward(
            lambda m, x: m.net(x * 2.0 - 1.0), net=nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        ),
    )


def _normalised() -> Any:
    """A network behind (x - mean) / std with buffers, as for images."""
    net = nn.Sequential(nn.Conv2d(2, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
    mean, std = (torch.tensor(numbers).view(1, 2, 1, 1) for numbers in ([0.1, 0.4], [0.5, 0.2]))
    return Forward(lambda m, x: m.net((x - m.mean) / m.std), mean=mean, std=std, net=net)


def _shapes() -> Iterator[Case]:
    def conv(
        kind: str, name: str, features: int, function: Callable[[Any], Any], size: tuple[int, ...] = IMAGE
    ) -> Case:
        return Case(
            kind,
            name,
            size,
            lambda: Forward(
                lambda m, x: m.b(torch.flatten(F.relu(function(m.a(x))), 1)),
                a=nn.Conv2d(2, 4, 3, padding=1),
                b=nn.Linear(features, 3),
            ),
        )

    yield conv("global mean", "mean_axes", 4, lambda x: x.mean([2, 3]))
    yield conv("global mean", "mean_twice", 4, lambda x: x.mean(-1).mean(-1))
    yield conv("global mean", "mean_keepdim", 4, lambda x: torch.mean(x, dim=(2, 3), keepdim=True))
    yield conv("global mean", "sum_axis", 24, lambda x: x.sum(dim=3))
    yield conv("padding", "f_pad_zeros", 256, lambda x: F.pad(x, (1, 1, 1, 1)))
    yield conv("padding", "f_pad_reflect", 256, lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"))
    yield conv("padding", "f_pad_replicate", 252, lambda x: F.pad(x, (1, 2, 0, 1), mode="replicate"))
    yield conv("padding", "f_pad_channels", 216, lambda x: F.pad(x, (0, 0, 0, 0, 1, 1)))
    yield conv("padding", "f_pad_crop", 96, lambda x: F.pad(x, (-1, -1)))
    yield conv("slices and chunks", "slice_channels", 72, lambda x: x[:, 1:3])
    yield conv("slices and chunks", "slice_steps", 36, lambda x: x[:, :, ::2, 1::2])
    yield conv("slices and chunks", "slice_index", 24, lambda x: x[:, :, 0] + x[..., -1])
    yield conv("slices and chunks", "chunk", 72, lambda x: x.chunk(2, dim=1)[0] - torch.chunk(x, 2, 1)[1])
    yield conv("slices and chunks", "split_uneven", 144, lambda x: torch.cat(torch.split(x, [1, 3], dim=1)[::-1], 1))
    yield conv("slices and chunks", "flip", 144, lambda x: torch.flip(x, [3]))
    yield conv("slices and chunks", "index_select", 72, lambda x: x[:, [2, 0]])
    yield conv("changes of shape", "permute", 144, lambda x: x.permute(0, 2, 3, 1))
    yield conv("changes of shape", "transpose", 144, lambda x: x.transpose(1, 2).contiguous())
    yield conv("changes of shape", "squeeze", 144, lambda x: x.unsqueeze(1).transpose(1, 2).squeeze(2))
    yield conv("changes of shape", "unflatten", 144, lambda x: x.flatten(2).unflatten(2, (4, 9)))
    yield conv("changes of shape", "expand", 288, lambda x: x.unsqueeze(2).expand(-1, -1, 2, -1, -1))
    yield conv("changes of shape", "repeat", 288, lambda x: x.repeat(1, 2, 1, 1))
    yield conv("changes of shape", "channel_shuffle", 144, lambda x: F.channel_shuffle(x, 2))
    yield conv("upsampling", "f_interpolate", 576, lambda x: F.interpolate(x, scale_factor=2))
    yield conv("upsampling", "f_interpolate_bilinear", 576, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))
    yield conv(
        "upsampling",
        "f_interpolate_size",
        100,
        lambda x: F.interpolate(x, size=(5, 5), mode="bilinear", align_corners=False),
    )


def _functional() -> Iterator[Case]:
    def weight(*shape: int) -> Any:
        return nn.Parameter(0.5 * torch.randn(*shape))

    kind = "functional with parameters"
    yield Case(
        kind,
        "f_linear",
        (4,),
        lambda: Forward(
            lambda m, x: F.linear(F.relu(F.linear(x, m.w, m.v)), m.u), w=weight(6, 4), v=weight(6), u=weight(3, 6)
        ),
    )
    yield Case(
        kind,
        "f_conv2d",
        IMAGE,
        lambda: Forward(
            lambda m, x: F.linear(F.relu(F.conv2d(x, m.w, m.v, stride=2, padding=1)).flatten(1), m.u),
            w=weight(3, 2, 3, 3),
            v=weight(3),
            u=weight(3, 27),
        ),
    )
    yield Case(
        kind,
        "einsum",
        (4,),
        lambda: Forward(
            lambda m, x: torch.einsum("bi,oi->bo", F.relu(torch.einsum("bi,oi->bo", x, m.w)), m.u),
            w=weight(6, 4),
            u=weight(3, 6),
        ),
    )
    yield Case(
        kind,
        "matmul",
        (4,),
        lambda: Forward(lambda m, x: F.relu(x @ m.w + m.v) @ m.u, w=weight(4, 6), v=weight(6), u=weight(6, 3)),
    )
    yield Case(
        kind,
        "matmul_left",
        (4, 2),
        lambda: Forward(lambda m, x: torch.matmul(m.u, F.relu(torch.matmul(m.w, x))), w=weight(6, 4), u=weight(3, 6)),
    )
    yield Case(
        kind,
        "weight_computed",
        (4,),
        lambda: Forward(
            lambda m, x: F.linear(F.relu(F.linear(x, m.w / m.w.norm(dim=1, keepdim=True))), torch.tanh(m.u)),
            w=weight(6, 4),
            u=weight(3, 6),
        ),
    )
    yield Case(
        kind,
        "f_batch_norm",
        (4,),
        lambda: Forward(
            lambda m, x: F.linear(F.relu(F.batch_norm(F.linear(x, m.w), m.mean, m.var)), m.u),
            w=weight(6, 4),
            u=weight(3, 6),
            mean=torch.randn(6),
            var=torch.rand(6) + 0.5,
        ),
    )

"""What `bound`, `certify` and `verify` take: networks, paths and torch modules, and regions that are regions."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert import Ball, Box, Everywhere, InputError, Network, bound, certify, load, verify
from lipcert.readers import given

RNG = np.random.default_rng(2)
NET = Network.from_weights(
    [RNG.normal(size=(5, 12)), RNG.normal(size=(3, 5))], [RNG.normal(size=5), RNG.normal(size=3)]
)
BOX = Box(np.zeros(12), 0.1)
POINTS = RNG.normal(size=(4, 12))


class Module:
    """Has what tells a torch module."""

    def named_children(self) -> list[Any]:
        return []

    def state_dict(self) -> dict[str, Any]:
        return {}


def reader(monkeypatch: pytest.MonkeyPatch, needs_shape: bool) -> list[Any]:
    """Stands for `from_torch`; returns the shapes that it is asked with."""
    asked: list[Any] = []

    def from_torch(module: Any, input_shape: Any = None) -> Network:
        assert isinstance(module, Module)
        asked.append(input_shape)
        if needs_shape and (input_shape is None or len(input_shape) != 3):
            raise InputError("from_torch: give input_shape")
        return NET

    monkeypatch.setattr(given, "from_torch", from_torch)
    return asked


def test_a_path_is_read(tmp_path: Path) -> None:
    path = tmp_path / "net.npz"
    NET.save(path)
    for place in (path, str(path)):
        result = bound(place, BOX, output=1, method="interval", lower=False)
        assert result.upper == bound(NET, BOX, output=1, method="interval", lower=False).upper
        assert verify(result.certificate, place).proved
        assert given.network_of(place).sha256 == load(path).sha256
    made = certify(path, POINTS, radius=0.01, method="product", attacks=False)
    assert made.network["file"] == "net.npz"
    with pytest.raises(InputError, match=r"nowhere\.npz: no such file"):
        bound(tmp_path / "nowhere.npz", BOX)
    with pytest.raises(InputError, match="pickled files"):
        bound("net.pt", BOX)


@pytest.mark.parametrize(
    ("region", "shapes"),
    [
        (Box(np.zeros((1, 3, 4)), 0.1), [None, (1, 3, 4)]),
        (Box(np.zeros((1, 1, 3, 4)), 0.1), [None, (1, 3, 4)]),
        (Ball(np.zeros((1, 3, 4)), 0.1), [None, (1, 3, 4)]),
        (Box.from_bounds(np.zeros((2, 3, 2)), np.ones((2, 3, 2))), [None, (2, 3, 2)]),
        (Box(np.zeros((3, 4)).tolist(), 0.1), [None, (3, 4)]),
        (BOX, [None]),
        (Everywhere(), [None]),
    ],
)
def test_modules_take_their_shape_from_the_center(
    monkeypatch: pytest.MonkeyPatch, region: Any, shapes: list[Any]
) -> None:
    asked = reader(monkeypatch, needs_shape=True)
    if len(shapes) == 2 and len(shapes[1]) == 3:
        result = bound(Module(), region, output=0, method="interval", lower=False)
        assert verify(result.certificate, Module()).proved
        assert asked == 2 * shapes
    else:
        with pytest.raises(InputError, match="give input_shape"):
            bound(Module(), region, output=0)
        assert asked == shapes


def test_a_saved_proof_about_images_says_how_the_module_becomes_a_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file keeps no shape of the centre; the message says what to give."""
    reader(monkeypatch, needs_shape=True)
    result = bound(Module(), Box(np.zeros((1, 3, 4)), 0.1), output=0, method="interval", lower=False)
    result.certificate.save(tmp_path / "proof.npz")
    with pytest.raises(InputError, match=r"lipcert\.from_torch\(module, input_shape=\.\.\.\) is the network"):
        verify(tmp_path / "proof.npz", Module())


def test_a_center_with_gradients_is_detached() -> None:
    class Tensor:
        """As torch has them: an array only when it is detached."""

        shape = (2,)

        def __array__(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

        def detach(self) -> Any:
            return np.ones(2)

    center: Any = Tensor()
    assert Box(center, 0.5) == Box(np.ones(2), 0.5)


def test_modules_that_know_their_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = reader(monkeypatch, needs_shape=False)
    bound(Module(), Box(np.zeros((1, 3, 4)), 0.1), output=0, method="interval", lower=False)
    assert asked == [None]
    with pytest.raises(InputError, match="center has 24 coordinates, the network has 12 inputs"):
        bound(Module(), Box(np.zeros((2, 3, 4)), 0.1), output=0)


def test_modules_take_their_shape_from_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = reader(monkeypatch, needs_shape=True)
    certify(Module(), POINTS.reshape(4, 1, 3, 4), radius=0.01, method="product", attacks=False)
    assert asked == [None, (1, 3, 4)]


def test_a_module_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    module = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3)
    ).eval()
    image = torch.rand(1, 4, 4)
    result = bound(module, Box(image, 0.05), output=0, method="interval", lower=False)
    assert result.certified
    assert verify(result.certificate, module).proved
    made = certify(module, image[None].numpy(), radius=0.001, method="product", attacks=False)
    assert len(made.labels) == 1


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (None, "NoneType"),
        (3, "int"),
        (BOX, "Box"),
        (b"net.npz", "bytes"),
        (Module, "the class Module"),
        ([NET], "list"),
    ],
)
def test_other_things_are_no_networks(thing: Any, name: str) -> None:
    for call in (
        lambda: bound(thing, BOX),
        lambda: certify(thing, POINTS, radius=0.1),
        lambda: verify(bound(NET, BOX, output=0, method="product", lower=False).certificate, thing),
    ):
        with pytest.raises(InputError, match=f"^net={name}: a network is a lipcert.Network, the path") as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [0.1, 1, np.float64(0.1), np.float32(0.5)])
def test_a_number_is_no_region(number: Any) -> None:
    kinds = "Box(center, radius), Ball(center, radius), Polytope(box, A, b) or Everywhere()"
    text = f"region={number}: a region is {kinds}; "
    hint = f"for a box around zero use Box(numpy.zeros(12), {number})"
    with pytest.raises(InputError) as caught:
        bound(NET, number, output=0)
    assert str(caught.value) == text + hint
    result = bound(NET, Box(np.zeros(12), number), output=0, method="interval", lower=False)  # as the message says
    assert result.certified


@pytest.mark.parametrize(("thing", "name"), [(np.zeros(12), "ndarray"), (None, "NoneType"), (Everywhere, "type")])
def test_other_things_are_no_regions(thing: Any, name: str) -> None:
    with pytest.raises(InputError, match=rf"^region={name}: a region is .* or Everywhere\(\)$"):
        bound(NET, thing, output=0)


def test_regions_remember_the_shape_of_the_center() -> None:
    for kind in (Box, Ball):
        region: Any = kind(RNG.normal(size=(2, 3)), 0.5)
        assert region.shape == (2, 3)
        assert region.center.shape == (6,)
        copy = pickle.loads(pickle.dumps(region))
        assert copy == region
        assert copy.shape == (2, 3)
        assert region == kind(region.center, 0.5)  # the same set of points
    assert Box(0.0, 1.0).shape == (1,)

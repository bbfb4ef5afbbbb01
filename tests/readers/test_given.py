"""What `bound`, `certify` and `verify` take: networks, paths and torch modules, and regions that are regions."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipcert import (
    Affine,
    Ball,
    Box,
    Everywhere,
    InputError,
    Network,
    Polytope,
    bound,
    bound_union,
    certify,
    closed_loop,
    contraction,
    from_torch,
    jacobian,
    load,
    loop_weights,
    partition,
    read_data,
    verify,
    verify_folder,
)
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
        (BOX, [None, (12,)]),
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
        assert asked[:2] == shapes


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
    with pytest.raises(InputError, match=r"shape \(2, 3, 4\) is a batch of 2 inputs of shape \(3, 4\); give one"):
        bound(Module(), Box(np.zeros((2, 3, 4)), 0.1), output=0)
    with pytest.raises(InputError, match=r"center has 25 coordinates, the network has 12 inputs$"):
        bound(Module(), Box(np.zeros((5, 5)), 0.1), output=0)


def test_modules_take_their_shape_from_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = reader(monkeypatch, needs_shape=True)
    certify(Module(), POINTS.reshape(4, 1, 3, 4), radius=0.01, method="product", attacks=False)
    assert asked == [None, (1, 3, 4)]


def test_a_batch_is_not_one_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of images reads one of shape (1, 3, 4), and none of shape (5, 1, 3, 4)."""
    reader(monkeypatch, needs_shape=True)
    words = r"the shape \(5, 1, 3, 4\) is a batch of 5 inputs of shape \(1, 3, 4\); give one of them, center\[i\]$"
    asks: list[tuple[Any, dict[str, Any]]] = [(bound, {}), (partition, {"cells": 1}), (jacobian, {})]
    for ask, more in asks:
        with pytest.raises(InputError, match=words):
            ask(Module(), Box(np.zeros((5, 1, 3, 4)), 0.1), **more)
    with pytest.raises(InputError, match=r"60 coordinates, the network has 12 inputs; it is a batch of 5: give one"):
        bound(NET, Box(np.zeros((5, 12)), 0.1), output=0)
    assert bound(NET, Box(np.zeros((1, 12)), 0.1), output=0, method="interval").certified


def test_a_batch_of_rows_is_not_one_input_of_a_torch_module() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    with pytest.raises(InputError, match=r"\(16, 6\) is a batch of 16 .*from_torch\(module, \(16, 6\)\)"):
        bound(module, Box(torch.rand(16, 6), 0.1), output=0)
    assert from_torch(module, (16, 6)).inputs == 96  # where that is one input
    assert bound(module, Box(torch.rand(1, 6), 0.1), output=0, method="interval").certified


class Gradients:
    """As torch has tensors that require gradients: an array only when they are detached."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)
        self.shape = self.value.shape

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def detach(self) -> Any:
        return self.value


def test_tensors_with_gradients_are_taken_wherever_arrays_are() -> None:
    tensor: Any = Gradients
    made = certify(NET, tensor(POINTS), tensor([0, 1, 2, 0]), radius=0.01, method="product", attacks=False)
    assert len(made.labels) == 4
    asked: dict[str, Any] = {"method": "interval", "lower": False}
    plain = bound(NET, BOX, output=2, **asked)
    assert bound(NET, BOX, output=tensor(2), **asked).upper == plain.upper
    assert bound(NET, BOX, output=tensor([0.0, 0.0, 1.0]), **asked).upper == plain.upper
    assert bound(NET, BOX, output=(tensor(1), tensor(2)), **asked).output.description == {"versus": [1, 2]}
    weighted = bound(NET, BOX, output=2, input_weights=tensor(np.full(12, 2.0)), inputs=tensor([0, 1]), **asked)
    assert weighted.upper < plain.upper
    assert Polytope(BOX, tensor(np.ones((1, 12))), tensor([1.0])).b == [1.0]
    weights = [tensor(w) for w in (np.eye(2), np.ones((1, 2)))]
    assert Network.from_weights(weights, [tensor(np.zeros(2)), tensor(np.zeros(1))]).shape == (2, 2, 1)
    assert np.array_equal(NET.forward(tensor(POINTS)), NET.forward(POINTS))
    assert np.array_equal(NET.gradient(tensor(POINTS), tensor(np.eye(3)[1])), NET.gradient(POINTS, np.eye(3)[1]))


anything: Any = lambda value: value  # noqa: E731 - of a kind that the signature does not have
SQUARE = Network.from_weights([np.eye(2), 0.5 * np.eye(2)], [[0.1, 0.2], [0.0, 0.0]])
CELLS = partition(SQUARE, Box([0.0, 0.0], 1.0), cells=1, output=0, work=0.1)
WRONG: dict[str, tuple[Any, str]] = {
    "cells of a half": (
        lambda: partition(SQUARE, Box([0, 0], 1.0), cells=anything(4.5), output=0),
        "cells must be whole",
    ),
    "cells as text": (
        lambda: partition(SQUARE, Box([0, 0], 1.0), cells=anything("4"), output=0),
        "cells must be whole",
    ),
    "cells of True": (lambda: partition(SQUARE, Box([0, 0], 1.0), cells=True, output=0), "cells must be whole"),
    "a label as weights": (lambda: NET.gradient(np.zeros(12), 3), r"give 3 weights, .*numpy.eye\(3\)\[k\] is score k"),
    "weights of another network": (lambda: NET.gradient(np.zeros(12), np.ones(5)), "c of shape .5,.: give 3 weights"),
    "rows of other points": (lambda: NET.gradient(POINTS, np.ones((3, 3))), "or a row of them for each point"),
    "a label out of range": (lambda: bound(NET, BOX, output=np.array(3)), "label 3 is out of range"),
    "a label of a half": (lambda: bound(NET, BOX, output=1.5), "output=1.5: give a whole number"),
    "text as a point": (lambda: NET.forward("a"), "x must be an array of numbers, not 'a'"),
    "ragged points": (lambda: NET.forward([[1.0], [1.0, 2.0]]), "x must be an array of numbers"),
    "ragged labels": (lambda: certify(NET, POINTS, [[0], [1, 2]], radius=0.1), "labels must be one whole number"),
    "ragged inputs": (
        lambda: bound(NET, BOX, output=0, inputs=anything([[0], [1, 2]])),
        "inputs must be one or more whole",
    ),
    "a loop of a class": (
        lambda: closed_loop(anything(Network), np.eye(2), np.eye(2)),
        "net=the class Network: a network is",
    ),
    "weights that are none": (lambda: Network.from_weights(anything(None)), "weights=None: give a list of matrices"),
    "a bias of text": (lambda: Affine(np.eye(2), anything(["a", "b"])), "a bias must be a vector of numbers"),
    "one region as several": (
        lambda: bound_union(NET, anything(BOX), output=0),
        "give a list of regions; bound is for",
    ),
    "a point as text": (lambda: CELLS.cell_at("a"), "points must be rows of 2 numbers"),
    "ragged points of cells": (lambda: CELLS.cell_at([[1.0], [1.0, 2.0]]), "points must be rows of 2 numbers"),
    "a loop nowhere": (
        lambda: loop_weights(SQUARE, np.eye(2), np.eye(2), anything(None)),
        "region=NoneType: a region is",
    ),
    "a domain of one": (lambda: certify(NET, POINTS, radius=0.1, domain=anything(1)), "domain=1: the domain is two"),
    "refinement as text": (lambda: certify(NET, POINTS, radius=0.1, refine=anything("5")), "refine must be a number"),
    "no time": (lambda: certify(NET, POINTS, radius=0.1, time_limit=anything("soon")), "time_limit must be a positive"),
    "a seed below zero": (
        lambda: certify(NET, POINTS, radius=0.1, seed=-1),
        "seed must be a whole number >= 0, not -1",
    ),
    "workers as text": (lambda: certify(NET, POINTS, radius=0.1, workers=anything("2")), "workers must be a whole"),
    "workers of a half": (lambda: certify(NET, POINTS, radius=0.1, workers=anything(1.5)), "workers must be a whole"),
    "a folder that is a number": (lambda: certify(NET, POINTS, radius=0.1, out=anything(3)), "out=3: give the path"),
    "resumed without a folder": (lambda: certify(NET, POINTS, radius=0.1, resume=True), "resume needs a job folder"),
    "data from nowhere": (lambda: read_data(anything(None)), "path=None: give the path of a file"),
    "a folder that is none": (lambda: verify_folder(anything(None)), "folder=None: give the path of a folder"),
    "one output of a loop": (
        lambda: contraction(SQUARE, np.eye(2), np.eye(2), Box([0, 0], 1.0), output=0),
        "output: the whole loop is bounded",
    ),
    "a loop of nothing": (lambda: closed_loop("nowhere.npz", np.eye(2), np.eye(2)), "nowhere.npz: no such file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_slips_are_one_line(name: str) -> None:
    ask, words = WRONG[name]
    with pytest.raises(InputError, match=words) as caught:
        ask()
    assert "\n" not in str(caught.value)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    made = partition(SQUARE, Box([0, 0], 1.0), cells=anything(np.int64(2)), output=np.int32(0))
    assert len(made) == 4
    assert len(partition(SQUARE, Box([0, 0], 1.0), cells=anything(np.array([2, 3])), output=0)) == 6


def test_data_are_read_by_paths_numbers_and_columns(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "data.csv", [[0.5, 1.0], [0.25, 0.0]], delimiter=",")
    found = read_data(tmp_path / "data.csv", scale=0.5, label_column=-1)
    assert found.labels is not None
    assert (found.inputs.tolist(), found.labels.tolist()) == ([[0.25], [0.125]], [1, 0])


def test_regions_may_come_one_by_one() -> None:
    found = bound_union(NET, anything(box for box in (BOX, BOX)), output=0, method="interval")
    assert len(found.parts) == 2


def test_loops_take_paths(tmp_path: Path) -> None:
    SQUARE.save(tmp_path / "net.npz")
    A, B, box = 0.1 * np.eye(2), 0.1 * np.eye(2), Box([0, 0], 1.0)
    for net in (tmp_path / "net.npz", str(tmp_path / "net.npz")):
        assert closed_loop(net, A, B).sha256 == closed_loop(SQUARE, A, B).sha256
        assert (
            contraction(net, A, B, box, method="interval").upper
            == contraction(SQUARE, A, B, box, method="interval").upper
        )
        assert np.array_equal(loop_weights(net, A, B, box), loop_weights(SQUARE, A, B, box))


@pytest.mark.parametrize("depth", [0, 1])
def test_a_gradient_has_a_row_for_every_point(depth: int) -> None:
    """Also of a network without hidden neurons, and of one whose neurons do not matter."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(3, 4))] if depth == 0 else [rng.normal(size=(5, 4)), np.zeros((3, 5))]
    net = Network.from_weights(weights)
    for points, rows in ((np.zeros(4), 1), (np.zeros((2, 4)), 2), (np.zeros((7, 4)), 7)):
        found = net.gradient(points, np.ones(3))
        assert found.shape == (rows, 4)
        assert np.array_equal(found, net.gradient(points, np.ones((rows, 3))))
        found[0] = 1.0  # every row is its own


def test_modules_of_torch_jit_and_branches_are_refused_in_words() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))

    class Branching(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            return self.a(x) if x.sum() > 0 else -self.a(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        made = [torch.jit.script(module), torch.jit.trace(module, torch.zeros(1, 4))]
    for scripted in (*made, torch.nn.Sequential(made[0])):
        with pytest.raises(InputError, match=r"torch\.jit.* cannot be followed; give the module that it was made of"):
            bound(scripted, Box(np.zeros(4), 0.1), output=0)
    with pytest.raises(InputError, match="an ONNX export would keep one branch only; bound each branch"):
        bound(Branching(), Box(np.zeros(4), 0.1), output=0)


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

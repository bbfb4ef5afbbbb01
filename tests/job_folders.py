"""Job folders as `lipcert certify` writes them, made up but plausible: digits that shrink as the radius grows.

By hand: python -m tests.job_folders FOLDER [--binary] [--incomplete]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lipcert.cli.demo import digits

RADII = (0.02, 0.04, 0.06, 0.08, 0.1)
HOSTILE = "<script>alert(1)</script>\"'&\u202e\ud800 https://evil.example/x.npz"


def make_folder(
    folder: Path, *, classes: int = 10, count: int = 600, complete: bool = True, name: str = "digits_net.npz"
) -> Path:
    """A folder with a result, arrays and certificates; the certificates are empty files, at most 200 of them."""
    rng = np.random.default_rng(7)
    (folder / "pieces").mkdir(parents=True)
    arrays = _arrays(rng, classes, count)
    pairs = _pairs(rng, classes)
    failed = []
    if not complete:
        failed = [{"name": f"pair-{pairs[-1]['i']}-{pairs[-1]['j']}", "error": "MemoryError: out of <memory>"}]
        pairs = pairs[: max(1, (4 * len(pairs)) // 5)]
    for pair in pairs[:200]:
        (folder / pair["certificate"]).write_bytes(b"")
    result = {
        "format": 1,
        "kind": "certify",
        "complete": complete,
        "network": {"file": name, "sha256": "5f" * 32, "shape": [64, 32, classes if classes > 2 else 1]},
        "data": {"file": "digits.npz", "count": count, "scale": "1/16", "image_shape": [8, 8] if classes > 2 else None},
        "norm": "inf",
        "domain": [0.0, 1.0],
        "radii": list(RADII),
        "method": "shor",
        "classes": classes,
        "pairs": pairs,
        "counts": {
            "correct": int((arrays["status"] != 3).sum()),
            "misclassified": int((arrays["status"] == 3).sum()),
        },
        "per_radius": [_tally(arrays, radius) for radius in RADII],
        "failed": failed,
        "seconds": 512.3,
        "version": "0.1.0",
    }
    question = {"radii": list(RADII), "network": name, "method": "shor", "domain": [0, 1]}
    (folder / "job.json").write_text(json.dumps({"format": 1, "kind": "certify", "question": question}))
    (folder / "result.json").write_text(json.dumps(result))
    if classes == 2:
        del arrays["images"], arrays["examples"], arrays["example_index"]
    np.savez(folder / "arrays.npz", allow_pickle=False, **arrays)
    return folder


def change(folder: Path, name: str = "result.json", **values: Any) -> None:
    """Overwrite fields of one JSON file."""
    data = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**data, **values}))


def change_arrays(folder: Path, **values: NDArray[Any] | None) -> None:
    """Overwrite arrays, or drop those that are None."""
    with np.load(folder / "arrays.npz") as stored:
        arrays = {**stored, **values}
    np.savez(folder / "arrays.npz", allow_pickle=False, **{k: v for k, v in arrays.items() if v is not None})


def _arrays(rng: np.random.Generator, classes: int, count: int) -> dict[str, NDArray[Any]]:
    _, images, truth = digits()
    pick = rng.integers(0, len(images), count)
    labels = truth[pick].astype(np.int64) % classes
    predicted = np.where(rng.random(count) < 0.03, (labels + 1) % classes, labels)
    wrong = predicted != labels
    radius = np.where(wrong, 0.0, np.minimum(rng.gamma(6.0, 0.018, count), RADII[-1]))
    tried = np.array([*RADII, np.inf])
    attack = tried[np.searchsorted(tried[:-1], radius * (1 + rng.gamma(2.0, 0.6, count)), side="right")]
    attack = np.where(wrong | (radius >= RADII[-1]), np.inf, attack)
    status = np.select([wrong, radius >= RADII[-1], attack <= RADII[-1]], [3, 1, 2], 0).astype(np.uint8)
    owners = np.flatnonzero(status == 2)
    inputs = images[pick].reshape(count, -1).astype(np.float32)
    noise = np.sign(rng.standard_normal((owners.size, inputs.shape[1]))) * attack[owners, None]
    return {
        "labels": labels,
        "predicted": predicted,
        "certified_radius": radius,
        "attack_radius": attack,
        "status": status,
        "images": inputs[:2000],
        "examples": (inputs[owners] + noise).astype(np.float32),
        "example_index": owners,
    }


def _pairs(rng: np.random.Generator, classes: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for i in range(classes):
        for j in range(i + 1, classes):
            upper = float(8 + 12 * rng.random())
            lower = upper * float(0.75 + 0.2 * rng.random()) if rng.random() < 0.9 else None
            place = f"pieces/pair-{i}-{j}.npz"
            seconds = float(rng.gamma(4.0, 0.4))
            pair = {"i": i, "j": j, "upper": upper, "lower": lower, "method": "shor", "seconds": seconds}
            found.append({**pair, "certificate": place})
    return found


def _tally(arrays: dict[str, NDArray[Any]], radius: float) -> dict[str, Any]:
    correct = arrays["status"] != 3
    certified = int((correct & (arrays["certified_radius"] >= radius)).sum())
    attacked = int((correct & (arrays["attack_radius"] <= radius)).sum())
    undecided = int(correct.sum()) - certified - attacked
    return {"radius": radius, "certified": certified, "attacked": attacked, "undecided": undecided}


if __name__ == "__main__":
    kind = 2 if "--binary" in sys.argv else 10
    make_folder(Path(sys.argv[1]), classes=kind, complete="--incomplete" not in sys.argv)

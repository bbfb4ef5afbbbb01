"""Train the network that ships with the package: 64-32-10 on the digits of scikit-learn, in plain numpy.

    python -m scripts.train_digits            (needs scikit-learn; writes src/lipcert/data/digits_*.npz)

The images are 8 x 8 with grey levels 0..16 (E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI
Machine Learning Repository, CC BY 4.0), here divided by 16. Adam with weight decay, deterministic for a given numpy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lipcert.files import write_npz
from lipcert.problem.network import Network
from lipcert.rounding import Array

DATA = Path(__file__).resolve().parent.parent / "src" / "lipcert" / "data"
HIDDEN, EPOCHS, BATCH, RATE, DECAY = 32, 120, 64, 2e-3, 2e-3


def split() -> tuple[Array, Array, Array, Array]:
    """Training images and labels, test images and labels; every fifth image is for testing."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = digits.data / 16.0, digits.target
    test = np.arange(len(labels)) % 5 == 0
    return images[~test], labels[~test], images[test], labels[test]


def loss_gradient(weights: list[Array], x: Array, y: Array) -> list[Array]:
    """The gradient of the mean cross-entropy with respect to W1, b1, W2, b2."""
    W1, b1, W2, b2 = weights
    h = np.maximum(x @ W1.T + b1, 0.0)
    s = h @ W2.T + b2
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1.0
    p /= len(y)
    back = (p @ W2) * (h > 0)
    return [back.T @ x, back.sum(0), p.T @ h, p.sum(0)]


def train(x: Array, y: Array) -> list[Array]:
    """Adam [Kingma, Ba 2015] with decoupled weight decay."""
    rng = np.random.default_rng(0)
    n = x.shape[1]
    weights = [
        rng.normal(size=(HIDDEN, n)) * np.sqrt(2 / n),
        np.zeros(HIDDEN),
        rng.normal(size=(10, HIDDEN)) * np.sqrt(2 / HIDDEN),
        np.zeros(10),
    ]
    first, second = [np.zeros_like(w) for w in weights], [np.zeros_like(w) for w in weights]
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(y))
        for start in range(0, len(y), BATCH):
            step += 1
            batch = order[start : start + BATCH]
            for w, m, v, g in zip(weights, first, second, loss_gradient(weights, x[batch], y[batch]), strict=True):
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                w -= RATE * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
                w -= RATE * DECAY * w * (w.ndim == 2) * 10
    return [w.astype(np.float32).astype(np.float64) for w in weights]


def main() -> None:
    x, y, x_test, y_test = split()
    W1, b1, W2, b2 = train(x, y)
    net = Network.from_weights([W1, W2], [b1, b2])
    accuracy = np.mean(net.forward(x_test).argmax(1) == y_test)
    net.save(DATA / "digits_net.npz")
    shown = slice(0, 40)
    write_npz(
        DATA / "digits_images.npz",
        {"images": np.rint(x_test[shown] * 16).astype(np.uint8), "labels": y_test[shown].astype(np.uint8)},
    )
    print(f"test accuracy {accuracy:.4f} on {len(y_test)} images; sha256 {net.sha256}")


if __name__ == "__main__":
    main()

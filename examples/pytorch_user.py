"""You have a torch module: a proved bound for it, and for its training.

    python examples/pytorch_user.py     needs torch: pip install torch

A classifier of two interleaved half-moons is trained with and without weight decay. The bound shows what the accuracy
does not: how steep the trained function can be anywhere on the square where the data live.
"""

from __future__ import annotations

import numpy as np

import lipcert

try:
    import torch
except ImportError:
    raise SystemExit("this example needs torch, which is not installed: pip install torch") from None


def moons(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points near two half circles that grip into each other, and which one each belongs to."""
    angle, label = rng.uniform(0, np.pi, count), rng.integers(0, 2, count)
    x = np.where(label, 1 - np.cos(angle), np.cos(angle)) - 0.5
    y = np.where(label, 0.5 - np.sin(angle), np.sin(angle)) - 0.25
    return np.column_stack([x, y]) / 1.5 + 0.05 * rng.normal(size=(count, 2)), label


def train(decay: float) -> torch.nn.Sequential:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 24), torch.nn.ReLU(), torch.nn.Linear(24, 24), torch.nn.ReLU(), torch.nn.Linear(24, 2)
    )
    points, labels = moons(512, np.random.default_rng(0))
    x, y = torch.tensor(points, dtype=torch.float32), torch.tensor(labels)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=decay)
    for _ in range(150):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval()


def main() -> None:
    points, labels = moons(512, np.random.default_rng(1))
    for decay in (0.0, 0.01):
        model = train(decay)
        net = lipcert.from_torch(model)
        with torch.no_grad():
            scores = model(torch.tensor(points, dtype=torch.float32)).numpy()
        assert np.allclose(net.forward(points), scores, atol=1e-4)  # the network that was read is the one that runs
        accuracy = float(np.mean(scores.argmax(axis=1) == labels))
        result = lipcert.bound(net, lipcert.Box(np.zeros(2), 1.0), output=(0, 1), time_limit=3.0)
        print(
            f"weight decay {decay:g}: accuracy {accuracy:.1%}, "
            f"constant of score 0 - score 1 between {result.lower:.3f} and {result.upper:.3f}"
        )


if __name__ == "__main__":
    main()

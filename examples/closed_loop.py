"""A pendulum held upright by a small ReLU network: on which box of states does the closed loop contract?

The plant is the pendulum near its upright position in steps of 50 ms, x = (angle, speed), x+ = A x + B u. The
controller is a network with 12 neurons that imitates a saturated linear feedback: it is not linear, and its slopes are
nowhere stated. What is proved is about the network as it is.
"""

from __future__ import annotations

import numpy as np

import lipcert

A = np.array([[1.0, 0.05], [0.49, 0.995]])
B = np.array([[0.0], [0.05]])


def controller() -> lipcert.Network:
    """Twelve ReLUs fitted to u = clip(-24 angle - 7 speed, -8, 8) by least squares."""
    rng = np.random.default_rng(1)
    states = rng.uniform(-1.0, 1.0, (4000, 2)) * [0.6, 1.5]
    wanted = np.clip(states @ [-24.0, -7.0], -8.0, 8.0)
    along = np.array([24.0, 7.0]) / 25.0
    kinks = np.linspace(-0.7, 0.7, 6)
    W = np.concatenate([np.tile(along, (6, 1)), np.tile(-along, (6, 1))]) + 0.02 * rng.normal(size=(12, 2))
    b = np.concatenate([-kinks, kinks])
    hidden = np.maximum(states @ W.T + b, 0.0)
    last = np.linalg.lstsq(np.column_stack([hidden, np.ones(len(hidden))]), wanted, rcond=None)[0]
    return lipcert.Network.from_weights([W, last[None, :-1]], [b, last[-1:]])


net = controller()
box = lipcert.Box(np.zeros(2), 0.1)
P = lipcert.loop_weights(net, A, B, box)

plain = lipcert.contraction(net, A, B, box)
weighted = lipcert.contraction(net, A, B, box, weights=P)
print(f"on the box of radius 0.1, in the Euclidean norm: constant in [{plain.lower:.4f}, {plain.upper:.4f}]")
print(f"in the norm of the loop's own Lyapunov matrix:   constant in [{weighted.lower:.4f}, {weighted.upper:.4f}]")
print("the loop contracts there" if weighted.upper < 1 else "contraction is not proved there")
print("check without a solver:", lipcert.verify(weighted.certificate, lipcert.closed_loop(net, A, B)).proved)

# Small gain: with an unmodelled actuator whose gain, from the command to the state, is at most 1/30, a controller with
# a constant below 30 keeps the product of both below one. How far from upright is it below that?
found = lipcert.largest_box(net, np.zeros(2), below=30.0, output=0, norm="2", most=2.0)
print(f"small gain: the controller's constant is below 30 on the box of radius {found.radius:.3f}")
loop = lipcert.closed_loop(net, A, B)
found = lipcert.largest_box(loop, np.zeros(2), 1.0, output="all", norm="2", input_weights=P, output_weights=P, most=2.0)
end = "a witness says no" if found.refuted else "not proved"
print(f"contraction: proved up to radius {found.radius:.3f}; at {found.beyond:.3f} {end}")

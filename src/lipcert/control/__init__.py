"""Controllers: constants of closed loops, and how far from a point they stay small."""

from lipcert.control.largest import LargestBox, largest_box
from lipcert.control.loop import closed_loop, contraction, loop_weights

__all__ = ["LargestBox", "closed_loop", "contraction", "largest_box", "loop_weights"]

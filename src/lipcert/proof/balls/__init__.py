"""A second checker of certificates, in ball arithmetic (python-flint)."""

from lipcert.proof.balls.check import check_with_balls, margins_with_balls, what_is_checked
from lipcert.proof.balls.entries import cells_with_balls, entries_with_balls

__all__ = ["cells_with_balls", "check_with_balls", "entries_with_balls", "margins_with_balls", "what_is_checked"]

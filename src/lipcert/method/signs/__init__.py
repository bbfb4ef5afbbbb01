"""Branch and bound over the signs of open ReLUs, with linear bounds and linear programs."""

from lipcert.method.signs.search import SignSearch, search_refusal, search_signs
from lipcert.proof.nogoods import refusal

__all__ = ["SignSearch", "refusal", "search_refusal", "search_signs"]

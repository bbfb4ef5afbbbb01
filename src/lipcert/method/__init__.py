"""The methods that improve a bracket, and `auto`, which only chooses among them."""

from lipcert.method.table import names

METHODS: tuple[str, ...] = names()  # as users write them

__all__ = ["METHODS"]

"""Constants of the product with other values, for one test."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from functools import cache

import pytest

import lipcert


@cache
def _import_everything() -> None:
    """Import every module now: one that is imported later, inside a test, would keep the test's value for good."""
    for info in pkgutil.walk_packages(lipcert.__path__, "lipcert."):
        if info.name != "lipcert.__main__":
            try:
                importlib.import_module(info.name)
            except ImportError:  # an extra that is not installed
                continue


def set_constant(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    """Give the constant this value in the module that defines it and in all modules that import it by name."""
    _import_everything()
    found = [m for key, m in sys.modules.items() if key.startswith("lipcert.") and name in vars(m)]
    assert found, f"no module of lipcert has a constant {name}"
    for module in found:
        monkeypatch.setattr(module, name, value)

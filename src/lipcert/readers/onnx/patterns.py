"""Activations that exporters write as several operators, which are refused one by one: each is replaced by one node.

softshrink    Where(|x| > l, x - l Sign(x), 0)
GELU          x/2 (1 + Tanh(sqrt(2/pi) (x + 0.044715 x^3)))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lipcert.errors import InputError
from lipcert.readers.onnx.nodes import OnnxNode
from lipcert.readers.onnx.operation import tensor_array

_GELU = (math.sqrt(2.0 / math.pi), 0.044715)
_CLOSE = 1e-6  # relative: constants in single precision
_DEPTH = 8  # operators that a cube is written with


def replace_patterns(nodes: Sequence[OnnxNode], initializers: Mapping[str, Any]) -> list[OnnxNode]:
    """The nodes, where the last node of each such activation is replaced; its other nodes are no longer needed."""
    if not {"Sign", "Tanh"} & {node.kind for node in nodes}:
        return list(nodes)
    finder = _Finder(nodes, initializers)
    return [finder.replaced(node) for node in nodes]


class _Finder:
    def __init__(self, nodes: Sequence[OnnxNode], initializers: Mapping[str, Any]) -> None:
        self._makers = {name: node for node in nodes if not node.domain for name in node.outputs[:1]}
        self._initializers = initializers

    def replaced(self, node: OnnxNode) -> OnnxNode:
        if not node.outputs:  # a damaged file: refused where the node is read, if it is
            return node
        if node.kind == "Where" and len(node.inputs) == 3:
            return self._softshrink(node) or node
        if node.kind == "Mul" and len(node.inputs) == 2:
            return self._gelu(node) or node
        return node

    def _softshrink(self, node: OnnxNode) -> OnnxNode | None:
        compared, inside = self._made(node.inputs[0], "Greater"), self._made(node.inputs[1], "Sub")
        size = self._made(compared.inputs[0], "Abs") if compared else None
        sign = self._factors(inside.inputs[1]) if inside else None
        if compared is None or inside is None or size is None or sign is None:
            return None
        x, threshold = size.inputs[0], self._number(compared.inputs[1])
        signed = self._made(sign[0], "Sign")
        if signed is None or signed.inputs[0] != x or inside.inputs[0] != x or threshold is None:
            return None
        if not 0 < threshold == sign[1] or not self._is_zero(node.inputs[2]):
            return None
        return _one(node, "Shrink", x, lambd=threshold, bias=threshold)

    def _gelu(self, node: OnnxNode) -> OnnxNode | None:
        """x/2 (1 + Tanh(..)), with the half at x, at the sum, or around both."""
        whole = self._factors(node.outputs[0])
        product = self._made(whole[0], "Mul") if whole and whole[1] != 1.0 else node
        if whole is None or product is None:
            return None
        for first, second in (product.inputs, product.inputs[::-1]):
            left, right = self._factors(first), self._factors(second)
            inner = self._one_plus_tanh(right[0]) if right else None
            if left is None or right is None or inner is None:
                continue
            factor = left[1] * right[1] * (whole[1] if product is not node else 1.0)
            cubic = self._polynomial(inner, left[0], _DEPTH)
            if factor == 0.5 and cubic is not None and _is_gelu(cubic):
                return _one(node, "Gelu", left[0], approximate="tanh")
        return None

    def _one_plus_tanh(self, name: str) -> str | None:
        """t where the name is 1 + Tanh(t)."""
        node = self._made(name, "Add")
        for one, other in (node.inputs, node.inputs[::-1]) if node else ():
            tanh = self._made(other, "Tanh")
            if tanh is not None and self._number(one) == 1.0:
                return tanh.inputs[0]
        return None

    def _polynomial(self, name: str, x: str, depth: int) -> Any:
        """The coefficients of the name as a polynomial in x, the constant first; None where it is none."""
        number = self._number(name)
        if name == x or number is not None:
            return np.array([0.0, 1.0]) if name == x else np.array([number])
        node = self._makers.get(name)
        if node is None or len(node.inputs) != 2 or not depth or node.kind not in ("Add", "Mul", "Pow"):
            return None
        a, b = (self._polynomial(part, x, depth - 1) for part in node.inputs)
        if a is None or b is None or len(a) + len(b) > 8:
            return None
        if node.kind == "Pow":
            return np.polynomial.polynomial.polypow(a, int(b[0])) if len(b) == 1 and b[0] in (2, 3) else None
        return (np.polynomial.polynomial.polyadd if node.kind == "Add" else np.polynomial.polynomial.polymul)(a, b)

    def _factors(self, name: str) -> tuple[str, float] | None:
        """A name and a number whose product this is: itself and 1, or the factors of a Mul by a constant."""
        node = self._made(name, "Mul")
        if node is not None:
            for one, other in (node.inputs, node.inputs[::-1]):
                number = self._number(one)
                if number is not None:
                    return other, number
        return name, 1.0

    def _is_zero(self, name: str) -> bool:
        return self._number(name) == 0.0 or (self._factors(name) or ("", 1.0))[1] == 0.0

    def _made(self, name: str, kind: str) -> OnnxNode | None:
        node = self._makers.get(name)
        fits = node is not None and node.kind == kind and len(node.inputs) == (1 if kind in _UNARY else 2)
        return node if fits else None

    def _number(self, name: str) -> float | None:
        """A constant that is one number."""
        tensor = self._initializers.get(name)
        node = self._makers.get(name)
        if tensor is None and node is not None and node.kind == "Constant" and len(node.attributes) == 1:
            tensor = dict(node.attributes).get("value")
            tensor = None if tensor is None else tensor.t
        if tensor is None or math.prod(tensor.dims) != 1 or len(tensor.dims) > 1:
            return None
        try:
            return float(tensor_array(tensor).reshape(-1)[0])
        except (InputError, TypeError):
            return None


_UNARY = ("Abs", "Sign", "Tanh")


def _is_gelu(cubic: Any) -> bool:
    if len(cubic) != 4 or cubic[0] or cubic[2]:
        return False
    return bool(np.allclose([cubic[1], cubic[3]], [_GELU[0], _GELU[0] * _GELU[1]], rtol=_CLOSE, atol=0.0))


def _one(node: OnnxNode, kind: str, x: str, **attributes: Any) -> OnnxNode:
    from onnx import helper

    made = tuple((name, helper.make_attribute(name, value)) for name, value in attributes.items())
    return replace(node, kind=kind, inputs=(x,), attributes=made, opset=max(node.opset, 20))

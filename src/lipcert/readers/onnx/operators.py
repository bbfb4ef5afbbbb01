"""The table of ONNX operators, read and refused, and how one of them is computed on tensors and constants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipcert.files.boundary import quoted
from lipcert.readers.graph import Entry, refused
from lipcert.readers.graph.recognised import Condition
from lipcert.readers.graph.tensors import Graph, Tensor
from lipcert.readers.onnx.constants import ALWAYS, FOLDED, fold
from lipcert.readers.onnx.elementwise import ELEMENTWISE
from lipcert.readers.onnx.linear import LINEAR
from lipcert.readers.onnx.ml_domain import ML_OPERATORS
from lipcert.readers.onnx.norms import NORMS
from lipcert.readers.onnx.operation import Operation, Results, Value, cast_type
from lipcert.readers.onnx.shapes import REARRANGED, SHAPES
from lipcert.readers.onnx.windows import WINDOWS

# --- why operators are refused on the tensors of the network, and what to do ------------------------------------------

_NORM = "is not read; write it out, or export the network with LayerNormalization"
_LOOP = "is a part of the graph that runs as the data say; export the network with constant shapes and no loops"
_JUMP = "its value jumps, so no slope bounds it"
_LABEL = "gives positions, which jump; let the scores before it be the output"
_QUANTIZED = "rounds to integers, so its value jumps; export the network before it is quantised"
_TWO = "multiplies tensors that depend on the input with each other"
_STATE = "multiplies its state by gates that depend on the input, step by step"
_MOVED = "moves entries to places; only reading from constant places is supported"
_RANDOM = "is random; export the network for inference"
_WORDS = "is about text or lists, not about tensors of numbers"
_BITS = "is about integers and truth values, which no tensor of the network holds"
_SIGNAL = "is not read; nothing speaks against it but that nobody needed it so far"
_TREES = "its value jumps at every threshold of the trees; networks and linear models are read"
_LOSS = "is a loss, not a network; export the network alone"

_REASONS: dict[str, tuple[str, ...]] = {
    _NORM: ("MeanVarianceNormalization",),
    "divides by powers of sums over its input, which is not piecewise linear": ("LRN",),
    "takes roots of sums of powers, which is not piecewise linear": ("GlobalLpPool", "LpPool"),
    _LOOP: ("If", "Loop", "Scan", "SequenceMap"),
    _JUMP: ("Ceil", "Equal", "Floor", "IsInf", "IsNaN", "Mod", "NonZero", "OneHot", "Round", "Sign", "Unique"),
    _LABEL: ("ArgMax", "ArgMin", "Hardmax", "NonMaxSuppression"),
    _QUANTIZED: (
        "ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul",
        "QuantizeLinear",
    ),
    _TWO: (
        "AffineGrid", "Attention", "CumProd", "DeformConv", "Det", "GridSample", "LinearAttention",
        "RotaryEmbedding", "SwiGLU",
    ),
    _STATE: ("CausalConvWithState", "GRU", "LSTM", "RNN"),
    _MOVED: ("MaxUnpool", "Scatter", "ScatterElements", "ScatterND", "TensorScatter"),
    _RANDOM: (
        "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
    ),
    _WORDS: (
        "ConcatFromSequence", "ImageDecoder", "Optional", "OptionalGetElement", "OptionalHasElement", "RegexFullMatch",
        "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
        "SplitToSequence", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer",
    ),
    _BITS: ("BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Xor"),
    _SIGNAL: (
        "BlackmanWindow", "CenterCropPad", "Col2Im", "Compress", "DFT", "EyeLike", "HammingWindow", "HannWindow",
        "MaxRoiPool", "MelWeightMatrix", "ReverseSequence", "RoiAlign", "STFT",
    ),
    _LOSS: ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
}  # fmt: skip

_ML_REASONS: dict[str, tuple[str, ...]] = {
    _TREES: ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"),
    "its kernels are not read; networks and linear models are": ("SVMClassifier", "SVMRegressor"),
    "its value jumps, so no slope bounds it": ("Binarizer", "Imputer", "LabelEncoder", "OneHotEncoder"),
    _WORDS: ("CastMap", "CategoryMapper", "DictVectorizer"),
}

REFUSED: dict[str, Entry] = {name: refused(why) for why, names in _REASONS.items() for name in names}
REFUSED_ML: dict[str, Entry] = {name: refused(why) for why, names in _ML_REASONS.items() for name in names}


# --- operators that pass tensors on -----------------------------------------------------------------------------------


def _cast(op: Operation, graph: Graph) -> Value:  # noqa: ARG001
    """Cast and CastLike: precision is not tracked; a comparison counts as 1 or 0."""
    if op.kind == "Cast":
        kind = np.dtype(cast_type(op)).kind
    else:
        op.check(("saturate", "round_mode"), 2, 2)
        like = op.value(1, "target")
        kind = like.dtype.kind if isinstance(like, np.ndarray) else "b" if isinstance(like, Condition) else "f"
    value = op.value(0)
    if isinstance(value, Tensor) and kind != "f":
        raise op.refused("casts the network's tensor to integers or truth values; floating point types only")
    return value


def _dropout(op: Operation, graph: Graph) -> list[Value]:  # noqa: ARG001
    op.check(("ratio", "seed", "is_test"), 1, 3)
    training = op.optional(2, "training_mode")
    if (training is not None and np.any(training)) or (op.opset < 7 and not op.integer("is_test", 0)):
        raise op.refused("is in training mode; export the network for inference")
    x = op.value(0)
    return [x, np.ones(x.shape, dtype=bool)]


OPERATORS: dict[str, Entry] = {
    **ELEMENTWISE,
    **LINEAR,
    **NORMS,
    **SHAPES,
    **WINDOWS,
    "Cast": Entry(_cast, words="to floating point types"),
    "CastLike": Entry(_cast, words="to floating point types"),
    "Dropout": Entry(_dropout, words="for inference, where it does nothing"),
    **REFUSED,
}
DOMAINS: dict[str, dict[str, Entry]] = {"": OPERATORS, "ai.onnx.ml": ML_OPERATORS | REFUSED_ML}


def compute(op: Operation, graph: Graph) -> list[Value]:
    """The outputs of one operation, None where one is not read. An error names the node."""
    with op.naming_node():
        if op.domain not in DOMAINS:
            raise op.refused(
                f"of the domain {quoted(op.domain)}; only standard ONNX operators are supported, "
                "so export the network as it was before a runtime rewrote it"
            )
        if op.kind in ALWAYS and not op.domain:
            return fold(op)
        return _results(op, graph) if op.is_live else _on_constants(op)


def _entry(op: Operation) -> Entry:
    entry = DOMAINS[op.domain].get(op.kind)
    if entry is None and op.kind in FOLDED:
        raise op.refused("applied to the network's tensor; it is only supported on constants")
    if entry is None:
        raise op.refused("is not supported; docs/operators.md lists what is")
    if entry.apply is None:
        raise op.refused(entry.words)
    return entry


def _results(op: Operation, graph: Graph) -> list[Value]:
    results: Results = _entry(op).apply(op, graph)  # type: ignore[misc]
    return list(results) if isinstance(results, (list, tuple)) else [results]  # type: ignore[list-item]


def _on_constants(op: Operation) -> list[Value]:
    """The outputs of an operation whose inputs are constants: by numpy, or as those of tensors that are constant."""
    if not op.domain and (op.kind in FOLDED or op.kind in REARRANGED):
        return fold(op)
    first = op.value(0)
    op.work.spend(sum(value.size for value in op.inputs if isinstance(value, np.ndarray)))
    alone = replace(op, inputs=[op.tensor(), *op.inputs[1:]]) if isinstance(first, np.ndarray) else op
    graph = Graph((1,))
    found = [graph.opened(value) if isinstance(value, Tensor) else None for value in _results(alone, graph)]
    return [None if value is None else value.bias.reshape(value.shape) for value in found]

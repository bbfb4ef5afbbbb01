"""ONNX operators that are refused on the network's tensors: why, and what to do. One line each."""

from __future__ import annotations

from lipcert.readers.graph import Entry, refused

_NORM = (
    "divides by the standard deviation of its input: its slope has no bound near constant inputs that these methods "
    "can use"
)
_LOOP = "is a part of the graph that runs as the data say; export the network with constant shapes and no loops"
_JUMP = "its value jumps, so no slope bounds it"
_LABEL = "gives positions, which jump; let the scores before it be the output"
_POWER = "its slope has no bound on all inputs"
_QUANTIZED = "rounds to integers, so its value jumps; export the network before it is quantised"
_STEEP = "is not among the activations that these methods can bound"
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
    _NORM: (
        "GroupNormalization", "InstanceNormalization", "LayerNormalization", "MeanVarianceNormalization",
        "RMSNormalization",
    ),
    "divides by powers of sums over its input, which is not piecewise linear": ("LRN",),
    "divides by the norm of its input: its slope has no bound near zero": ("LpNormalization",),
    "takes roots of sums of powers, which is not piecewise linear": (
        "GlobalLpPool", "LpPool", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
    ),
    _LOOP: ("If", "Loop", "Scan", "SequenceMap"),
    _JUMP: ("Ceil", "Equal", "Floor", "IsInf", "IsNaN", "Mod", "NonZero", "OneHot", "Round", "Sign", "Unique"),
    _LABEL: ("ArgMax", "ArgMin", "Hardmax", "NonMaxSuppression"),
    _POWER: ("Acos", "Acosh", "Asin", "Atanh", "Cosh", "Exp", "Reciprocal", "Sinh", "Sqrt", "Tan"),
    _STEEP: ("Asinh", "Atan", "Cos", "Sin"),
    _QUANTIZED: (
        "ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul",
        "QuantizeLinear",
    ),
    _TWO: (
        "AffineGrid", "Attention", "CumProd", "DeformConv", "Det", "GridSample", "LinearAttention",
        "ReduceProd", "RotaryEmbedding", "SwiGLU",
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

_LEARNT: dict[str, tuple[str, ...]] = {
    _TREES: ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"),
    "its kernels are not read; networks and linear models are": ("SVMClassifier", "SVMRegressor"),
    "its value jumps, so no slope bounds it": ("Binarizer", "Imputer", "LabelEncoder", "OneHotEncoder"),
    _WORDS: ("CastMap", "CategoryMapper", "DictVectorizer"),
}

REFUSED: dict[str, Entry] = {name: refused(why) for why, names in _REASONS.items() for name in names}
REFUSED_LEARNT: dict[str, Entry] = {name: refused(why) for why, names in _LEARNT.items() for name in names}

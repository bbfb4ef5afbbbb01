"""Models of scikit-learn, through skl2onnx with its default options, and of Keras, through its own ONNX export."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reading._judge import Array, Row, Truth, judge, relative

POINTS = 20
FEATURES = 4


def sklearn_models(only: str = "") -> Iterator[tuple[str, Any]]:
    """Fitted models by name, the same each time."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, FEATURES)).astype(np.float32)
    three, two, targets = rng.integers(0, 3, 80), rng.integers(0, 2, 80), x @ rng.standard_normal((FEATURES, 2))
    small = {"hidden_layer_sizes": (6, 5), "max_iter": 40, "random_state": 0}
    models = {
        "mlp_classifier_binary": (MLPClassifier(**small), two),
        "mlp_classifier": (MLPClassifier(**small), three),
        "mlp_classifier_logistic": (MLPClassifier(activation="logistic", **small), three),
        "mlp_regressor": (MLPRegressor(activation="tanh", **small), targets),
        "mlp_regressor_one": (MLPRegressor(**small), targets[:, 0]),
        "logistic_regression": (LogisticRegression(), three),
        "logistic_regression_binary": (LogisticRegression(), two),
        "ridge": (Ridge(), targets),
        "linear_regression": (LinearRegression(), targets[:, 0]),
        "pipeline_scaler_mlp": (make_pipeline(StandardScaler(), MLPClassifier(**small)), three),
        "pipeline_min_max_mlp": (make_pipeline(MinMaxScaler(), MLPRegressor(**small)), targets),
    }
    for name, (model, y) in models.items():
        if only in name:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that so few steps do not converge
                yield name, model.fit(x, y)


def read_sklearn(folder: Path, only: str) -> Iterator[Row]:
    """Each model converted and read; a probability may be read, or left out with a note that says so."""
    from skl2onnx import to_onnx

    import lipcert

    folder = folder / "sklearn"
    folder.mkdir(parents=True, exist_ok=True)
    inputs = np.random.default_rng(1).standard_normal((POINTS, FEATURES)).astype(np.float32)
    for name, model in sklearn_models(only):
        path = folder / f"{name}.onnx"
        path.write_bytes(to_onnx(model, inputs[:1]).SerializeToString())
        classifies = hasattr(model, "predict_proba")
        values = model.predict_proba(inputs) if classifies else model.predict(inputs)
        truth = Truth(
            inputs.astype(np.float64), values.reshape(POINTS, -1), final="probabilities" if classifies else ""
        )
        _agree(path, inputs, -1, values.reshape(POINTS, -1))
        yield judge(Row("sklearn", name, "sklearn"), partial(lipcert.load, path), truth)


def keras_models(only: str = "") -> Iterator[tuple[str, Any]]:
    """Models by name with random weights, the same each time."""
    from benchmarks.reading import keras_models as made

    for name, build in made.MODELS.items():
        if only in name:
            made.seed()
            yield name, build()


def read_keras(folder: Path, only: str) -> Iterator[Row]:
    """Each model exported by Keras with torch beneath it, and read."""
    os.environ["KERAS_BACKEND"] = "torch"
    import lipcert
    from benchmarks.reading._exports import silence

    folder = folder / "keras"
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in keras_models(only):
        path = folder / f"{name}.onnx"
        shape = tuple(model.input_shape[1:])
        inputs = np.random.default_rng(1).standard_normal((POINTS, *shape)).astype(np.float32)
        with silence():
            values = np.asarray(model.predict(inputs, verbose=0), dtype=np.float64).reshape(POINTS, -1)
            if not path.exists():
                model.export(str(path), format="onnx")
        _agree(path, inputs, 0, values)
        final = "softmax" if name.endswith("softmax") else ""
        truth = Truth(inputs.reshape(POINTS, -1).astype(np.float64), values, final=final)
        yield judge(Row("keras", name, "keras"), partial(lipcert.load, path), truth)


def _agree(path: Path, inputs: Array, output: int, values: Array) -> None:
    """Refuse to go on where the file does not compute what the model does: then no reader could be right."""
    unlike = relative(_run(path, inputs, output), values)
    if unlike > 1e-4:
        raise RuntimeError(f"{path}: onnxruntime differs from the model by {unlike:.1e}")


def _run(path: Path, inputs: Array, output: int) -> Array:
    """One output of a file by onnxruntime, one input at a time; a ZipMap gives its classes as a dictionary."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options)
    name = session.get_inputs()[0].name
    rows = []
    for x in inputs:
        found = session.run(None, {name: x[None]})[output]
        rows.append(list(found[0].values()) if isinstance(found, list) else np.asarray(found).reshape(-1))
    return np.array(rows, dtype=np.float64)

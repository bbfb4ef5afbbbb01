"""Four kinds of Keras models as people build them, and some variants; the backend is torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
from keras import layers


def seed() -> None:
    keras.utils.set_random_seed(0)


def _lively(model: Any) -> Any:
    """The model with running statistics and biases that are not those of the start."""
    rng = np.random.default_rng(0)
    for layer in model.layers:
        weights = layer.get_weights()
        if isinstance(layer, layers.BatchNormalization):
            weights = [rng.uniform(0.5, 1.5, w.shape) for w in weights]
        else:
            weights = [rng.normal(0.0, 0.3, w.shape) if w.ndim == 1 else w for w in weights]
        layer.set_weights(weights)
    return model


def mlp() -> Any:
    return _lively(
        keras.Sequential(
            [
                layers.Input((4,)),
                layers.Dense(8, activation="relu"),
                layers.Dense(6, activation="tanh"),
                layers.Dense(3),
            ]
        )
    )


def mlp_softmax() -> Any:
    return _lively(
        keras.Sequential(
            [
                layers.Input((4,)),
                layers.Dense(8, activation="relu"),
                layers.Dropout(0.3),
                layers.Dense(3, activation="softmax"),
            ]
        )
    )


def cnn_same_strides() -> Any:
    return _lively(
        keras.Sequential(
            [
                layers.Input((8, 8, 1)),
                layers.Conv2D(4, 3, padding="same", strides=2, activation="relu"),
                layers.Conv2D(4, 3, padding="same", activation="relu"),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(3),
            ]
        )
    )


def cnn_pools() -> Any:
    return _lively(
        keras.Sequential(
            [
                layers.Input((8, 8, 2)),
                layers.Conv2D(3, 3, activation="elu"),
                layers.MaxPooling2D(3, strides=2, padding="same"),
                layers.AveragePooling2D(2),
                layers.GlobalAveragePooling2D(),
                layers.Dense(3),
            ]
        )
    )


def residual() -> Any:
    x = inputs = layers.Input((6, 6, 2))
    x = layers.Conv2D(4, 3, padding="same")(x)
    for _ in range(2):
        y = layers.Conv2D(4, 3, padding="same", use_bias=False)(x)
        y = layers.ReLU()(layers.BatchNormalization()(y))
        y = layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same")(y))
        x = layers.Activation("relu")(layers.Add()([x, y]))
    return _lively(keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling2D()(x))))


def branches() -> Any:
    x = inputs = layers.Input((4, 4, 2))
    a = layers.LeakyReLU(negative_slope=0.2)(layers.Conv2D(3, 3, padding="same")(x))
    b = layers.ReLU(max_value=6)(layers.Conv2D(2, 1)(x))
    y = layers.UpSampling2D(2)(layers.Concatenate()([a, b]))
    y = layers.ZeroPadding2D(1)(y)
    return _lively(keras.Model(inputs, layers.Dense(3)(layers.Flatten()(layers.Conv2D(2, 3, strides=2)(y)))))


def decoder() -> Any:
    return _lively(
        keras.Sequential(
            [
                layers.Input((4,)),
                layers.Dense(18, activation="gelu"),
                layers.Reshape((3, 3, 2)),
                layers.Conv2DTranspose(2, 3, strides=2, padding="same", activation="relu"),
                layers.UpSampling2D(2, interpolation="bilinear"),
                layers.Conv2D(1, 3, padding="same", activation="sigmoid"),
            ]
        )
    )


MODELS: dict[str, Callable[[], Any]] = {
    "keras_mlp": mlp,
    "keras_mlp_softmax": mlp_softmax,
    "keras_cnn_same_strides": cnn_same_strides,
    "keras_cnn_pools": cnn_pools,
    "keras_residual": residual,
    "keras_branches": branches,
    "keras_decoder": decoder,
}

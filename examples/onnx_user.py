"""You have an ONNX file: how far can one score move against another around an input, and who can check that?

    python examples/onnx_user.py        needs the package onnx: pip install 'lipcert[onnx]'

A small image classifier (convolution, ReLU, average pooling, two dense layers) is written to model.onnx with the onnx
package, as an exporter would write it. Then: read, bound, save the proof, check the proof without a solver.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import lipcert

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    raise SystemExit("this example needs the package onnx, which is not installed: pip install onnx") from None


def write_model(path: Path) -> None:
    """1 x 8 x 8 pictures -> 4 channels of 6 x 6 -> pooled to 3 x 3 -> 16 -> 3 scores; random weights in float32."""
    rng = np.random.default_rng(0)
    shapes = {"K": (4, 1, 3, 3), "k": (4,), "W1": (16, 36), "b1": (16,), "W2": (3, 16), "b2": (3,)}
    scale = {"K": 0.4, "W1": 0.25, "W2": 0.35}
    arrays = {name: (scale.get(name, 0.1) * rng.normal(size=shape)).astype("f4") for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["image", "K", "k"], ["conv"]),
        helper.make_node("Relu", ["conv"], ["relu0"]),
        helper.make_node("AveragePool", ["relu0"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Gemm", ["flat", "W1", "b1"], ["hidden"], transB=1),
        helper.make_node("Relu", ["hidden"], ["relu1"]),
        helper.make_node("Gemm", ["relu1", "W2", "b2"], ["scores"], transB=1),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 3])
    stored = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "small", [image], [scores], stored), opset_imports=[helper.make_opsetid("", 13)]
    )
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, proof = Path(folder) / "model.onnx", Path(folder) / "proof.npz"
        write_model(file)

        net = lipcert.load(file)
        print(f"read: {net}")
        image = np.random.default_rng(1).uniform(size=net.inputs)  # the picture, flattened
        scores = net.forward(image)
        rival, first = (int(k) for k in np.argsort(scores)[-2:])

        radius = 0.01
        box = lipcert.Box(image, radius, clip=(0.0, 1.0))  # pixels stay pixels
        result = lipcert.bound(net, box, output=(first, rival), time_limit=3.0)
        lead = float(scores[first] - scores[rival])
        print(f"score {first} leads score {rival} by {lead:.4f}")
        print(f"Lipschitz constant of the lead: between {result.lower:.6f} and {result.upper:.6f} ({result.method})")
        print(f"pixels may move by {radius}: the lead falls by at most {radius * result.upper:.4f}")

        result.certificate.save(proof)
        checked = lipcert.verify(proof, lipcert.load(file))
        print(f"proof file checked again without a solver: proved {checked.proved}, bound {checked.upper:.6f}")


if __name__ == "__main__":
    main()

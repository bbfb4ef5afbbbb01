"""Readers: one file per format, all into the same `Network`.

The format modules are imported when a file of that kind is read, so that importing lipcert stays fast and needs
neither onnx nor torch. Nothing here unpickles, and no path that a file names is followed but that of a plain file
beside an ONNX model, which holds its weights.
"""

from __future__ import annotations

import os
from pathlib import Path

from lipcert.errors import FileFormatError, InputError, shown
from lipcert.files import check_readable
from lipcert.problem.network import Network

__all__ = ["EXTENSIONS", "load"]

EXTENSIONS = (".npz", ".mat", ".nnet", ".onnx")
PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".ckpt")


def load(
    path: str | os.PathLike[str], *, normalize: bool = False, onnx_output: str | None = None, onnx_batch: bool = False
) -> Network:
    """Read a network from a .npz, .mat, .nnet or .onnx file; the extension decides, in either case.

    normalize: only for .nnet files, which store a normalisation of inputs and outputs beside the weights. The default
        leaves it aside: the network expects inputs that are already normalised. True folds it into the first and last
        layers.
    onnx_output: only for .onnx files, the name of the output to read. The default is the only one that is a tensor of
        floating point numbers; for scikit-learn's dictionaries of scores, the tensor that they are made of.
    onnx_batch: only for .onnx files, whether a fixed batch of N > 1 inputs is read as one network, N copies side by
        side. The default refuses such a file.

    An .onnx file may keep its weights in another file in the same folder, as exporters write them.
    `Network.notes` name everything that was left out, such as a softmax at the end.
    Raises FileFormatError, or InputError for an option that does not fit the format; the message is one line.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"load({shown(path)}): give the path of a network file, {', '.join(EXTENSIONS)}")
    extension = Path(path).suffix.lower()
    if extension in PICKLES:
        raise FileFormatError(
            f"{path}: pickled files can run code and are not read; "
            "use lipcert.from_torch(module) in Python, or export the network to ONNX"
        )
    if extension not in EXTENSIONS:
        found = f"unknown extension {extension!r}" if extension else "a name without extension"
        raise FileFormatError(f"{path or repr('')}: {found}; networks are read from {', '.join(EXTENSIONS)} files")
    if normalize and extension != ".nnet":
        raise _only("normalize=True", "--normalize", path, ".nnet")
    if onnx_output is not None and extension != ".onnx":
        raise _only("onnx_output", "--onnx-output", path, ".onnx")
    if onnx_batch and extension != ".onnx":
        raise _only("onnx_batch=True", "--onnx-batch", path, ".onnx")
    file = check_readable(path)
    match extension:
        case ".npz":
            from lipcert.readers.npz import read as read_npz

            return read_npz(file)
        case ".mat":
            from lipcert.readers.mat import read as read_mat

            return read_mat(file)
        case ".nnet":
            from lipcert.readers.nnet import read as read_nnet

            return read_nnet(file, normalize=normalize)
        case _:
            from lipcert.readers.onnx import read as read_onnx

            return read_onnx(file, output=onnx_output, batch=onnx_batch)


def _only(keyword: str, option: str, path: str | os.PathLike[str], ending: str) -> InputError:
    rest = f"applies to {ending} files only; leave it out"
    return InputError(f"{path}: {keyword} {rest}", f"{path}: {option} {rest}")

"""Import time, first bounds end to end, reading and bounding real networks: asked and reached."""

from __future__ import annotations

import json
import sys
from statistics import median

from benchmarks._measure import data_folder, lipcert, run


def main() -> None:
    data = data_folder()
    bare = median(run([sys.executable, "-c", "pass"]).seconds for _ in range(9))
    imported = median(run([sys.executable, "-c", "import lipcert"]).seconds for _ in range(9))
    print(f"import lipcert                                    {imported - bare:6.2f} s   asked < 0.4 s")
    dense = str(data / "sdp_nn" / "sdp_nn_rsl18a.npz")
    image = ["--center", "0.5", "--radius", "0.1", "--clip", "0", "1", "--versus", "7", "3", "--json"]
    for name, path, asked, extra in [
        ("784-500-10, interval, no lower", dense, "< 2 s", ["--method", "interval", "--no-lower"]),
        (
            "convolutional, interval, no lower",
            str(data / "nets" / "mnist_conv.onnx"),
            "< 5 s",
            ["--method", "interval", "--no-lower"],
        ),
        ("784-500-10, auto", dense, "", []),
    ]:
        answer = lipcert("bound", path, *image, *extra)
        result = json.loads(answer.output)
        figures = f"{answer.seconds:6.2f} s  {answer.gigabytes:5.2f} GB  [{result['lower']}, {result['upper']:.6g}]"
        print(f"{name:48s} {figures}   asked {asked}")
    for file in sorted([*(data / "nets").iterdir(), *(data / "sdp_nn").iterdir()]):
        answer = lipcert("info", str(file), "--json")
        shape = "-".join(map(str, json.loads(answer.output)["shape"]))
        print(f"info {file.name:42s} {answer.seconds:6.2f} s   {shape}")


if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# Build the sdist and the wheel, check them, install the wheel into a clean environment and use it from an empty folder.
#   scripts/check_release.sh             with python3, or PYTHON=python3.13
# Nothing is written into the project: everything is in a temporary folder, which DIST=folder keeps the two files of.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH

"$python" -m venv "$work/tools"
"$work/tools/bin/pip" --quiet --disable-pip-version-check install build twine
"$work/tools/bin/python" -m build --outdir "$work/dist" "$root" > "$work/build.log" 2>&1 || { tail -20 "$work/build.log"; exit 1; }
"$work/tools/bin/python" -m twine check --strict "$work"/dist/*

"$python" -m venv "$work/clean"
"$work/clean/bin/pip" --quiet --disable-pip-version-check install "$work"/dist/*.whl
mkdir "$work/empty" && cd "$work/empty"
"$work/clean/bin/lipcert" --version
"$work/clean/bin/lipcert" demo
"$work/clean/bin/python" - <<'PYTHON'
from importlib.metadata import metadata
from importlib.resources import files
import re

import lipcert

net = lipcert.load(files("lipcert") / "data" / "digits_net.npz")
result = lipcert.bound(net, lipcert.Box([0.5] * 64, 0.02), output=(7, 3), time_limit=20)
result.certificate.save("proof.npz")
net.save("net.npz")
assert result.lower <= result.upper < float("inf"), result
shown = metadata("lipcert")["Description"] or metadata("lipcert").get_payload()
links = re.findall(r"\]\((?!https?://|#)([^)\s]+)\)", shown)
assert not links, f"links that lead nowhere from an index: {links}"
PYTHON
"$work/clean/bin/lipcert" verify proof.npz --network net.npz
set +e
"$work/clean/bin/lipcert" info nothing.onnx 2> error.txt
[ $? -eq 2 ] || { echo "a missing file should be exit code 2"; exit 1; }
set -e
if [ -n "${DIST:-}" ]; then mkdir -p "$DIST" && cp "$work"/dist/* "$DIST"/; fi
echo "release check passed: $(basename "$work"/dist/*.whl), $(basename "$work"/dist/*.tar.gz), $("$python" --version)"

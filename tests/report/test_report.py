"""The report: right numbers, parsable and self-contained HTML, hostile text, damaged folders, a real browser."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipcert import DataSet, InputError, Network, SoundnessError, certify
from lipcert.chart import numbers
from lipcert.chart.markup import Markup, tag
from lipcert.chart.shapes import round_numbers
from lipcert.cli.app import run
from lipcert.cli.demo import digits
from lipcert.errors import how_to_install
from lipcert.files.boundary import clean
from lipcert.report import heatmap
from lipcert.report.curves import shares
from lipcert.report.page import notices, page
from lipcert.report.pictures import pixels_of, png
from lipcert.robustness.stored import read_job
from tests.job_folders import HOSTILE, RADII, change, change_arrays, make_folder

VOID = {"meta", "img", "br"}


class Outline(HTMLParser):
    """Elements properly nested, with their attributes, and the text outside them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in {tag}"
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "job")


def check_page(text: str) -> Outline:
    """What holds for every page: nested, unique names, nothing fetched, nothing run, drawings described."""
    outline = Outline(text)
    names = [a["id"] for _, a in outline.found if "id" in a]
    assert len(set(names)) == len(names)
    for element, attributes in outline.found:
        assert element not in {"script", "link", "iframe", "object", "embed", "base", "form", "a", "image", "use"}
        assert not any(name.startswith("on") or name in {"href", "srcset", "xlink:href"} for name in attributes)
        if element == "img":
            assert str(attributes["src"]).startswith("data:image/png;base64,")
            assert attributes["alt"]
        else:
            assert "src" not in attributes
        assert set(str(attributes.get("aria-labelledby", names[0])).split()) <= set(names)
        if element == "svg":
            assert "aria-labelledby" in attributes or attributes["aria-hidden"] == "true"
    used = set(re.findall(r"url\((.*?)\)", text))
    assert all(u.startswith("#") and u[1:] in names for u in used)
    assert "@import" not in text
    return outline


def test_page_of_a_finished_job(folder: Path) -> None:
    job = read_job(folder)
    outline = check_page(page(job))
    assert "http" not in page(job).replace("http-equiv", "")
    assert job.last is not None
    sentence = (
        f"Of 600 inputs, {job.last.certified} ({numbers.percent(job.last.certified, 600)}) are classified correctly"
    )
    assert " ".join(sentence.split()) in outline.text
    assert notices(job) == []
    kinds = [element for element, _ in outline.found]
    assert kinds.count("img") == 16 + 16 + 2 * 16
    for words in (
        "What was asked",
        "lipcert verify pieces/pair-0-1.npz --network digits_net.npz",
        "Undecided",
        "8 min 32 s",
    ):
        assert words in outline.text
    row = next(p for p in job.result.pairs if (p.i, p.j) == (3, 7))
    assert row.upper is not None
    assert Decimal(numbers.up(row.upper, 6)) >= Decimal(row.upper)
    assert numbers.up(row.upper, 6) in outline.text
    sizes = [json.loads((folder / "result.json").read_text())["per_radius"][k]["certified"] for k in range(len(RADII))]
    assert all(f"{n} ({numbers.percent(n, 600)})".replace("\xa0", " ") in outline.text for n in sizes)


def test_a_certification_is_read_back_as_it_was(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(6, 4)), rng.normal(size=(3, 6))]
    net = Network.from_weights(weights, [np.zeros(6), np.zeros(3)])
    data = DataSet(rng.uniform(size=(40, 4)), rng.integers(0, 3, 40), image_shape=(2, 2))
    wrote = certify(net, data, radius=(0.05, 0.2), domain=(0.0, 1.0), method="interval", out=str(tmp_path / "job"))
    job = read_job(tmp_path / "job")
    told, read = wrote.to_dict(), job.result.to_dict()
    for times in (told, read):
        times.pop("seconds")
    assert read == told | {"network": told["network"] | {"shape": (4, 6, 3)}}
    for name, array in wrote.arrays().items():
        assert np.array_equal(job.result.arrays()[name], array), name
    assert notices(job) == []
    assert "Proved robust" in check_page(page(job)).text


def test_counterexamples_shares_and_missing_labels_as_the_terminal_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The class that wins at a counterexample, the terminal's percentages, and that no labels were given."""
    net, images, _ = digits()
    net.save(tmp_path / "net.npz")
    np.save(tmp_path / "images.npy", images[:7].reshape(-1, 8, 8))
    ask = ["--radius", "0.05,0.5", "--clip", "0", "1", "--method", "interval", "--out", str(tmp_path / "job")]
    assert run(["certify", str(tmp_path / "net.npz"), str(tmp_path / "images.npy"), *ask]) == 0
    told = capsys.readouterr().out
    job = read_job(tmp_path / "job")
    outline = check_page(page(job))
    k = int(job.result.counterexamples.places[0])
    scores = net.forward(job.result.counterexamples.points[0])
    winner = job.result.counterexample_class(k)
    assert winner == np.argmax(scores) != job.result.labels[k]
    assert f": {winner} is above {job.result.labels[k]}" in outline.text
    assert f"counterexample to input {k}, which gets class {winner}" in page(job)
    shares = re.findall(r"\d+ \(\d+\.\d\d.%\)", told)
    assert len(shares) == 6
    assert all(share.replace("\xa0", " ") in outline.text for share in shares)
    assert "No labels were given" in notices(job)[0]
    assert "no labels" in told


def test_page_of_a_binary_classifier(tmp_path: Path) -> None:
    outline = check_page(page(read_job(make_folder(tmp_path / "job", classes=2))))
    assert "1 pair of scores" in outline.text
    assert "not pictures" in outline.text
    assert "score i against score j" not in outline.text


def test_optional_fields(folder: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    change(folder, clip=True, refined=7, notes=["the time <was> used"], network=result["network"] | {"file": None})
    change(folder, data=result["data"] | {"file": None}, domain=None)
    outline = check_page(page(read_job(folder)))
    for words in (
        "Robustness of a network on a data set",
        "stay in it",
        "7 open inputs looked at",
        "<was> used",
        "--network NETWORK",
    ):
        assert words in outline.text
    change(folder, notes=[1])
    with pytest.raises(InputError, match="list of texts"):
        read_job(folder)


def test_page_of_many_classes_has_no_crowded_cells(tmp_path: Path) -> None:
    outline = check_page(page(read_job(make_folder(tmp_path / "job", classes=16))))
    cells = [a for element, a in outline.found if element == "rect" and a.get("class") == "cell dense"]
    assert len(cells) == 16 * 15
    assert not [a for element, a in outline.found if element == "text" and "font-size" in str(a.get("style"))]


def test_page_of_very_many_classes_stays_small(tmp_path: Path) -> None:
    text = page(read_job(make_folder(tmp_path / "job", classes=70)))
    assert "The 2 000 largest of 2 415 constants" in check_page(text).text
    assert len(text) < 2_000_000


def test_unfinished_job_says_so_at_the_top(tmp_path: Path) -> None:
    place = make_folder(tmp_path / "job", complete=False)
    (place / "pieces" / "pair-0-1.npz").unlink()
    outline = check_page(page(read_job(place)))
    top = outline.text.split("What was asked")[0]
    assert "Incomplete" in top
    assert "36 of 45 constants proved" in top
    assert "1 certificate no longer in the folder" in top
    assert "MemoryError: out of <memory>" in outline.text
    (place / "arrays.npz").unlink()
    change(place, pairs=[])
    outline = check_page(page(read_job(place)))
    assert "results of single inputs are not here" in outline.text
    change(place, per_radius=[], counts={"correct": 0, "misclassified": 0})
    assert "No radius has been decided yet" in check_page(page(read_job(place))).text


def test_disagreeing_files_are_said(folder: Path) -> None:
    change_arrays(folder, status=np.zeros(600, dtype=np.uint8))
    assert any("do not agree" in n for n in notices(read_job(folder)))


def test_hostile_text_is_only_text(tmp_path: Path) -> None:
    place = make_folder(tmp_path / "<b>job", name=HOSTILE, complete=False)
    pairs = json.loads((place / "result.json").read_text())["pairs"]
    pairs[0] |= {"method": HOSTILE, "certificate": "../../etc/passwd"}
    change(place, pairs=pairs, version=HOSTILE, norm=HOSTILE, failed=[{"name": HOSTILE, "error": HOSTILE}])
    change(place, "job.json", question={HOSTILE: HOSTILE})
    text = page(read_job(place))
    text.encode("utf-8")
    outline = check_page(text)
    assert "<script>alert(1)</script>" in outline.text  # as words that are read, in no element
    assert "\u202e" not in text
    assert "passwd (missing)" in outline.text


STRANGE = st.text("<>&\"'/=;! ab\n\x00\u202e\ud800\u00e9", max_size=12)


@given(STRANGE, STRANGE)
def test_escaping_has_no_way_around(content: str, value: str) -> None:
    outline = Outline(tag("p", tag("b", clean(content)), f"{Markup('<i>')}{clean(content)}", title=clean(value)))
    assert [element for element, _ in outline.found] == ["p", "b"]
    assert outline.found[0][1]["title"] == clean(value)


@given(st.floats(min_value=0, max_value=1e300), st.integers(2, 8))
def test_figures_round_outward(value: float, digits: int) -> None:
    exact = Decimal(repr(value))
    assert Decimal(numbers.down(value, digits)) <= exact <= Decimal(numbers.up(value, digits))
    assert abs(Decimal(numbers.up(value, digits)) - exact) <= exact * Decimal(10) ** (1 - digits)


def test_figures_by_hand() -> None:
    assert (numbers.up(0.1), numbers.down(0.1), numbers.up(None)) == ("0.1000", "0.1000", "–")
    assert (numbers.up(12345.6), numbers.down(12345.6), numbers.up(1e30)) == ("12350", "12340", "1.000e+30")
    assert (numbers.percent(2, 3), numbers.percent(2, 3, ceiling=True)) == ("66.66\xa0%", "66.67\xa0%")
    assert (numbers.percent(3, 3, ceiling=True), numbers.percent(0, 0)) == ("100.00\xa0%", "–")
    assert round_numbers(0.1) == pytest.approx([0, 0.02, 0.04, 0.06, 0.08, 0.1])
    assert (numbers.counted(1, "row"), numbers.counted(1200, "row")) == ("1 row", "1,200 rows")
    assert (numbers.counted(1, "leaf", "leaves"), numbers.counted(0, "leaf", "leaves")) == ("1 leaf", "0 leaves")
    assert (numbers.duration(5), numbers.duration(7300)) == ("5.00 s", "2 h 1 min")


def test_shares_are_outward_everywhere(folder: Path) -> None:
    job = read_job(folder)
    result, found = job.result, shares(job)
    assert found is not None
    for radius in np.random.default_rng(0).uniform(0, RADII[-1], 300):
        k = int(np.searchsorted(found.radii, radius)) - 1
        assert found.certified[k] <= (~result.wrong & (result.certified_radius >= radius)).sum()
        assert found.possible[k] >= (~result.wrong & (result.attack_radius > radius)).sum()
    coarse = shares(read_job_without_points(folder))
    assert coarse is not None
    assert coarse.certified[-1] == found.certified[-1]
    assert coarse.possible_at_end == found.possible_at_end


def read_job_without_points(folder: Path) -> Any:
    change(folder, complete=False)
    (folder / "arrays.npz").unlink()
    return read_job(folder)


def test_numbers_in_cells_stand_out() -> None:
    """Contrast of at least 4.5 between a cell and its number, at every level."""
    for level in np.linspace(0, 1, 101):
        light = heatmap.luminance(float(level))
        ink = 1.0 if light < heatmap.BALANCE else 0.0
        assert (max(light, ink) + 0.05) / (min(light, ink) + 0.05) >= 4.5


def test_png_decodes() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    data = png(pixels)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, {}
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body[kind] = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + body[kind])
        at += 12 + size
    assert struct.unpack(">IIBBBBB", body[b"IHDR"]) == (4, 2, 8, 2, 0, 0, 0)
    rows = np.frombuffer(zlib.decompress(body[b"IDAT"]), dtype=np.uint8).reshape(2, 13)
    assert np.array_equal(rows[:, 1:].reshape(2, 4, 3), pixels)


def test_pixels() -> None:
    flat = np.array([0.0, 0.5, 1.0, np.nan, 2.0, -1.0], dtype=np.float32)
    assert pixels_of(flat, (2, 3), 0.0, 1.0).tolist() == [[0, 128, 255], [0, 255, 0]]
    first = pixels_of(np.arange(12, dtype=np.float32), (3, 2, 2), 0, 11)
    assert first.shape == (2, 2, 3)
    assert pixels_of(np.zeros(4, dtype=np.float32), (2, 2, 1), 0, 0).shape == (2, 2)
    assert max(pixels_of(np.zeros(300 * 200, dtype=np.float32), (300, 200), 0, 1).shape) <= 96


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("format", 2, "format 2"),
        ("kind", "bound", "kind 'bound'"),
        ("complete", 1, "'complete' should be true or false"),
        ("network", [], "'network' should be an object"),
        ("network", {"file": "x", "sha256": "y", "shape": [0]}, "'network.shape'"),
        ("radii", [-1.0], "'radii' should hold finite"),
        ("radii", [10**400], "'radii' should hold finite"),
        ("radii", ["<b>"], "'radii' should hold finite"),
        ("classes", 10**6, "'classes' should be between"),
        ("domain", [1, 0], "'domain'"),
        ("pairs", [{"i": 0, "j": 10}], "the pair (0, 10)"),
        ("pairs", [1], "a list of objects"),
        ("counts", {"correct": 601, "misclassified": 0}, "601 correct"),
        ("per_radius", [{"radius": 0.1, "certified": 600, "attacked": 1, "undecided": 0}], "more outcomes"),
        ("data", {"file": "x", "count": 5, "scale": 1, "image_shape": None}, "of 5 inputs"),
        ("seconds", True, "'seconds' should be a number"),
        ("failed", {}, "'failed' should be a list"),
    ],
)
def test_damaged_result(folder: Path, name: str, value: Any, words: str) -> None:
    change(folder, **{name: value})
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        read_job(folder)
    assert str(caught.value).startswith(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"labels": None}, "array labels is missing"),
        ({"labels": np.zeros(5, dtype=np.int64)}, "there are 600 inputs"),
        ({"labels": np.zeros(600)}, "whole numbers"),
        ({"certified_radius": np.full(600, np.nan)}, "radii >= 0"),
        ({"status": np.full(600, 9, dtype=np.uint8)}, "0, 1, 2 and 3"),
        ({"images": np.zeros((3, 63), dtype=np.float32)}, "pictures are (8, 8)"),
        ({"example_index": np.array([600])}, "example_index"),
    ],
)
def test_damaged_arrays(folder: Path, arrays: dict[str, Any], words: str) -> None:
    change_arrays(folder, **arrays)
    with pytest.raises(InputError, match=re.escape(words)):
        read_job(folder)


def test_contradictions_give_no_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_arrays(folder, attack_radius=np.full(600, 1e-6))
    with pytest.raises(SoundnessError, match="input 0 is certified up to"):
        read_job(folder)
    pairs = json.loads((folder / "result.json").read_text())["pairs"]
    change(folder, pairs=[pairs[0] | {"lower": 1e9}])
    assert run(["report", str(folder)]) == 3
    assert "above its upper bound" in capsys.readouterr().err
    assert not (folder / "report.html").exists()


def test_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(folder)]) == 0
    assert "report.html" in capsys.readouterr().out
    other = tmp_path / "other.html"
    assert run(["report", str(folder), "--to", str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(other), "plots": [], "complete": True}
    assert other.read_bytes() == (folder / "report.html").read_bytes()


def test_command_wrong_ways(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*arguments: str) -> str:
        assert run(["report", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        return captured.err

    assert "no such folder" in refused(str(tmp_path / "nowhere"))
    assert "result.json: a file, not a folder" in refused(str(folder / "result.json"))
    assert "no job.json" in refused(str(tmp_path))
    assert "give the file the ending .html" in refused(str(folder), "--to", str(tmp_path / "x.pdf"))
    assert "no such folder" in refused(str(folder), "--to", str(tmp_path / "no" / "x.html"))
    (folder / "arrays.npz").write_bytes(b"PK damaged")
    assert "arrays.npz: the archive is damaged (BadZipFile); run the job again" in refused(str(folder))
    (folder / "arrays.npz").unlink()
    assert "arrays.npz: no such file" in refused(str(folder))
    for damage in (b"{", b"[" * 100_000, b"[1]", b'{"format": NaN}', b"\xff\xfe\x00"):
        (folder / "result.json").write_bytes(damage)
        assert "the file is damaged" in refused(str(folder))
    (folder / "result.json").unlink()
    assert "no result.json yet" in refused(str(folder))


def test_plots(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib (extra plot) is not installed")
    assert run(["report", str(folder), "--plots", "svg", "--json"]) == 0
    names = [Path(p).name for p in json.loads(capsys.readouterr().out)["plots"]]
    assert names == ["certified.svg", "constants.svg", "radii.svg"]
    assert all(b"<svg" in (folder / n).read_bytes() for n in names)
    change(folder, complete=False, pairs=[])
    (folder / "arrays.npz").unlink()
    assert run(["report", str(folder), "--plots", "png", "--json"]) == 0
    assert [Path(p).name for p in json.loads(capsys.readouterr().out)["plots"]] == ["certified.png"]
    assert (folder / "certified.png").read_bytes().startswith(b"\x89PNG")


def test_plots_without_matplotlib(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run(["report", str(folder), "--plots", "png"]) == 2
    assert how_to_install("plot") in capsys.readouterr().err
    assert not (folder / "report.html").exists()


MEASURE = """
<script>
addEventListener('load', () => {
  const found = [...document.querySelectorAll('iframe')].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    const boxes = svg => [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
    const overlaps = [...page.querySelectorAll('svg')].flatMap(svg => boxes(svg).flatMap(([s, a], k, all) =>
      all.slice(k + 1).filter(([, b]) => meet(a, b)).map(([t]) => s + ' / ' + t)));
    return {width: frame.clientWidth, needed: root.scrollWidth, overlaps, scripts: page.scripts.length,
      smallest: Math.min(...[...page.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)),
      broken: [...page.images].filter(i => !i.naturalWidth).length, title: page.title};
  });
  document.getElementById('answer').textContent = JSON.stringify(found);
});
</script>
"""


def test_in_a_browser(tmp_path: Path) -> None:
    """A real browser lays the page out for a phone and for a desk: nothing overflows, overlaps or complains."""
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    browser = next((path for path in found if path is not None), None)
    if browser is None:
        pytest.skip("no chromium here; install it to lay the report out in a browser")
    pages = [page(read_job(make_folder(tmp_path / "plain")))]
    pages.append(page(read_job(make_folder(tmp_path / "hostile", name=40 * "long" + HOSTILE, complete=False))))
    pages.append(page(read_job(make_folder(tmp_path / "binary", classes=2))))
    frames = "".join(
        f'<iframe style="border:0;width:{w}px;height:800px" srcdoc="{html.escape(p)}"></iframe>'
        for p in pages
        for w in (390, 1280)
    )
    harness = tmp_path / "harness.html"
    harness.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{frames}<pre id="answer"></pre>{MEASURE}', "utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    environment = {**os.environ, "HOME": str(tmp_path)}
    command = [browser, *options, f"--user-data-dir={tmp_path / 'profile'}", harness.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=environment)
    assert "CONSOLE" not in done.stderr, done.stderr
    match = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match is not None
    measured = json.loads(html.unescape(match[1]))
    assert [m["width"] for m in measured] == [390, 1280] * 3
    for m in measured:
        assert m["needed"] <= m["width"]
        assert (m["overlaps"], m["scripts"], m["broken"]) == ([], 0, 0)
        assert m["smallest"] >= 9
        assert m["title"].startswith("Robustness of ")

"""The page of an exported tagger in a real browser: what it shows is what the tagger says."""

import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect, sync_playwright

import trellis
from tests.export.test_onnx import corpus
from trellis.errors import ModelError
from trellis.export import to_web
from trellis.export.onnx import RUNTIME

BROWSER = os.environ.get("TRELLIS_BROWSER") or shutil.which("chromium") or shutil.which("chromium-browser")
DIST = Path(__file__).parents[2] / "build" / "web" / "node_modules" / "onnxruntime-web" / "dist"
ENCODER: dict[str, Any] = {"words": {"size": 8}, "hidden": 12, "characters": {"kind": "cnn", "size": 6, "output": 8}}


@pytest.fixture(scope="module")
def tagger() -> trellis.NeuralTagger:
    return trellis.NeuralTagger(encoder=ENCODER, training={"epochs": 8}).fit(*corpus())


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/index.html"
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium, or name one in TRELLIS_BROWSER")
@pytest.mark.skipif(not DIST.is_dir(), reason="no onnxruntime-web: run make web")
@pytest.mark.parametrize("kind", ["words", "characters"])
def test_the_page_shows_what_the_tagger_says(
    tagger: trellis.NeuralTagger, tmp_path: Path, address: str, kind: str
) -> None:
    text = "Ada lives in Paris and Zoë née Ｂob likes iPhone"
    if kind == "characters":
        sentences, text = [list("我爱北京"), list("你很好")], "我很爱 你好😀"
        settings = {"words": {"size": 8}, "hidden": 8, "characters": {"kind": "none"}, "pairs": 4}
        tagger = trellis.NeuralTagger(encoder=settings, training={"epochs": 8})
        tagger.fit(sentences, [list("SSBE"), list("SBE")])
    to_web(tagger, tmp_path, runtime=DIST)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(address)
        page.fill("#text", text)
        expect(page.locator("#state")).to_contain_text("Probability of all these labels together", timeout=60_000)
        tokens = text.split() if kind == "words" else list(text.replace(" ", ""))
        expect(page.locator("#answer span")).to_have_count(len(tokens))
        spans = page.locator("#answer span").evaluate_all(
            "all => all.map(s => [s.dataset.label, s.dataset.probability])"
        )
        browser.close()
    assert [label for label, _ in spans] == tagger.predict([tokens])[0]
    expected = tagger.annotate([tokens])[0].probabilities
    assert [float(p) for _, p in spans] == pytest.approx(expected, abs=1e-5)


def test_without_the_runtime_the_rest_is_written(tagger: trellis.NeuralTagger, tmp_path: Path) -> None:
    assert to_web(tagger, tmp_path / "site") == tmp_path / "site" / "index.html"
    assert {file.name for file in (tmp_path / "site").iterdir()} == {
        "index.html",
        "page.js",
        "model.onnx",
        "model.json",
    }


def test_a_folder_that_is_not_the_runtime_is_named_before_anything_is_written(
    tagger: trellis.NeuralTagger, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=f"{RUNTIME[0]} is missing: runtime is the folder dist of onnxruntime-web"):
        to_web(tagger, tmp_path / "site", runtime=tmp_path)
    assert not (tmp_path / "site").exists()


def test_what_the_page_cannot_compute_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="takes emissions, of which only Trellis knows how to make it"):
        to_web(trellis.HMM().fit(*corpus()), tmp_path)

"""The demo in a browser without a server: ``python -m tools.web`` (make web) writes the page to build/web/site."""

from __future__ import annotations

import trellis
from tools.wheels import ROOT
from trellis import demo
from trellis.export import to_web

WEB = ROOT / "build" / "web"
ENCODER = {"words": {"size": 32}, "hidden": 64, "characters": {"kind": "cnn", "size": 16, "output": 32}}


def main() -> None:
    """Train a small BiLSTM tagger on the demo's English corpus and write it as a page."""
    data = demo.english()
    tagger = trellis.NeuralTagger(encoder=ENCODER, training={"epochs": 10}).fit(data.train, dev=data.dev)
    page = to_web(tagger, WEB / "site", runtime=WEB / "node_modules" / "onnxruntime-web" / "dist")
    print(f"{page}: python -m http.server --directory {page.parent}")


if __name__ == "__main__":
    main()

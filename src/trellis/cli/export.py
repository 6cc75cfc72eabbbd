"""``trellis export``: a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trellis import export as exporting
from trellis.errors import ConfigError, ModelError
from trellis.models import CRF, load
from trellis.models.crfsuite import save


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder or file of a trained model.")],
    onnx: Annotated[
        Path | None, typer.Option(help="File to write; what a program needs to call it goes to the same name.json.")
    ] = None,
    outputs: Annotated[
        str | None, typer.Option(help="With --onnx: what the graph gives; the fewer, the quicker. Default: all three.")
    ] = None,
    web: Annotated[
        Path | None, typer.Option(help="Folder to write: a page that tags in the browser, with all that it needs.")
    ] = None,
    runtime: Annotated[
        Path | None,
        typer.Option(help="With --web: folder dist of the npm package onnxruntime-web, copied into the folder."),
    ] = None,
    crfsuite: Annotated[
        Path | None, typer.Option(help="File to write: a feature CRF without constraints, for CRFsuite's taggers.")
    ] = None,
) -> None:
    """Write a model as one ONNX file with the decoder inside: best labels, exact marginals, the path's probability.

    A BiLSTM tagger takes the ids of its tokens, one with a transformer those of its subwords; a feature CRF and an HMM
    take emissions. With --web the file comes with a page that runs a BiLSTM tagger in the browser. It needs the extra
    onnx of trellis-crf. With --crfsuite it is a model of CRFsuite instead, whose answers are the same.

    \b
    Examples:
      trellis export model --onnx model.onnx
      trellis export model --onnx model.onnx --outputs labels,marginals
      trellis export model --web site --runtime node_modules/onnxruntime-web/dist
      trellis export model --crfsuite model.crfsuite
    """  # noqa: D301 - \b tells click to keep the lines
    if [onnx, web, crfsuite].count(None) != 2 or (runtime is not None and web is None):
        raise ConfigError("give one of --onnx FILE, --web DIR and --crfsuite FILE, with --runtime only for --web")
    if outputs is not None and onnx is None:
        raise ConfigError("--outputs is only for --onnx")
    wanted = {} if outputs is None else {"outputs": [name.strip() for name in outputs.split(",")]}
    tagger = load(model)
    if crfsuite is not None:
        if not isinstance(tagger, CRF):
            raise ModelError(f"--crfsuite writes a feature CRF, and {model} is of the kind {tagger.kind!r}")
        save(tagger, crfsuite)
        typer.echo(f"{crfsuite}", err=True)
    if onnx is not None:
        typer.echo(f"{onnx} and {exporting.to_onnx(tagger, onnx, **wanted)}", err=True)
    if web is not None:
        page = exporting.to_web(tagger, web, runtime=runtime)
        typer.echo(f"{page}: python -m http.server --directory {web}", err=True)

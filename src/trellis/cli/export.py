"""``trellis export``: a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import trellis
from trellis import export as exporting


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder or file of a trained model.")],
    onnx: Annotated[
        Path, typer.Option(help="File to write; what a program needs to call it goes to the same name.json.")
    ],
) -> None:
    """Write a model as one ONNX file with the decoder inside: best labels, exact marginals, the path's probability.

    A BiLSTM tagger takes the ids of its tokens, one with a transformer those of its subwords; a feature CRF and an HMM
    take emissions. It needs the extra onnx of trellis-crf.

    \b
    Example:
      trellis export model --onnx model.onnx
    """  # noqa: D301 - \b tells click to keep the lines
    sidecar = exporting.to_onnx(trellis.load(model), onnx)
    typer.echo(f"{onnx} and {sidecar}", err=True)

"""``trellis serve``: models behind HTTP, and a page to try them."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trellis.corpus import read
from trellis.errors import ConfigError, DataError, required

if TYPE_CHECKING:
    from trellis.server import AnnotationSettings

_MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"


def serve(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=]DIR", help="Model folders or files, with names of your own.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Train an English and a Chinese CRF on small corpora and serve them.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 is any that is free.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    keys: Annotated[
        str | None, typer.Option(help="File of API keys, one per line; also from TRELLIS_API_KEYS.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name under which clients may ask; * is any. May be repeated.")
    ] = None,
    corrections: Annotated[
        str | None, typer.Option(help="File of JSON Lines that corrections of the page are appended to.")
    ] = None,
    annotate: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Texts, one per line: the page offers those worth labelling next."),
    ] = None,
    train: Annotated[
        str | None, typer.Option(help="What the first model learned from; learning goes on from all of it.")
    ] = None,
    dev: Annotated[
        str | None, typer.Option(help="Held-out sentences on which the first model is compared before and after.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of one request.")] = 100_000,
    max_bytes: Annotated[int, typer.Option(min=1, help="Bytes of one request.")] = 4 * 2**20,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds until a request must be answered.")] = 30.0,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens that a model answers at a time.")] = 4096,
    max_memory: Annotated[
        int | None, typer.Option(min=1, help="Megabytes beyond which a process is replaced by a new one.")
    ] = None,
) -> None:
    """Serve models over HTTP: tags, probabilities, trellises and reasons as JSON, and a page to try them.

    Requests that come together are answered in one batch. If too much waits, requests are refused at once with status
    429. A model is reloaded when its file changes. /docs describes the interface.

    \b
    Examples:
      trellis serve --demo
      trellis serve model
      trellis serve ner=models/ner pos=models/pos --port 9000 --workers 4
      trellis serve model --host 0.0.0.0 --allow-host ner.example.org --keys keys.txt
    """  # noqa: D301 - \b tells click to keep the lines
    if bool(models) == demo:
        raise ConfigError(f"expected model folders or --demo, got {'both' if demo else 'none'}")
    if corrections is not None and (workers > 1 or max_memory is not None):
        raise ConfigError("--corrections has one writer: leave out --workers and --max-memory")
    with _figures(workers):
        # After the variable for the figures of several processes, which is read when they are imported.
        with required("trellis serve", "trellis-crf[serve]"):
            importlib.import_module("trellis.server")
        from trellis.server import ModelRegistry, ServerLimits, ServerSettings
        from trellis.server.runner import free_port, run
        from trellis.server.security import LOCAL, Keys

        limits = ServerLimits(
            tokens=max_tokens,
            high_tokens=max(2 * max_tokens, 200_000),
            low_tokens=max(max_tokens, 100_000),
            body_bytes=max_bytes,
            held_bytes=max(4 * max_bytes, 256 * 2**20),
            seconds=timeout,
            batch_tokens=batch_tokens,
        )
        hosts, port = (*LOCAL, host, *(allow_host or [])), free_port(host, port)  # before a model is opened or trained
        named = _named(models or [])
        annotation = _annotation(corrections, annotate, train, dev, next(iter(named), None))
        settings = ServerSettings(limits, hosts, Keys.read(keys), annotation)
        with nullcontext(named) if named else _demo_models() as paths:
            registry = ModelRegistry(paths)
            typer.echo(f"Trellis is at http://{f'[{host}]' if ':' in host else host}:{port} (stop it with Ctrl-C)")
            if not len(settings.keys) and host not in ("127.0.0.1", "localhost", "::1"):
                warning = "anybody who reaches this address may ask: --keys limits it to holders of a key"
                typer.echo(f"trellis: {warning}", err=True)
            run(registry, settings, host, port, workers=workers, max_memory=max_memory)


def _annotation(
    corrections: str | None, annotate: str | None, train: str | None, dev: str | None, first: str | None
) -> AnnotationSettings:
    """The settings of annotation, with files for the first model; the demo has sentences of its own, and no files."""
    from trellis.demo import chinese, english
    from trellis.server import AnnotationSettings, Corrections, LearningData

    if corrections is None:
        if annotate or train or dev:
            raise ConfigError("--annotate, --train and --dev need --corrections, the file that labels are kept in")
        return AnnotationSettings()
    Corrections(corrections).close()  # what is wrong with the file is told before anything is started
    data = {}
    if first is None:
        corpora = {"english": english(), "chinese": chinese()}
        data = {name: LearningData(corpus.train, corpus.dev) for name, corpus in corpora.items()}
    if train or dev:
        data[first or "english"] = LearningData(*(read(path).sentences if path else [] for path in (train, dev)))
    lines: list[str] = []
    if annotate is not None:
        try:
            lines = Path(annotate).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{annotate} cannot be read: {error}") from None
    pool = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    return AnnotationSettings(Path(corrections), data, pool)


def _named(models: list[str]) -> dict[str, Path]:
    """The models by name; those without a name are called like their file or folder, which may have an = too."""
    named: dict[str, Path] = {}
    for item in models:
        name, equals, path = item.partition("=")
        if not equals or Path(item).exists():
            name, path = Path(item).resolve().stem, item
        if not name or not path:
            raise ConfigError(f"expected NAME=DIR, got {item!r}")
        if name in named:
            raise ConfigError(f"two models are called {name!r}: give names, as in first=DIR second=DIR")
        named[name] = Path(path)
    return named


@contextmanager
def _demo_models() -> Iterator[dict[str, Path]]:
    """Models of the demo's corpora, in a folder that goes with the server."""
    from trellis import CRF
    from trellis.demo import chinese, english
    from trellis.models import folder

    with tempfile.TemporaryDirectory(prefix="trellis-") as directory:
        paths = {name: Path(directory) / name for name in ("english", "chinese")}
        typer.echo("Training two demo models ...")
        folder.save_model(folder.prepare(paths["english"]), CRF(features="ner", c2=0.1).fit(english().train))
        folder.save_model(folder.prepare(paths["chinese"]), CRF(features="seg", c2=0.1).fit(chinese().train))
        yield paths


@contextmanager
def _figures(workers: int) -> Iterator[None]:
    """A folder where the figures of several processes meet."""
    if workers == 1 or _MULTIPROCESS in os.environ:
        if not Path(os.environ.get(_MULTIPROCESS, ".")).is_dir():
            raise ConfigError(f"{_MULTIPROCESS} must name a folder, got {os.environ[_MULTIPROCESS]}")
        yield
        return
    with tempfile.TemporaryDirectory(prefix="trellis-") as directory:
        os.environ[_MULTIPROCESS] = directory
        try:
            yield
        finally:
            del os.environ[_MULTIPROCESS]

"""From one file to another: another format, another tag scheme, or both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from trellis.corpus.bad_tags import mend_tags, refuse_bad_tags
from trellis.corpus.files import StrPath
from trellis.corpus.formats import format_of_path, get_format, iterate, write
from trellis.corpus.segmented import words_from_sentence
from trellis.corpus.source import OnError, ReadReport, refuse
from trellis.errors import shown
from trellis.tags import OnBadTags, Scheme, Style, convert_tags, parse_label
from trellis.text import Sentence


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was done: how many sentences, from which format and scheme to which (None: left as it was)."""

    sentences: int
    report: ReadReport
    """Of reading."""
    to_format: str
    from_scheme: Scheme | None
    to_scheme: Scheme | None
    notes: list[str] = field(default_factory=list)
    """What was done about bad tags."""


def convert(
    source: StrPath,
    target: StrPath,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    from_scheme: Scheme | None = None,
    to_scheme: Scheme | None = None,
    encoding: str = "utf-8",
    on_error: OnError = "raise",
    on_bad_tags: OnBadTags | None = None,
    read_options: dict[str, Any] | None = None,
    write_options: dict[str, Any] | None = None,
) -> Conversion:
    """Convert a file; tags keep their scheme unless `to_scheme` is given.

    Where the scheme of the tags matters and `from_scheme` does not tell, it is the best fitting one, for
    which all sentences are read first; otherwise they are converted one by one. Bad tags are an error unless
    `on_bad_tags` says otherwise: see `trellis.corpus.bad_tags`.
    """
    form = format_of_path(target) if to_format is None else get_format(to_format)
    stream = iterate(source, format=from_format, encoding=encoding, on_error=on_error, **(read_options or {}))
    options = dict(write_options or {})
    after, notes = None, []
    sentences: Iterable[Sentence]
    if to_scheme or on_bad_tags or form.name in ("spans", "segmented"):
        mended = mend_tags(stream, on_bad_tags=on_bad_tags or "error", scheme=from_scheme)
        kept, notes, before, style = mended.sentences, mended.notes, mended.found.scheme, mended.found.style
        from_scheme, after = before, to_scheme or before
        if form.name == "segmented":
            sentences, after = _as_words(kept, before), None
        else:
            to_style = Style.PREFIX if form.name == "spans" else style
            sentences = (
                sentence.with_tags(convert_tags(sentence.tags, before, after, style=style, target_style=to_style))
                if sentence.tags is not None
                else sentence
                for sentence in kept
            )
        if form.name == "spans":
            options["scheme"] = after
    else:
        sentences = refuse_bad_tags(stream, scheme=from_scheme)
    count = write(target, sentences, format=form.name, **options)
    return Conversion(count, stream.report, form.name, from_scheme, after, notes)


def _as_words(sentences: Iterable[Sentence], scheme: Scheme) -> Iterator[Sentence]:
    """Characters joined where tags without types say where words begin and end; otherwise the tokens are the words."""
    for sentence in sentences:
        if scheme is Scheme.PLAIN or sentence.tags is None:
            yield sentence.with_tags(None)
            continue
        typed = next((tag for tag in sentence.tags if parse_label(tag, scheme)[1]), None)
        if typed is not None:
            refuse(sentence, f"the tag {shown(typed)} has a type, so the tags do not say where words begin and end")
        words = words_from_sentence(sentence, scheme=scheme)
        yield Sentence(words, path=sentence.path, lines=sentence.lines[:1])

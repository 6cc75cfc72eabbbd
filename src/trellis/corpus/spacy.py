"""spaCy's DocBin, the format of its ``.spacy`` files; it is read by spaCy itself, which must be installed.

A document is a sentence, or several where spaCy knows their boundaries. Tags are the entities in IOB2, unless
``tags`` names another annotation: ``pos``, ``tag`` or ``lemma``. Tokens of white space are left out and counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from trellis.corpus.source import Source
from trellis.errors import DataError
from trellis.text import Sentence

_TAGS = ("ent", "pos", "tag", "lemma")
_COLUMNS = ("pos", "tag", "lemma")


def read(source: Source, *, tags: str = "ent") -> Iterator[Sentence]:
    """The sentences of all documents; `tags` is one of ``ent``, ``pos``, ``tag`` and ``lemma``."""
    if tags not in _TAGS:
        raise DataError(f"tags must be one of {', '.join(_TAGS)}, got {tags!r:.80}")
    if source.data is None:
        raise DataError(f"{source.name}: expected a spaCy DocBin, found something else")
    for number, document in enumerate(_documents(source.data, source.name), 1):
        for span in sentences_of(document):
            sentence = tagged_sentence(span, tags)
            blank = len(span) - (0 if sentence is None else len(sentence))
            if blank:
                source.report.ignored["tokens of white space"] += blank
            if sentence is not None:
                yield replace(sentence, path=source.name, lines=(number,))


def write(sentences: Iterable[Sentence]) -> NoReturn:
    """Refused: spaCy converts what Trellis writes."""
    raise DataError("spaCy's DocBin is only read: write conll, and convert it with `spacy convert`")


def _documents(data: bytes, name: str) -> Iterator[Any]:
    try:
        from spacy.tokens import DocBin  # type: ignore[import-not-found, unused-ignore]
        from spacy.vocab import Vocab  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise DataError(f"{name}: .spacy files need spaCy: pip install spacy") from error
    try:
        yield from DocBin().from_bytes(data).get_docs(Vocab())
    except Exception as error:  # whatever spaCy makes of a damaged file
        raise DataError(f"{name}: spaCy cannot read it: {type(error).__name__}: {error}") from error


def sentences_of(document: Any) -> Iterable[Any]:
    """The sentences of a document; the document itself if spaCy does not know them."""
    return document.sents if document.has_annotation("SENT_START") else [document]


def tagged_sentence(span: Any, tags: str) -> Sentence | None:
    """The tokens of a sentence that are not white space, with one annotation as tags; None if there are no tokens."""
    tokens = [token for token in span if not token.text.isspace()]
    if not tokens:
        return None
    begin, last = tokens[0].idx, tokens[-1]
    words = [token.text for token in tokens]
    offsets = [(token.idx - begin, token.idx - begin + len(token.text)) for token in tokens]
    columns = {name: values for name in _COLUMNS if name != tags and (values := _values(tokens, name))}
    return Sentence(words, _tags(tokens, tags), span.doc.text[begin : last.idx + len(last.text)], offsets, columns)


def _tags(tokens: Sequence[Any], tags: str) -> list[str] | None:
    if tags != "ent":
        return _values(tokens, tags)
    if not all(token.ent_iob_ for token in tokens):  # "" where nothing is known
        return None
    result: list[str] = []
    for previous, token in itertools.pairwise([None, *tokens]):
        goes_on = token.ent_iob_ == "I" and previous is not None and previous.ent_type_ == token.ent_type_
        result.append("O" if token.ent_iob_ == "O" else f"{'I' if goes_on else 'B'}-{token.ent_type_}")
    return result


def _values(tokens: Sequence[Any], name: str) -> list[str] | None:
    """The values of an annotation, or None where one lacks it."""
    values = [getattr(token, f"{name}_") for token in tokens]
    return values if all(values) else None

"""JSON Lines with tokens and tags: an object a line.

    {"tokens": ["Ada", "wrote"], "tags": ["B-PER", "O"], "pos": ["NNP", "VBD"], "text": "Ada wrote"}

Other lists of strings as long as the tokens are columns; ``text`` and ``offsets`` are kept; other fields are
not, unless `keep_fields` makes them the frame of the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from trellis.corpus._errors import LineError
from trellis.corpus._json import RecordFields, dumps, records
from trellis.corpus._source import Source
from trellis.corpus.rows import find_tags, row_from_sentence, sentence_from_row
from trellis.errors import DataError
from trellis.text import Sentence, located


def read(
    source: Source,
    *,
    tokens: str = "tokens",
    tags: str | None = None,
    names: Sequence[str] | None = None,
    locate: bool = False,
    keep_fields: bool = False,
) -> Iterator[Sentence]:
    """Sentences; `tags` is the field of the tags (by default the first usual one), `names` spells ids.

    With `locate`, tokens of a record with a text get their offsets in it; it is an error if they are not there.
    """
    for number, line, record in records(source):
        if not isinstance(record, dict):
            source.fail("expected a JSON object", number, line)
            continue
        field = tags if tags is not None else find_tags(record)
        spelled = {} if names is None or field is None else {field: names}
        try:
            sentence = sentence_from_row(record, tokens, field, spelled, path=source.name, lines=(number,))
            sentence = located(sentence) if locate else sentence
        except (LineError, DataError) as problem:
            source.fail(str(problem).removeprefix(f"{source.name}:{number}: "), number, line)
            continue
        yield replace(sentence, frame=RecordFields(record)) if keep_fields else sentence


def write(sentences: Iterable[Sentence], *, tags: str = "tags") -> Iterator[str]:
    """An object a line with what is known about each sentence."""
    for sentence in sentences:
        yield dumps(row_from_sentence(sentence, tags))

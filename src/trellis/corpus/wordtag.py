"""Tagged text: one sentence per line, each word with its tag behind a slash, as in ``Time/NN flies/VBZ``.

A bar (``Time|NN``) or an underline (``Time_NN``) is read as well where nearly every item has one and a tag behind it.
The last delimiter of an item separates, so a word may hold it (``1/2/CD``) and a tag may not. A blank line is
an empty sentence, so that line n of the file is sentence n.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trellis.corpus.segmented import refuse_unwritable
from trellis.corpus.sniff import SAMPLE, find_delimiter, is_delimiter, split_spaces
from trellis.corpus.source import Source, refuse
from trellis.errors import CorpusError, shown
from trellis.text import Sentence


def read(source: Source, *, delimiter: str | None = None) -> Iterator[Sentence]:
    """Sentences of words with tags; without a `delimiter` it is the slash, bar or underline that the file has."""
    if delimiter is None:
        delimiter = _delimiter_of(source)
    for number, line in source.lines():
        items = [item.rpartition(delimiter) for item in split_spaces(line)]
        bad = next((item for item in items if not (item[0] and item[2])), None)
        if bad is not None:
            problem = f"expected word{delimiter}TAG, found {shown(''.join(bad))}"
            source.fail(problem, number, line)
            continue
        words, tags = [word for word, _, _ in items], [tag for _, _, tag in items]
        yield Sentence(words, tags, path=source.name, lines=(number,))


def _delimiter_of(source: Source) -> str:
    """That of the first lines, whose items must have two parts."""
    lines = source.head.split("\n", SAMPLE)[:SAMPLE]
    items = [item for line in lines for item in split_spaces(line)]
    delimiter = find_delimiter(items) or "/"
    if is_delimiter(delimiter, [item.rpartition(delimiter)[0] for item in items]):
        number, line = next((number, line) for number, line in enumerate(lines, 1) if line.strip())
        problem = f"expected items of two parts, word{delimiter}TAG, found more parts: {shown(items[0])}"
        raise CorpusError(problem, path=source.name, line=number, text=line)
    return delimiter


def write(sentences: Iterable[Sentence], *, delimiter: str = "/") -> Iterator[str]:
    """One line of word/TAG items per sentence."""
    for sentence in sentences:
        if sentence.tags is None:
            refuse(sentence, f"a sentence without tags cannot be written as word{delimiter}TAG")
        for word, tag in zip(sentence.tokens, sentence.tags, strict=True):
            refuse_unwritable(sentence, word)
            refuse_unwritable(sentence, tag)
            if delimiter in tag:
                refuse(sentence, f"the tag {shown(tag)} holds the delimiter {delimiter!r}")
        items = zip(sentence.tokens, sentence.tags, strict=True)
        yield " ".join(f"{word}{delimiter}{tag}" for word, tag in items) + "\n"

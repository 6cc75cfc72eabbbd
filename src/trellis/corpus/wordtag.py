"""Tagged text: a sentence a line, each word with its tag behind a slash, as in ``Time/NN flies/VBZ``.

The last delimiter of an item separates, so a word may hold it (``1/2/CD``) and a tag may not. A blank line is
an empty sentence, so that line n of the file is sentence n.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trellis.corpus._errors import refuse
from trellis.corpus._source import Source
from trellis.corpus.segmented import refuse_unwritable, split_spaces
from trellis.text import Sentence
from trellis.untrusted import shown


def read(source: Source, *, delimiter: str = "/") -> Iterator[Sentence]:
    """Sentences of words with tags."""
    for number, line in source.lines():
        items = [item.rpartition(delimiter) for item in split_spaces(line)]
        bad = next((item for item in items if not (item[0] and item[2])), None)
        if bad is not None:
            problem = f"expected word{delimiter}TAG, found {shown(''.join(bad))}"
            source.fail(problem, number, line)
            continue
        words, tags = [word for word, _, _ in items], [tag for _, _, tag in items]
        yield Sentence(words, tags, path=source.name, lines=(number,))


def write(sentences: Iterable[Sentence], *, delimiter: str = "/") -> Iterator[str]:
    """A line of word/TAG items a sentence."""
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

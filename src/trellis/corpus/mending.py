r"""Sentences whose gold tags are not legal: refused with file and line, repaired, or dropped.

clean = mend_tags(corpus.read("train.conll"), on_bad_tags="repair")
print("\n".join(clean.notes))          # what was changed, the first ten changes by file and line
tagger.fit(clean.sentences)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trellis.errors import CorpusError, DataError
from trellis.tags import Detection, Mended, OnBadTags, Scheme, detect, mend, refusal, summary
from trellis.tags.mending import spelling_note
from trellis.text import Sentence

HINT = (
    '--on-bad-tags repair (in Python on_bad_tags="repair") reads them as seqeval does, drop leaves their sentences out'
)


@dataclass(frozen=True, slots=True)
class MendedSentences:
    """Sentences with legal tags, the scheme they are written in, and what was done."""

    sentences: list[Sentence]
    found: Detection
    notes: list[str]
    """For people: another spelling that was recognised, tags that were repaired, sentences that were dropped."""


def mend_tags(
    sentences: Iterable[Sentence],
    *,
    on_bad_tags: OnBadTags = "error",
    scheme: Scheme | None = None,
    found: Detection | None = None,
) -> MendedSentences:
    """The sentences with legal tags in the scheme that is given, `found` before, or fits best."""
    given = list(sentences)
    tagged = [i for i, sentence in enumerate(given) if sentence.tags is not None]
    sequences = [given[i].tags or () for i in tagged]
    found = found or detect(sequences, scheme=scheme)
    result = mend(sequences, found, on_bad_tags)

    def place(number: int, position: int) -> str:
        return place_of(given[tagged[number]], tagged[number], position)

    if result.bad and on_bad_tags == "error":
        _refuse(result, found, [given[i] for i in tagged])
    tags = dict(zip(tagged, result.tags, strict=True))
    kept = [
        sentence if tags.get(i) is sentence.tags else sentence.with_tags(tags[i])
        for i, sentence in enumerate(given)
        if i not in tags or tags[i] is not None
    ]
    return MendedSentences(kept, found, [*spelling_note(found), *summary(result, found, place)])


def place_of(sentence: Sentence, number: int, position: int) -> str:
    """A token by file and line, or else by sentence and position."""
    line = sentence.line_of(position)
    if line is None or sentence.path is None:
        return f"sentence {number}, position {position}"
    return f"{sentence.path}:{line}"


def _refuse(result: Mended, found: Detection, sentences: list[Sentence]) -> None:
    first = result.bad[0]
    sentence = sentences[first.sequence]
    line = sentence.line_of(first.position)
    whole = refusal(result, found, lambda number, position: place_of(sentences[number], number, position))
    if line is None or sentence.path is None:
        raise DataError(f"{whole}: {HINT}")
    problem = whole.removeprefix(f"{sentence.path}:{line}: ")
    text = f"{sentence.tokens[first.position]} {first.tag}"
    raise CorpusError(f"{problem}: {HINT}", path=sentence.path, line=line, text=text)

r"""Sentences whose gold tags are not legal: refused with file and line, repaired, or dropped.

clean = mend_tags(corpus.read("train.conll"), on_bad_tags="repair")
print("\n".join(clean.notes))          # what was changed, the first ten changes by file and line
tagger.fit(clean.sentences)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

from trellis.errors import CorpusError, DataError
from trellis.tags import BadTag, Detection, Mended, OnBadTags, Scheme, detect, mend, refusal, summary
from trellis.tags.bad_tags import counted, named, spelling_note
from trellis.tags.detection import detect_pairs
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


def refuse_bad_tags(sentences: Iterable[Sentence], *, scheme: Scheme | None = None) -> Iterator[Sentence]:
    """The sentences as they come; once all are read, bad tags are refused.

    Memory does not grow with them: of each step from tag to tag, only the first sentence that has it is kept.
    """
    pairs: Counter[tuple[str, str]] = Counter()
    first: list[Sentence] = []
    for sentence in sentences:
        known = len(pairs)
        pairs.update(pairwise(("", *sentence.tags, "")) if sentence.tags else ())
        if len(pairs) > known:
            first.append(sentence)
        yield sentence
    found = detect_pairs(pairs, scheme=scheme)
    bad = mend([sentence.tags or () for sentence in first], found, "error").bad
    if bad:
        total = found.violations + sum(found.odd.values())
        _raise(f"{named(bad[0], found)}; {counted(total)}", bad[0], first[bad[0].sequence])


def place_of(sentence: Sentence, number: int, position: int) -> str:
    """A token by file and line, or else by sentence and position."""
    line = sentence.line_of(position)
    if line is None or sentence.path is None:
        return f"sentence {number}, position {position}"
    return f"{sentence.path}:{line}"


def _refuse(result: Mended, found: Detection, sentences: list[Sentence]) -> None:
    first = result.bad[0]
    place = place_of(sentences[first.sequence], first.sequence, first.position)
    whole = refusal(result, found, lambda *_: place)
    _raise(whole.removeprefix(f"{place}: "), first, sentences[first.sequence])


def _raise(problem: str, bad: BadTag, sentence: Sentence) -> NoReturn:
    line = sentence.line_of(bad.position)
    if line is None or sentence.path is None:
        raise DataError(f"{place_of(sentence, bad.sequence, bad.position)}: {problem}: {HINT}")
    text = f"{sentence.tokens[bad.position]} {bad.tag}"
    raise CorpusError(f"{problem}: {HINT}", path=sentence.path, line=line, text=text)

"""The conventions of a corpus, found from its tokens.

Each switch of `Conventions` is set to the value with which more tokens of the corpus come out right, and strings that
the rules get wrong again and again become exceptions. If a corpus has raw text, its tokens are compared with that text.
Without it, a text is made: tokens are joined by spaces, except those that are known to be written together.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from trellis.text.conventions import Conventions, pattern
from trellis.text.patterns import UNSPACED
from trellis.text.sentence import Sentence
from trellis.text.splitters import COMPOUND, WordSplitter

Chunk = tuple[str, tuple[str, ...]]  # what stands between white space, and its tokens
_MOST_SENTENCES = 20_000  # that are looked at
_MOST_CHUNKS = 20_000  # different ones, the most frequent
_MOST_EXCEPTIONS = 2_000
_COMMON = (
    0.2  # of the tokens with ideographs: a segmented corpus has far more, one of characters has some names at most
)
_LEAST_COUNT = 2  # of an exception

# What a chunk must contain for a switch to matter to it.
_SIGNS = {
    switch: re.compile(sign)
    for switch, sign in {
        "clitics": "['’]",
        "contractions": "(?i:cannot|gonna|wanna|gotta|gimme|lemme)",
        "hyphens": r"\w[-‐‑]\w",
        "prefixes": r"\w-\w",
        "slashes": r"\w/\w",
        "dots": r"\w\.\w",
        "ranges": r"\d-\d",
        "units": r"\d[^\W\d]",
        "percent": "%",
        "money": "[$£€¥]",
        "handles": "@",
        "hashtags": "#",
        "runs": r"([^\w\s])\1|[!?]{2}",
        "initials": r"\b[A-Z]\.",
        "abbreviations": r"[^\W\d]\.",
        "emoticons": r"[:;=8xX)(\]\[<^_]",
    }.items()
}
_SINGLE = re.compile(f"[{UNSPACED}]")
_OBVIOUS = re.compile(r"[^\W\d_]+")
# What is written together with the token before it, and with the token after it, if only the tokens are known.
_JOINS_LEFT = re.compile(r"n['’]t|['’](?:s|m|re|ve|ll|d)?|%|[.,;:!?)\]}]+|-|/|…", re.IGNORECASE)
_JOINS_RIGHT = re.compile(r"[$£€¥#@(\[{/-]")
_HALVES = {"can": "not", "gon": "na", "wan": "na", "got": "ta", "gim": "me", "lem": "me"}


def learned_words(sentences: Iterable[Sentence | Sequence[str]]) -> WordSplitter:
    """The splitter that agrees best with the tokens of these sentences."""
    counts = Counter(chunk for sentence in islice(sentences, _MOST_SENTENCES) for chunk in _chunks(sentence))
    hard = [(chunk, n) for chunk, n in counts.items() if not _is_easy(*chunk)]
    sample = sorted(hard, key=lambda item: -item[1])[:_MOST_CHUNKS]
    conventions = _best_conventions(sample)
    return WordSplitter(conventions, _exceptions(conventions, sample, counts), compounds=_has_compounds(counts))


def _has_compounds(counts: Counter[Chunk]) -> bool:
    """Whether words of several ideographs are common among the tokens with ideographs."""
    several = single = 0
    for (_, tokens), count in counts.items():
        several += count * sum(COMPOUND.search(token) is not None for token in tokens)
        single += count * sum(_SINGLE.fullmatch(token) is not None for token in tokens)
    return several > _COMMON * (several + single)


def _is_easy(chunk: str, tokens: tuple[str, ...]) -> bool:
    """Whether no convention could split this differently: one word of letters."""
    return len(tokens) == 1 and _OBVIOUS.fullmatch(chunk) is not None and not _SIGNS["contractions"].search(chunk)


def _chunks(sentence: Sentence | Sequence[str]) -> Iterator[Chunk]:
    """What stands between white space, with its tokens."""
    tokens = sentence.tokens if isinstance(sentence, Sentence) else sentence
    glued = _glued(sentence) if isinstance(sentence, Sentence) and sentence.offsets else _guessed(tokens)
    begin = 0
    for i, joined in enumerate([*glued, False], 1):
        if not joined:
            part = tuple(tokens[begin:i])
            chunk = "".join(map(str, part))
            if part and not any(character.isspace() for character in chunk):
                yield chunk, part
            begin = i


def _glued(sentence: Sentence) -> list[bool]:
    """Whether each token but the first touches the one before it, in a sentence with its text."""
    offsets = sentence.offsets or ()
    return [before[1] == after[0] for before, after in pairwise(offsets)]


def _guessed(tokens: Sequence[str]) -> list[bool]:
    """The same for tokens whose text is lost, as far as their looks tell."""
    return [_touch(str(left), str(right)) for left, right in pairwise(tokens)]


def _touch(left: str, right: str) -> bool:
    if _JOINS_LEFT.fullmatch(right):
        return left[-1:].isalnum() or (left[-1:] == right[:1] and not right.isalnum())
    if _JOINS_RIGHT.fullmatch(left):
        return right[:1].isalnum()
    return _HALVES.get(left.lower()) == right.lower()


def _best_conventions(sample: list[tuple[Chunk, int]]) -> Conventions:
    """Each switch in turn at the value that leaves fewer tokens wrong, or at its default if both are equally good."""
    best = Conventions()
    for switch, sign in _SIGNS.items():
        concerned = [item for item in sample if sign.search(item[0][0])]
        other = dataclasses.replace(best, **{switch: not getattr(best, switch)})
        if concerned and _wrong(other, concerned) < _wrong(best, concerned):
            best = other
    return best


def _wrong(conventions: Conventions, sample: list[tuple[Chunk, int]]) -> int:
    """How many tokens are missed or made up."""
    wrong = 0
    for (chunk, tokens), count in sample:
        found = tuple(pattern(conventions, chunk.isascii()).findall(chunk))
        if found != tokens:
            wrong += count * len(_places(found) ^ _places(tokens))
    return wrong


def _places(tokens: Sequence[str]) -> set[tuple[int, int]]:
    """Where the tokens of a chunk begin and end."""
    places, end = set(), 0
    for token in tokens:
        places.add((end, end + len(token)))
        end += len(token)
    return places


def _exceptions(
    conventions: Conventions, sample: list[tuple[Chunk, int]], counts: Counter[Chunk]
) -> dict[str, tuple[str, ...]]:
    """Strings that the rules split wrongly more often than rightly, and at least twice."""
    right, wrong = Counter[str](), Counter[Chunk]()
    for (chunk, tokens), count in sample:
        found = pattern(conventions, chunk.isascii()).findall(chunk)
        for one, other in _segments(found, tokens):
            if one == other:
                right["".join(one)] += count
            else:
                wrong["".join(other), other] += count
    chosen: dict[str, tuple[str, ...]] = {}
    for (text, tokens), count in wrong.most_common(_MOST_EXCEPTIONS):
        if count >= _LEAST_COUNT and count > right[text] + counts[text, (text,)] * (len(tokens) > 1):
            chosen.setdefault(text, tokens)
    return chosen


def _segments(found: Sequence[str], tokens: Sequence[str]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Two ways of splitting one text, cut at the boundaries that both have."""
    i = j = 0
    while i < len(found) and j < len(tokens):
        first, second = i + 1, j + 1
        left, right = len(found[i]), len(tokens[j])
        while left != right:
            if left < right:
                left, first = left + len(found[first]), first + 1
            else:
                right, second = right + len(tokens[second]), second + 1
        yield tuple(found[i:first]), tuple(tokens[j:second])
        i, j = first, second

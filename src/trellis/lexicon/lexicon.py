"""Entries that a person knows: a surface, the label of its spans if it is known, and how much it counts.

    >>> lexicon = Lexicon(["云计算", ("创新办", "ORG"), ("New York", "LOC", "must"), ("May", "PER", -1.5)])
    >>> len(lexicon), lexicon[2]
    (4, Entry(surface='New York', label='LOC', strength='must'))

There are three strengths. A number is *prefer*: a bonus in log odds for every occurrence that is a span of its own;
2.0 makes it e² = 7.4 times as probable against everything else, a negative number less probable. *must*: every
occurrence is a span. *feature*: a model that was trained with the lexicon has learned what an occurrence means.

Files have one entry per line, blank lines are ignored, and they may be compressed (.gz, .bz2, .xz, .zst):

    words    the line is a surface: 云计算, New York
    jieba    a user dictionary of jieba: word, frequency and tag, of which the last two may be missing: 创新办 3 i
    tsv      surface, label and strength between tabs; the last two may be missing or empty
    jsonl    {"surface": "New York", "label": "LOC", "strength": "must"}; spaCy's {"label": ..., "pattern": ...} too

A frequency f of jieba adds log f to the bonus of an entry that is preferred: twice as frequent, twice the odds.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from trellis import store
from trellis.arrays import Arrays, FloatArray, IntArray
from trellis.corpus import CorpusError, Source
from trellis.errors import DataError, StoreError, did_you_mean, number_of, shown, some_of
from trellis.lazy import cached
from trellis.lexicon.match import Boundaries, Folding, Matcher, Matches
from trellis.tags import Detection, detect, spans_from_sequences
from trellis.text import Sentence
from trellis.untrusted import Fields, JSONSyntaxError, parse_json

Strength = float | Literal["must", "feature"]
"""A number is the bonus of prefer, in log odds."""
PREFER = 2.0
"""The bonus of an entry that has none of its own."""
FEATURE_CODE, PREFER_CODE, MUST_CODE = range(3)
_CODES = {"feature": FEATURE_CODE, "must": MUST_CODE}
_KIND, _PREFIX = "lexicon", "lexicon."  # of files, and of the names of arrays
_JIEBA = re.compile(r"(?P<word>.+?)(?: (?P<count>\d{1,18}))?(?: (?P<tag>[a-z]+))?")
_SURELY_JIEBA = re.compile(r".* \d+(?: [a-z]+)?|[^\x00-\x7f]+ [a-z]{1,4}")
_SAMPLE = 1000  # lines that a format is recognised by
_NAMES: dict[int, Literal["must", "feature"]] = {FEATURE_CODE: "feature", MUST_CODE: "must"}
MOST = 1000.0
"""Log odds beyond this are refused: a bonus of that size is meant to be a must."""
Key = tuple[str, str | None]
"""Surface and label."""


class Entry(NamedTuple):
    """A surface that is known to be a span, with its label, None for any, and how much that counts."""

    surface: str
    label: str | None = None
    strength: Strength = PREFER


def parse_strength(text: str | float) -> Strength:
    """A strength as people write it: must, feature, prefer, prefer=2.5, or the number alone."""
    name, _, number = str(text).strip().lower().partition("=")
    if name in ("must", "feature") and not number:
        return "must" if name == "must" else "feature"
    if name == "prefer" and not number:
        return PREFER
    try:
        bonus = float(number if name == "prefer" else name)
    except ValueError:
        bonus = math.nan
    if not abs(bonus) <= MOST or (number and name != "prefer"):
        raise DataError(
            f"a strength must be must, feature, prefer, or prefer=NUMBER with log odds in -{MOST:g}..{MOST:g}, "
            f"got {shown(text)}"
        )
    return bonus


@dataclass(frozen=True, eq=False)
class Columns:
    """Entries as columns; a million of them take one list and four arrays."""

    surfaces: Sequence[str]
    labels: IntArray  # [E] index into `names`, -1 for none
    names: tuple[str, ...]
    codes: IntArray  # [E] of strengths
    bonus: FloatArray  # [E] log odds of prefer, else 0

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Columns:
        """Checked entries; of several with one surface and label the last counts."""
        rows = list(entries)
        last = {(surface, label): number for number, (surface, label, _) in enumerate(rows)}
        if len(last) < len(rows):
            rows = [rows[number] for number in sorted(last.values())]
        names = tuple(dict.fromkeys(label for _, label, _ in rows if label is not None))
        numbers: dict[str | None, int] = {name: number for number, name in enumerate(names)} | {None: -1}
        strengths = [strength for _, _, strength in rows]
        codes: list[int] = [_CODES.get(s, PREFER_CODE) for s in strengths]  # type: ignore[arg-type]
        return cls(
            [surface for surface, _, _ in rows],
            np.array([numbers[label] for _, label, _ in rows], dtype=np.int64),
            names,
            np.array(codes, dtype=np.int64),
            np.array([0.0 if isinstance(s, str) else s for s in strengths], dtype=np.float64),
        )


class Lexicon:
    """Words and names with what is known about them, found in sentences by an Aho-Corasick automaton.

    Args:
        entries: surfaces, or tuples (surface, label, strength) of which the end may be missing.
        strength: of entries that have none of their own: "must", "feature", "prefer=2.5", or the number.
        fold_case: find entries in any case.
        fold_width: full-width and half-width forms are the same.
        boundaries: "token": occurrences begin and end with tokens, and never inside a run of Latin letters or digits,
            also where each character is a token; "character": anywhere between tokens.

    """

    def __init__(
        self,
        entries: Iterable[str | Sequence[Any]] = (),
        *,
        strength: Strength | str = PREFER,
        fold_case: bool = False,
        fold_width: bool = True,
        boundaries: Boundaries = "token",
    ) -> None:
        default = parse_strength(strength)
        if isinstance(entries, str | bytes | Mapping):
            raise DataError(f"entries must be surfaces or tuples (surface, label, strength), got {shown(entries)}")
        if boundaries not in ("token", "character"):
            raise DataError(f"boundaries must be 'token' or 'character', got {shown(boundaries)}")
        self.columns = Columns.of(_checked(number, item, default) for number, item in enumerate(entries))
        self.folding, self.boundaries = Folding(fold_case, fold_width), boundaries

    def _with_columns(self, columns: Columns) -> Self:
        """A lexicon with the same options and other entries, which are checked already."""
        lexicon = type(self)(fold_case=self.folding.case, fold_width=self.folding.width, boundaries=self.boundaries)
        lexicon.columns = columns
        return lexicon

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        format: str | None = None,
        strength: Strength | str = PREFER,
        label: str | None = None,
        encoding: str = "utf-8",
        **options: Any,
    ) -> Self:
        """Entries of a file: words, jieba, tsv or jsonl, recognised unless `format` says which.

        `strength` and `label` are those of entries that have none of their own; `options` are those of the
        constructor. See the module for the formats.
        """
        entries = read_entries(path, format, parse_strength(strength), label, encoding).entries
        return cls(**options)._with_columns(Columns.of(entries))

    @classmethod
    def from_corpus(
        cls, sentences: Iterable[Any], *, min_count: int = 1, strength: Strength | str = "feature", **options: Any
    ) -> Self:
        """The spans of sentences with tags, with their labels, that occur at least `min_count` times."""
        sentences, tags = list(sentences), []
        for number, item in enumerate(sentences):
            if not isinstance(item, Sentence) or item.tags is None:
                raise DataError(f"sentence {number} has no tags: a lexicon is learned from sentences with tags")
            tags.append(list(item.tags))
        counts: Counter[Key] = Counter(chain.from_iterable(spans_with_surfaces(sentences, tags, detect(tags))))
        parsed = parse_strength(strength)
        entries = (Entry(*key, parsed) for key, count in counts.items() if count >= min_count)
        return cls(**options)._with_columns(Columns.of(entries))

    def __or__(self, other: Lexicon) -> Lexicon:
        """The entries of both; where both have a surface with the same label, that of the other counts."""
        if not isinstance(other, Lexicon):
            return NotImplemented
        if (self.folding, self.boundaries) != (other.folding, other.boundaries):
            raise DataError(
                "lexicons that are joined must have the same folding and boundaries, "
                f"got {self.folding}, {self.boundaries!r} and {other.folding}, {other.boundaries!r}"
            )
        return self._with_columns(Columns.of([*self, *other]))

    def with_strength(self, strength: Strength | str) -> Lexicon:
        """A lexicon of the same entries, all with this strength."""
        parsed, size = parse_strength(strength), len(self)
        code = _CODES.get(parsed, PREFER_CODE)  # type: ignore[arg-type]
        bonus = np.full(size, 0.0 if isinstance(parsed, str) else parsed)
        return self._with_columns(replace(self.columns, codes=np.full(size, code, dtype=np.int64), bonus=bonus))

    def __len__(self) -> int:
        return len(self.columns.surfaces)

    def __getitem__(self, number: int) -> Entry:
        c = self.columns
        label, code = int(c.labels[number]), int(c.codes[number])
        strength = _NAMES.get(code, float(c.bonus[number]))
        return Entry(c.surfaces[number], None if label < 0 else c.names[label], strength)

    def __iter__(self) -> Iterator[Entry]:
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        some = some_of([repr(surface) for surface in self.columns.surfaces[:4]], 3)
        return f"Lexicon({number_of(len(self), 'entry', 'entries')}: {some})"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that entries have."""
        return self.columns.names

    @property
    def feature_labels(self) -> tuple[str | None, ...]:
        """The labels of the entries that are features, None for those without."""
        used = np.unique(self.columns.labels[self.columns.codes == FEATURE_CODE]).tolist()
        return tuple(None if label < 0 else self.columns.names[label] for label in used)

    @cached
    def has_features(self) -> bool:
        """Whether there are entries to learn from."""
        return bool((self.columns.codes == FEATURE_CODE).any())

    @cached
    def has_spans(self) -> bool:
        """Whether there are entries that prefer or must."""
        return bool((self.columns.codes != FEATURE_CODE).any())

    def find(self, sentence: Any) -> list[tuple[int, int, Entry]]:
        """The occurrences in one sentence or token list: first token, one behind the last, and the entry."""
        matches = self.matches([sentence])
        return [(i, j, self[e]) for i, j, e in zip(*(x.tolist() for x in matches[1:]), strict=True)]

    def matches(self, sentences: Sequence[Any]) -> Matches:
        """All occurrences in all sentences."""
        return self.matcher.matches(sentences)

    @cached
    def matcher(self) -> Matcher:
        """The automaton, built when it is first needed."""
        return Matcher.of(self.columns.surfaces, self.folding, self.boundaries)

    def save(self, path: str | Path) -> None:
        """Write the lexicon to one file, as models are written."""
        manifest, arrays = self.to_stored()
        store.save(path, _KIND, {_KIND: manifest}, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Lexicon:
        """Open a lexicon that `save` wrote."""
        return cls.from_stored(store.load(path, _KIND))

    def to_stored(self) -> tuple[dict[str, Any], Arrays]:
        """Manifest and arrays, for the file of a model; the names of the arrays begin with ``lexicon.``."""
        c, folding = self.columns, self.folding
        arrays: Arrays = {
            **store.pack_strings(f"{_PREFIX}surfaces", list(c.surfaces)),
            f"{_PREFIX}labels": c.labels.astype(np.int32),
            f"{_PREFIX}strengths": c.codes.astype(np.uint8),
            f"{_PREFIX}bonus": c.bonus,
        }
        how = {"fold_case": folding.case, "fold_width": folding.width, "boundaries": self.boundaries}
        return {"labels": list(c.names), **how}, arrays

    @classmethod
    def from_stored(cls, stored: store.Stored) -> Self:
        """The inverse of `to_stored`, whose manifest is a field of the file's, for a file that may contain anything."""
        fields = stored.manifest.table(_KIND)
        surfaces, names = stored.strings(f"{_PREFIX}surfaces"), fields.texts("labels")
        size = (len(surfaces),)
        for number, surface in enumerate(surfaces):
            if not surface.strip():
                raise StoreError(f"{stored.where}: entry {number} of the lexicon has no surface")
        columns = Columns(
            surfaces,
            stored.array(f"{_PREFIX}labels", np.int32, size, -1, len(names) - 1).astype(np.int64),
            names,
            stored.array(f"{_PREFIX}strengths", np.uint8, size, FEATURE_CODE, MUST_CODE).astype(np.int64),
            stored.array(f"{_PREFIX}bonus", np.float64, size, -MOST, MOST),
        )
        how: dict[str, Any] = {name: fields.value(name, bool) for name in ("fold_case", "fold_width")}
        try:
            return cls(**how, boundaries=fields.text("boundaries"))._with_columns(columns)  # type: ignore[arg-type]
        except DataError as error:
            raise StoreError(f"{stored.where}: {error}") from None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "matcher"}


def _check_surface(surface: Any) -> None:
    """Refuse what cannot be found in any text."""
    if not isinstance(surface, str):
        raise DataError(f"a surface must be a string, got {shown(surface)}")
    if not surface.strip():
        raise DataError("the surface is empty")


def _checked(number: int, item: str | Sequence[Any], default: Strength) -> Entry:
    parts = (item,) if isinstance(item, str) else tuple(item) if isinstance(item, Sequence) else ()
    if not 1 <= len(parts) <= 3:
        raise DataError(f"entry {number} must be (surface, label, strength), got {shown(item)}")
    surface, label, strength = (*parts, None, None)[:3]
    try:
        _check_surface(surface)
        if not (label is None or isinstance(label, str)):
            raise DataError(f"a label must be a string or None, got {shown(label)}")
    except DataError as error:
        raise DataError(f"entry {number}: {error}") from None
    try:
        return Entry(surface, label or None, default if strength is None else parse_strength(strength))
    except DataError as error:
        raise DataError(f"entry {number}, {shown(surface)}: {error}") from None


def spans_with_surfaces(inputs: Sequence[Any], tags: Sequence[Sequence[str]], how: Detection) -> list[list[Key]]:
    """The surfaces and labels of the spans of each input."""
    spans = spans_from_sequences(tags, how.scheme, style=how.style)
    return [
        [(surface(item, span.start, span.end), span.label or None) for span in of_input]
        for item, of_input in zip(inputs, spans, strict=True)
    ]


def surface(item: Any, start: int, end: int) -> str:
    """The tokens of a span as one string: as in the text, if there is one, else with blanks unless all are characters.

    >>> surface(["New", "York", "is", "big"], 0, 2), surface(["北", "京", "大"], 0, 2)
    ('New York', '北京')
    """
    tokens = item.tokens if isinstance(item, Sentence) else item
    if isinstance(item, Sentence) and item.text is not None and item.offsets is not None:
        return item.text[item.offsets[start][0] : item.offsets[end - 1][1]]
    separator = "" if all(len(token) == 1 for token in tokens) else " "
    return separator.join(tokens[start:end])


@dataclass(frozen=True)
class Reading:
    """The entries of a file, and the format in which it was read, with the reason."""

    entries: list[Entry]
    format: str
    reason: str


def read_entries(
    path: str | Path, format: str | None, strength: Strength, label: str | None, encoding: str = "utf-8"
) -> Reading:
    """All entries of a file; `strength` and `label` are for those that have none of their own."""
    if format is not None and format not in FORMATS:
        hint = did_you_mean(format, FORMATS)
        raise DataError(f"unknown format of lexicons {format!r}: expected one of {', '.join(FORMATS)}{hint}")
    source = Source(path, encoding=encoding)
    name, reason = (format, "it was asked for") if format is not None else _recognised(source)
    parse_line = FORMATS[name]
    entries: list[Entry] = []
    for number, line in source.lines():
        text = line.strip("\r\n\ufeff ")
        if not text.strip():
            continue
        try:
            surface, label_in_line, strength_in_line = parse_line(text, strength)
            _check_surface(surface)
        except DataError as error:
            raise CorpusError(str(error), path=source.name, line=number, text=line) from None
        entries.append(Entry(surface, label_in_line or label, strength_in_line))
    return Reading(entries, name, reason)


Parsed = tuple[str, str | None, Strength]


def _jieba(line: str, strength: Strength) -> Parsed:
    match = _JIEBA.fullmatch(line.strip())
    assert match is not None, "a line that is not blank has a word"
    count = int(match["count"] or 1)
    bonus = strength if isinstance(strength, str) else min(strength + math.log(max(count, 1)), MOST)
    return match["word"], match["tag"], bonus


def _tsv(line: str, strength: Strength) -> Parsed:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) > 3:
        raise DataError(f"expected surface, label and strength between tabs, got {len(cells)} cells")
    surface, label, given = (*cells, "", "")[:3]
    return surface, label or None, parse_strength(given) if given else strength


def _json(line: str, strength: Strength) -> Parsed:
    try:
        fields = Fields(parse_json(line), "the entry", DataError)
    except JSONSyntaxError as error:
        raise DataError(f"expected JSON: {error}") from None
    name = "pattern" if "pattern" in fields and "surface" not in fields else "surface"
    label = fields.value("label", str, type(None)) if "label" in fields else None
    given: Any = fields.value("strength", str, int, float, type(None)) if "strength" in fields else None
    return fields.text(name), label, strength if given is None else parse_strength(given)


FORMATS: dict[str, Callable[[str, Strength], Parsed]] = {
    "words": lambda line, strength: (line, None, strength),
    "jieba": _jieba,
    "tsv": _tsv,
    "jsonl": _json,
}


def _recognised(source: Source) -> tuple[str, str]:
    """The format of a file by its name, else by its first lines, and why."""
    stem, suffix = os.path.splitext(os.fspath(source.path).lower())
    for ending, name in ((".jsonl", "jsonl"), (".ndjson", "jsonl"), (".tsv", "tsv")):
        if suffix == ending or stem.endswith(ending):  # then the suffix is that of a compression
            return name, f"its name has {ending}"
    lines = [line for line in source.head.split("\n")[:_SAMPLE] if line.strip()]
    if lines and lines[0].lstrip("\ufeff ").startswith("{"):
        return "jsonl", "its first line begins with {"
    if any("\t" in line for line in lines):
        return "tsv", "it has tabs"
    example = next((line for line in lines if _SURELY_JIEBA.fullmatch(line.strip("\r\ufeff "))), None)
    if example is not None:
        return "jieba", f"it has a line with a frequency or a tag: {example.strip()[:40]!r}"
    return "words", "each line is one surface"

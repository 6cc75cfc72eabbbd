"""What a person knows about words: a surface, the label of its spans if it is known, and how much it counts.

    >>> lexicon = Lexicon(["云计算", ("创新办", "ORG"), ("New York", "LOC", "must"), ("May", "PER", -1.5)])
    >>> len(lexicon), lexicon[2]
    (4, Entry(surface='New York', label='LOC', strength='must'))

There are three strengths. A number is *prefer*: a bonus in log odds for every occurrence that is a span of its own;
2.0 makes it e² = 7.4 times as probable against everything else, a negative number less probable. *must*: every
occurrence is a span. *feature*: a model that was trained with the lexicon has learned what an occurrence means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from trellis.arrays import FloatArray, IntArray
from trellis.errors import DataError, number_of, shown
from trellis.lazy import cached
from trellis.lexicon.matching import Boundaries, Folding, Matcher, Matches

Strength = float | Literal["must", "feature"]
"""A number is the bonus of prefer, in log odds."""
PREFER = 2.0
"""The bonus of an entry that has none of its own."""
FEATURE_CODE, PREFER_CODE, MUST_CODE = range(3)
_CODES = {"feature": FEATURE_CODE, "must": MUST_CODE}
_NAMES: dict[int, Literal["must", "feature"]] = {FEATURE_CODE: "feature", MUST_CODE: "must"}
MOST = 1000.0
"""Log odds beyond this are refused: a bonus of that size is meant to be a must."""


class Entry(NamedTuple):
    """What is known about a surface; without a label, that it is a span of any type."""

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
        last = {(entry[0], entry[1]): number for number, entry in enumerate(rows)}
        kept = rows if len(last) == len(rows) else [rows[number] for number in sorted(last.values())]
        names = tuple(dict.fromkeys(label for _, label, _ in kept if label is not None))
        numbers: dict[str | None, int] = {name: number for number, name in enumerate(names)} | {None: -1}
        size = len(kept)
        strengths = [strength for _, _, strength in kept]
        codes = np.fromiter((_CODES.get(s, PREFER_CODE) for s in strengths), np.int64, size)  # type: ignore[arg-type]
        bonus = np.fromiter((0.0 if isinstance(s, str) else s for s in strengths), np.float64, size)
        labels = np.fromiter((numbers[label] for _, label, _ in kept), np.int64, size)
        return cls([surface for surface, _, _ in kept], labels, names, codes, bonus)


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
        checked = (_checked(number, item, default) for number, item in enumerate(entries))
        self._set(Columns.of(checked), Folding(fold_case, fold_width), boundaries)

    @classmethod
    def of_columns(cls, columns: Columns, folding: Folding, boundaries: Boundaries) -> Self:
        """A lexicon of entries that are checked already."""
        lexicon = cls.__new__(cls)
        lexicon._set(columns, folding, boundaries)
        return lexicon

    def _set(self, columns: Columns, folding: Folding, boundaries: Boundaries) -> None:
        if boundaries not in ("token", "character"):
            raise DataError(f"boundaries must be 'token' or 'character', got {shown(boundaries)}")
        self.columns, self.folding, self.boundaries = columns, folding, boundaries

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
        constructor. See `trellis.lexicon.reading` for the formats.
        """
        from trellis.lexicon.reading import read_entries

        entries = read_entries(path, format, parse_strength(strength), label, encoding).entries
        return cls._of(entries, **options)

    @classmethod
    def from_corpus(
        cls, sentences: Iterable[Any], *, min_count: int = 1, strength: Strength | str = "feature", **options: Any
    ) -> Self:
        """The spans of sentences with tags, with their labels, that occur at least `min_count` times."""
        from trellis.lexicon.learning import spans_of_corpus

        own, counts = parse_strength(strength), spans_of_corpus(sentences)
        return cls._of([Entry(*key, own) for key, count in counts.items() if count >= min_count], **options)

    @classmethod
    def _of(
        cls,
        entries: Iterable[Entry],
        *,
        fold_case: bool = False,
        fold_width: bool = True,
        boundaries: Boundaries = "token",
    ) -> Self:
        return cls.of_columns(Columns.of(entries), Folding(fold_case, fold_width), boundaries)

    def __or__(self, other: Lexicon) -> Lexicon:
        """The entries of both; where both have a surface with the same label, that of the other counts."""
        if not isinstance(other, Lexicon):
            return NotImplemented
        if (self.folding, self.boundaries) != (other.folding, other.boundaries):
            raise DataError(
                "lexicons that are joined must have the same folding and boundaries, "
                f"got {self.folding}, {self.boundaries!r} and {other.folding}, {other.boundaries!r}"
            )
        return Lexicon.of_columns(Columns.of([*self, *other]), self.folding, self.boundaries)

    def with_strength(self, strength: Strength | str) -> Lexicon:
        """The same entries, all with this strength."""
        own, size = parse_strength(strength), len(self)
        code = _CODES.get(own, PREFER_CODE)  # type: ignore[arg-type]
        bonus = np.full(size, 0.0 if isinstance(own, str) else own)
        columns = replace(self.columns, codes=np.full(size, code, dtype=np.int64), bonus=bonus)
        return Lexicon.of_columns(columns, self.folding, self.boundaries)

    def __len__(self) -> int:
        """How many entries."""
        return len(self.columns.surfaces)

    def __getitem__(self, number: int) -> Entry:
        """The entry with this number."""
        c = self.columns
        label, code = int(c.labels[number]), int(c.codes[number])
        strength = _NAMES.get(code, float(c.bonus[number]))
        return Entry(c.surfaces[number], None if label < 0 else c.names[label], strength)

    def __iter__(self) -> Iterator[Entry]:
        """All entries."""
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        """How many entries, and the first."""
        some = ", ".join(repr(entry.surface) for entry, _ in zip(self, range(3), strict=False))
        return f"Lexicon({number_of(len(self), 'entry', 'entries')}: {some}{', ...' if len(self) > 3 else ''})"

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
        found = self.matches([sentence])
        return [(i, j, self[e]) for i, j, e in zip(*(x.tolist() for x in found[1:]), strict=True)]

    def matches(self, sentences: Sequence[Any]) -> Matches:
        """All occurrences in all sentences."""
        return self.matcher.matches(sentences)

    @cached
    def matcher(self) -> Matcher:
        """The automaton, built when it is first needed."""
        return Matcher.of(self.columns.surfaces, self.folding, self.boundaries)

    def save(self, path: str | Path) -> None:
        """Write the lexicon to one file, as models are written."""
        from trellis.lexicon.storage import save

        save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Lexicon:
        """Open a lexicon that `save` wrote."""
        from trellis.lexicon.storage import load

        return load(path)

    def __getstate__(self) -> dict[str, Any]:
        """Without the automaton, which is built again."""
        return {name: value for name, value in vars(self).items() if name != "matcher"}


def check_surface(surface: Any) -> str:
    """Why a surface cannot be found in any text; empty if it can."""
    if not isinstance(surface, str):
        return f"a surface must be a string, got {shown(surface)}"
    return "" if surface.strip() else "the surface is empty"


def _checked(number: int, item: str | Sequence[Any], strength: Strength) -> Entry:
    parts = (item,) if isinstance(item, str) else tuple(item) if isinstance(item, Sequence) else ()
    if not 1 <= len(parts) <= 3:
        raise DataError(f"entry {number} must be (surface, label, strength), got {shown(item)}")
    surface, label, own = (*parts, None, None)[:3] if len(parts) < 3 else parts
    problem = check_surface(surface)
    if not problem and not (label is None or isinstance(label, str)):
        problem = f"a label must be a string or None, got {shown(label)}"
    if problem:
        raise DataError(f"entry {number}: {problem}")
    try:
        return Entry(surface, label or None, strength if own is None else parse_strength(own))
    except DataError as error:
        raise DataError(f"entry {number}, {shown(surface)}: {error}") from None

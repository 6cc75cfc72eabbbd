"""The scheme that tags are written in, and those among them that do not fit it.

    >>> found = detect([["B-PER", "I-PER", "o"], ["O", "B-LOC", "O"]])
    >>> found.scheme, found.odd
    (<Scheme.IOB2: 'IOB2'>, {'o': 1})

A few labels that no scheme can read, typing errors say, do not make all the others plain: they are *odd* labels of the
scheme that fits nearly all. Where nearly all labels are spelled in another way (``b-per``, ``B_PER``, ``0``), that is
the *spelling* of the corpus, and ``Detection.spelling`` says how each label is written here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trellis import _native
from trellis.errors import TagError
from trellis.tags.scheme import ALL_LETTERS, SEPARATOR, Role, Scheme, Style, legal_steps, split_label
from trellis.tags.spans import parse_label

Pairs = Mapping[tuple[str, str], int]
"""How often each label follows each other one; the edge of a sequence is ``""``."""

MOST_ODD = 0.1
"""The share of odd labels, among those that are not O, up to which they are taken for mistakes."""

_OUTSIDE = ("O", "o", "0")
_PREFIXED = re.compile(r"([A-Za-z])[-_:.](.+)", re.DOTALL)
_SUFFIXED = re.compile(r"(.+)[-_:.]([A-Za-z])", re.DOTALL)


@dataclass(frozen=True)
class SchemeFit:
    """How well a scheme fits a corpus: ``violations`` steps are illegal in it, ``odd`` labels it cannot read."""

    scheme: Scheme
    style: Style
    violations: int
    unused: int  # roles of the scheme that never occur
    odd: Mapping[str, int] = field(default_factory=dict)  # label -> how often

    @property
    def rank(self) -> tuple[int, int, int, bool]:
        """The smaller, the better the scheme fits."""
        odd = sum(self.odd.values())
        return self.violations + odd, odd, self.unused, self.scheme is not Scheme.IOB2


@dataclass(frozen=True)
class Detection:
    """The scheme of a corpus, and what in it is not as it should be."""

    scheme: Scheme
    style: Style
    violations: int
    """Steps that are illegal in the scheme, odd labels apart."""
    odd: Mapping[str, int]
    """Labels that the scheme cannot read, with how often they occur."""
    spelling: Mapping[str, str]
    """Label as it is in the corpus -> as the scheme writes it; empty where all are written so."""

    @property
    def is_clean(self) -> bool:
        """Whether every tag is legal as it stands."""
        return not (self.violations or self.odd)


def detect(
    sequences: Iterable[Sequence[str]], *, scheme: Scheme | None = None, style: Style | None = None
) -> Detection:
    """The scheme and the style that fit best unless they are given, and the labels that do not fit them."""
    return detect_pairs(count_pairs(sequences), scheme=scheme, style=style)


def detect_pairs(pairs: Pairs, *, scheme: Scheme | None = None, style: Style | None = None) -> Detection:
    """The same, from how often each label follows another one, which is all that matters; see `count_pairs`."""
    counts = _counts(pairs)
    best = _best(pairs, counts, scheme, style)
    if scheme is Scheme.PLAIN or _is_mostly_read(best, counts):
        return _detection(best, {})
    spelling = {label: spelled for label in counts if (spelled := respelled(label)) not in (None, label)}
    respelled_pairs = _respelled(pairs, spelling)
    other = _best(respelled_pairs, _counts(respelled_pairs), scheme, style)
    if not _is_mostly_read(other, _counts(respelled_pairs)):
        return _detection(best, {}) if scheme else Detection(Scheme.PLAIN, best.style, 0, {}, {})
    if not _is_rule(spelling, counts):
        return _detection(_fit(pairs, counts, other.scheme, other.style), {})
    return _detection(other, spelling)


def respelled(label: str) -> str | None:
    """The label as a scheme writes it, where it is only written in another way: ``b_PER`` is B-PER, 0 is O."""
    bare = label.strip()
    if bare in _OUTSIDE:
        return "O"
    if len(bare) == 1:
        return bare.upper() if bare.upper() in ALL_LETTERS else None
    match, suffixed = _PREFIXED.fullmatch(bare), _SUFFIXED.fullmatch(bare)
    if match and match[1].upper() in ALL_LETTERS and match[1].upper() != "O":
        return f"{match[1].upper()}{SEPARATOR}{match[2]}"
    if suffixed and suffixed[2].upper() in ALL_LETTERS and suffixed[2].upper() != "O":
        return f"{suffixed[1]}{SEPARATOR}{suffixed[2].upper()}"
    return None


def detect_style(labels: Iterable[str]) -> Style:
    """PREFIX unless only SUFFIX can read all these labels, or reads more of them."""
    distinct = list(labels)
    prefixed, suffixed = (sum(_is_readable(label, style) for label in distinct) for style in Style)
    return Style.SUFFIX if suffixed > prefixed else Style.PREFIX


def _is_readable(label: str, style: Style) -> bool:
    try:
        return split_label(label, style)[0] in ALL_LETTERS
    except TagError:
        return False


def fit_schemes(sequences: Iterable[Sequence[str]], *, style: Style | None = None) -> list[SchemeFit]:
    """Each scheme that can read all labels, with its illegal steps: fewest first, then fewest unused roles, then IOB2.

    PLAIN reads anything, so it comes last and never fails.
    """
    pairs = count_pairs(sequences)
    counts = _counts(pairs)
    style = style or detect_style(counts)
    fits = [_fit(pairs, counts, scheme, style) for scheme in Scheme if scheme is not Scheme.PLAIN]
    ranked = sorted((fit for fit in fits if not fit.odd), key=lambda fit: fit.rank)
    return [*ranked, SchemeFit(Scheme.PLAIN, style, 0, 0)]


class NumberedLabels:
    """Labels as numbers, from 1 in the order of their first occurrence, with a 0 after each sequence."""

    def __init__(self, sequences: Iterable[Sequence[str]]) -> None:
        numbers = _Numbers()
        self.codes = _native.number_strings(sequences, numbers)
        self.names: list[str] = list(numbers)
        """The label with number i + 1."""

    def pairs(self) -> dict[tuple[str, str], int]:
        """How often each label follows another one; the empty string stands before and after a sequence."""
        names, found = ["", *self.names], dict[tuple[str, str], int]()
        before, after, counts = (array.tolist() for array in _native.count_steps(self.codes))
        for i, j, count in zip(before, after, counts, strict=True):
            pair = names[i], names[j]
            found[pair] = found.get(pair, 0) + count
        return found


class _Numbers(dict[Any, int]):
    """A table for `number_strings` that gives a label its number when it is met first."""

    def __missing__(self, label: Any) -> int:
        """The next number."""
        number = self[label] = len(self) + 1
        return number


def count_pairs(sequences: Iterable[Sequence[str]]) -> dict[tuple[str, str], int]:
    """How often each label follows another one; the empty string stands before and after a sequence."""
    return NumberedLabels(sequences).pairs()


def _counts(pairs: Pairs) -> Counter[str]:
    """How often each label occurs: as often as it follows something."""
    counts: Counter[str] = Counter()
    for (_, label), count in pairs.items():
        if label:
            counts[label] += count
    return counts


def _best(pairs: Pairs, counts: Counter[str], scheme: Scheme | None, style: Style | None) -> SchemeFit:
    schemes = [known for known in Scheme if known is not Scheme.PLAIN] if scheme is None else [scheme]
    chosen = style or detect_style(counts)
    return min((_fit(pairs, counts, known, chosen) for known in schemes), key=lambda fit: fit.rank)


def _is_mostly_read(fit: SchemeFit, counts: Counter[str]) -> bool:
    """Whether the odd labels are few among those that are not O."""
    return sum(fit.odd.values()) <= MOST_ODD * (counts.total() - counts["O"])


def _is_rule(spelling: Mapping[str, str], counts: Counter[str]) -> bool:
    """Whether at least half of the labels of spans, or of those outside, are spelled so; else they are exceptions."""
    spelled, total = Counter[bool](), Counter[bool]()
    for label, count in counts.items():
        is_outside = label in _OUTSIDE
        total[is_outside] += count
        spelled[is_outside] += count if label in spelling else 0
    return any(2 * spelled[group] >= total[group] for group in total)


def _respelled(pairs: Pairs, spelling: Mapping[str, str]) -> Pairs:
    result: Counter[tuple[str, str]] = Counter()
    for (before, after), count in pairs.items():
        result[spelling.get(before, before), spelling.get(after, after)] += count
    return result


def _detection(fit: SchemeFit, spelling: Mapping[str, str]) -> Detection:
    return Detection(fit.scheme, fit.style, fit.violations, fit.odd, spelling)


def _fit(pairs: Pairs, counts: Counter[str], scheme: Scheme, style: Style) -> SchemeFit:
    parsed = {label: read for label in counts if (read := _parsed(label, scheme, style))} | {"": (Role.O, "")}
    legal = legal_steps(scheme)
    violations = 0
    for (before, after), count in pairs.items():
        if before in parsed and after in parsed:
            (left, left_kind), (right, right_kind) = parsed[before], parsed[after]
            violations += 0 if legal[left, right, int(left_kind == right_kind)] else count
    unused = {*scheme.letters.values()} - {role for role, _ in parsed.values()}
    odd = {label: count for label, count in counts.items() if label not in parsed}
    return SchemeFit(scheme, style, violations, len(unused), odd)


def _parsed(label: str, scheme: Scheme, style: Style) -> tuple[Role, str] | None:
    try:
        return parse_label(label, scheme, style)
    except TagError:
        return None

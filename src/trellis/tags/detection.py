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
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trellis import _native
from trellis.tags.scheme import ALL_LETTERS, SEPARATOR, Role, Scheme, Style, legal_steps
from trellis.tags.spans import try_parse_label

Pairs = Mapping[tuple[str, str], int]
"""How often each label follows each other one; the edge of a sequence is ``""``."""

MOST_ODD = 0.1
"""If at most this share of the labels other than O does not fit a scheme, these labels are mistakes."""

_OUTSIDE = ("O", "o", "0")
_PREFIXED = re.compile(r"([A-Za-z])[-_:.](.+)", re.DOTALL)
_SUFFIXED = re.compile(r"(.+)[-_:.]([A-Za-z])", re.DOTALL)


@dataclass(frozen=True)
class Detection:
    """How well a scheme fits a corpus, and what in the corpus is not as it should be."""

    scheme: Scheme
    style: Style
    violations: int = 0
    """Steps that are illegal in the scheme, odd labels apart."""
    odd: Mapping[str, int] = field(default_factory=dict)
    """Labels that the scheme cannot read, with how often they occur."""
    spelling: Mapping[str, str] = field(default_factory=dict)
    """Label as it is in the corpus -> as the scheme writes it; empty where all are written so."""
    unused: int = 0
    """Roles of the scheme that never occur."""

    @property
    def is_clean(self) -> bool:
        """Whether every tag is legal as it stands."""
        return not (self.violations or self.odd)

    @property
    def rank(self) -> tuple[int, int, int, bool]:
        """The smaller, the better the scheme fits."""
        odd = sum(self.odd.values())
        return self.violations + odd, odd, self.unused, self.scheme is not Scheme.IOB2


def detect(
    sequences: Iterable[Sequence[str]], *, scheme: Scheme | None = None, style: Style | None = None
) -> Detection:
    """The scheme and the style that fit best unless they are given, and the labels that do not fit them."""
    return detect_pairs(NumberedLabels(sequences).pairs(), scheme=scheme, style=style)


def detect_pairs(pairs: Pairs, *, scheme: Scheme | None = None, style: Style | None = None) -> Detection:
    """The scheme that fits best, from how often each label follows another one: see `NumberedLabels.pairs`."""
    counts = _counts(pairs)
    best = _best(pairs, counts, scheme, style)
    if scheme is Scheme.PLAIN or _is_mostly_read(best, counts):
        return best
    spelling = {label: spelled for label in counts if (spelled := respelled(label)) not in (None, label)}
    in_scheme: Counter[tuple[str, str]] = Counter()
    for (left, right), count in pairs.items():
        in_scheme[spelling.get(left, left), spelling.get(right, right)] += count
    other = _best(in_scheme, _counts(in_scheme), scheme, style)
    if not _is_mostly_read(other, _counts(in_scheme)):
        return best if scheme else Detection(Scheme.PLAIN, best.style)
    # It is the spelling of the corpus if half of the labels of spans, or of those outside, have it: else exceptions.
    spelled_counts, total = Counter[bool](), Counter[bool]()
    for label, count in counts.items():
        total[label in _OUTSIDE] += count
        spelled_counts[label in _OUTSIDE] += count if label in spelling else 0
    if any(2 * spelled_counts[group] >= total[group] for group in total):
        return replace(other, spelling=spelling)
    return _fit(pairs, counts, other.scheme, other.style)


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
    prefixed, suffixed = (sum(try_parse_label(label, None, style) is not None for label in distinct) for style in Style)
    return Style.SUFFIX if suffixed > prefixed else Style.PREFIX


def fit_schemes(sequences: Iterable[Sequence[str]]) -> list[Detection]:
    """Each scheme that can read all labels, with its illegal steps: fewest first, then fewest unused roles, then IOB2.

    PLAIN reads anything, so it comes last and never fails.
    """
    pairs = NumberedLabels(sequences).pairs()
    counts = _counts(pairs)
    style = detect_style(counts)
    fits = [_fit(pairs, counts, scheme, style) for scheme in Scheme if scheme is not Scheme.PLAIN]
    ranked = sorted((fit for fit in fits if not fit.odd), key=lambda fit: fit.rank)
    return [*ranked, Detection(Scheme.PLAIN, style)]


class NumberedLabels:
    """Labels as numbers, from 1 in the order of their first occurrence, with a 0 after each sequence."""

    def __init__(self, sequences: Iterable[Sequence[str]]) -> None:
        numbers = defaultdict[Any, int]()
        numbers.default_factory = lambda: len(numbers) + 1
        self.codes = _native.number_strings(sequences, numbers)
        self.names: list[str] = list(numbers)
        """The label with number i + 1."""

    def pairs(self) -> dict[tuple[str, str], int]:
        """How often each label follows another one; the empty string stands before and after a sequence."""
        names, pairs = ["", *self.names], Counter[tuple[str, str]]()
        for i, j, count in zip(*(array.tolist() for array in _native.count_steps(self.codes)), strict=True):
            pairs[names[i], names[j]] += count
        return dict(pairs)


def _counts(pairs: Pairs) -> Counter[str]:
    """How often each label occurs: as often as it follows something."""
    counts: Counter[str] = Counter()
    for (_, label), count in pairs.items():
        if label:
            counts[label] += count
    return counts


def _best(pairs: Pairs, counts: Counter[str], scheme: Scheme | None, style: Style | None) -> Detection:
    schemes = [known for known in Scheme if known is not Scheme.PLAIN] if scheme is None else [scheme]
    chosen = style or detect_style(counts)
    return min((_fit(pairs, counts, known, chosen) for known in schemes), key=lambda fit: fit.rank)


def _is_mostly_read(fit: Detection, counts: Counter[str]) -> bool:
    """Whether the odd labels are few among those that are not O."""
    return sum(fit.odd.values()) <= MOST_ODD * (counts.total() - counts["O"])


def _fit(pairs: Pairs, counts: Counter[str], scheme: Scheme, style: Style) -> Detection:
    parsed = {label: read for label in counts if (read := try_parse_label(label, scheme, style))} | {"": (Role.O, "")}
    legal = legal_steps(scheme)
    violations = 0
    for (left, right), count in pairs.items():
        if left in parsed and right in parsed:
            (left_role, left_kind), (right_role, right_kind) = parsed[left], parsed[right]
            violations += 0 if legal[left_role, right_role, int(left_kind == right_kind)] else count
    unused = {*scheme.letters.values()} - {role for role, _ in parsed.values()}
    odd = {label: count for label, count in counts.items() if label not in parsed}
    return Detection(scheme, style, violations, odd, unused=len(unused))

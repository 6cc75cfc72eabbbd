"""The labels of a model, numbered, with the constraints their scheme puts on a chain.

Labels never include START or STOP: where a sequence may begin and end are two vectors of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.errors import TagError
from trellis.tags.checking import fit_schemes
from trellis.tags.labels import Role, Style
from trellis.tags.schemes import BoolArray, Scheme, legal_steps
from trellis.tags.spans import Span, make_label, parse_label, roles_of_span


class AllowedTransitions(NamedTuple):
    """``transitions[i, j]``: may j follow i; ``start[j]``, ``end[i]``: may a sequence begin and end so."""

    transitions: BoolArray  # [L, L]
    start: BoolArray  # [L]
    end: BoolArray  # [L]


class SpanConstraint(NamedTuple):
    """One way of writing a span so that it begins and ends exactly there.

    The tokens of the span have the ids ``tags``; the token before it, where there is one, has a label in
    ``before``, and the token after it one in ``after``.
    """

    tags: NDArray[np.int64]  # [end - start]
    before: BoolArray  # [L]
    after: BoolArray  # [L]


@dataclass(frozen=True)
class TagSet:
    """Labels with ids ``0..L-1``, and the scheme and style that they are written in."""

    labels: tuple[str, ...]
    scheme: Scheme = Scheme.PLAIN
    style: Style = Style.PREFIX
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)
    _parsed: tuple[tuple[Role, str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that the labels are distinct and that the scheme can read them."""
        object.__setattr__(self, "labels", tuple(self.labels))
        ids = {label: index for index, label in enumerate(self.labels)}
        if len(ids) < len(self.labels):
            twice = next(label for i, label in enumerate(self.labels) if ids[label] != i)
            raise TagError(f"label {twice!r:.80} occurs twice in {self.labels}")
        object.__setattr__(self, "_ids", ids)
        parsed = tuple(parse_label(label, self.scheme, self.style) for label in self.labels)
        object.__setattr__(self, "_parsed", parsed)

    @classmethod
    def from_sequences(
        cls,
        sequences: Iterable[Sequence[str]],
        *,
        scheme: Scheme | None = None,
        style: Style | None = None,
        complete: bool = False,
    ) -> TagSet:
        """The labels that occur, O first, then by type and role; the best fitting scheme unless one is given.

        ``complete`` adds, for every type that occurs, the labels of the scheme that do not occur: a type
        seen only in single-token spans can then still be predicted over two tokens.
        """
        sequences = list(sequences)
        fit = fit_schemes(sequences, style=style)[0]
        scheme, style = scheme or fit.scheme, style or fit.style
        parsed = {parse_label(label, scheme, style) for label in set().union(*sequences)}
        if complete and scheme is not Scheme.PLAIN:
            roles = {*scheme.letters.values()} - {Role.O}
            parsed |= {(role, kind) for _, kind in parsed if _ is not Role.O for role in roles}
        ordered = sorted(parsed, key=lambda item: (item[0] is not Role.O, item[1], item[0]))
        return cls(tuple(make_label(role, kind, scheme, style) for role, kind in ordered), scheme, style)

    def __len__(self) -> int:
        """L, the number of labels."""
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        """Whether this is one of the labels."""
        return label in self._ids

    def id(self, label: str) -> int:
        """The id of a label; one that is not in the set raises ``TagError``."""
        return int(self.encode([label])[0])

    def encode(self, tags: Sequence[str]) -> NDArray[np.int64]:
        """Ids of one tag sequence."""
        try:
            return np.fromiter(map(self._ids.__getitem__, tags), dtype=np.int64, count=len(tags))
        except KeyError:
            raise self._unknown(tags) from None

    def decode(self, ids: Iterable[int] | NDArray[np.integer]) -> list[str]:
        """Tags of one sequence of ids."""
        numbers = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), dtype=np.intp)
        outside = np.flatnonzero((numbers < 0) | (numbers >= len(self)))
        if len(outside):
            position = int(outside[0])
            raise TagError(f"id {numbers[position]} at position {position} is not a label: expected 0..{len(self) - 1}")
        return [self.labels[number] for number in numbers.tolist()]

    def _unknown(self, tags: Sequence[str]) -> TagError:
        position, tag = next((i, tag) for i, tag in enumerate(tags) if tag not in self._ids)
        near = get_close_matches(str(tag)[:80], self.labels, n=1, cutoff=0.0)
        hint = f"; the nearest of its {len(self)} labels is {near[0]!r}" if near else ""
        return TagError(f"label {tag!r:.80} at position {position} is not in the tag set{hint}")

    def allowed_transitions(self) -> AllowedTransitions:
        """What the scheme allows, as masks for a chain: each path they leave open is a legal tag sequence."""
        roles = np.array([Role.O, *(role for role, _ in self._parsed)], dtype=np.intp)
        names = {kind: index for index, kind in enumerate(dict.fromkeys(["", *(kind for _, kind in self._parsed)]))}
        kinds = np.array([0, *(names[kind] for _, kind in self._parsed)], dtype=np.intp)
        same = (kinds[:, None] == kinds[None, :]).astype(np.intp)
        table = legal_steps(self.scheme)[roles[:, None], roles[None, :], same]  # row and column 0 are the edge
        return AllowedTransitions(table[1:, 1:].copy(), table[0, 1:].copy(), table[1:, 0].copy())

    def span_constraints(self, span: Span, length: int) -> list[SpanConstraint]:
        """The ways of writing ``span`` in a sequence of ``length`` tokens, as disjoint events.

        The span's probability is the sum of theirs. Most schemes have one way; IOB1 and IOE1 write a span
        differently beside another of its type, so they have two.
        """
        if not 0 <= span.start < span.end <= length:
            raise TagError(f"{span} does not lie in a sequence of {length} tokens")
        sides = [
            (left, right)
            for left in self._sides(Scheme.IOB1, span.start > 0)
            for right in self._sides(Scheme.IOE1, span.end < length)
        ]
        return [self._constraint(span, left, right) for left, right in sides]

    def _sides(self, contextual: Scheme, has_neighbour: bool) -> tuple[bool, ...]:
        """Does a neighbour of the same type change how the span is written? Then both cases count."""
        return (False, True) if self.scheme is contextual and has_neighbour else (False,)

    def _constraint(self, span: Span, adjoins_left: bool, adjoins_right: bool) -> SpanConstraint:
        roles = [role for role, _ in roles_of_span(span.end - span.start, self.scheme, adjoins_left, adjoins_right)]
        tags = self.encode([make_label(role, span.label, self.scheme, self.style) for role in roles])
        same = np.array([role is not Role.O and kind == span.label for role, kind in self._parsed], dtype=np.bool_)
        inner = np.array([role is Role.I for role, _ in self._parsed], dtype=np.bool_)
        anything = np.ones(len(self), dtype=np.bool_)
        match self.scheme:
            case Scheme.IO:
                return SpanConstraint(tags, ~same, ~same)
            case Scheme.IOB1:
                return SpanConstraint(tags, same if adjoins_left else ~same, ~(same & inner))
            case Scheme.IOE1:
                return SpanConstraint(tags, ~(same & inner), same if adjoins_right else ~same)
            case Scheme.IOB2:
                return SpanConstraint(tags, anything, ~(same & inner))
            case Scheme.IOE2:
                return SpanConstraint(tags, ~(same & inner), anything)
            case _:
                return SpanConstraint(tags, anything, anything.copy())

"""States finer than labels: what a chain learns where another scheme than that of the data is easier to learn.

    labels (IOB2)      B-PER  I-PER  O  B-LOC     what the data say, and what is answered
    states (BIOES)     B-PER  E-PER  O  S-LOC     what is learned

A state is a pair of both: the label it stands for, and its role in the scheme that is learned. A step is possible
where both schemes allow it and agree about the spans that start and end there. So paths of states and legal sequences
of labels correspond one to one, and the probability of anything said about labels is a sum over states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise, product

import numpy as np

from trellis.arrays import BoolArray, IntArray
from trellis.errors import TagError
from trellis.lazy import cached
from trellis.ragged import ranges
from trellis.tags.scheme import Role, Scheme, legal_steps
from trellis.tags.spans import (
    Span,
    conlleval_tables,
    edge_roles,
    make_label,
    parse_label,
    spans_from_tags,
    tags_from_spans,
)
from trellis.tags.tagset import AllowedTransitions, TagSet, roles_of_spans, steps_between

FINER = (Scheme.IOB2, Scheme.IOE2, Scheme.BIOES, Scheme.BILOU, Scheme.BMES)
"""Schemes to learn in: the role of a token does not depend on the neighbours of its span."""
_FINEST = (Scheme.BIOES, Scheme.BILOU, Scheme.BMES)


def scheme_to_learn(tags: TagSet, wanted: str | None) -> Scheme:
    """The scheme asked for; unset, BIOES, or BMES where spans have no types; "data" is that of the labels."""
    if wanted is not None and wanted.strip().lower() == "data":
        return tags.scheme
    if wanted is None:
        return Scheme.BIOES if any(kind for _, kind in tags.parsed) else Scheme.BMES
    scheme = Scheme.parse(wanted)
    if scheme not in (tags.scheme, *FINER):
        names = ", ".join(one.value for one in FINER)
        raise TagError(f"learn_scheme must be data or one of {names}, got {wanted!r}")
    return scheme


@dataclass(frozen=True, eq=False)
class StateMap:
    """The states of a chain that answers with the labels of `tags` and learns them in `scheme`."""

    tags: TagSet
    scheme: Scheme
    labels: IntArray  # [S] the label each state stands for
    roles: IntArray  # [S] its role in the scheme that is learned

    @classmethod
    def of(cls, tags: TagSet, scheme: Scheme | None = None) -> StateMap:
        """The states for learning in `scheme`; those of an earlier set of labels stay the first of a longer one.

        Where the labels tell apart as much themselves, or have no scheme, the states are the labels.
        """
        if scheme in (None, tags.scheme) or tags.scheme in (Scheme.PLAIN, *_FINEST):
            roles = np.array([role for role, _ in tags.parsed], dtype=np.int64)
            return cls(tags, tags.scheme, np.arange(len(tags)), roles)
        numbers = {parsed: label for label, parsed in enumerate(tags.parsed)}
        kinds = dict.fromkeys(kind for role, kind in tags.parsed if role is not Role.O)
        # Spans of each type in every situation that the labels can write, as pairs of label and role; O by itself.
        examples = [[(numbers[Role.O, ""], Role.O)]] if (Role.O, "") in numbers else []
        examples += [
            [(numbers[role, kind], learned) for role, learned in situation]
            for kind, situation in product(kinds, _situations(tags.scheme, scheme))
            if all((role, kind) in numbers for role, _ in situation)
        ]
        newest_label: dict[tuple[int, Role], int] = {}
        for pairs in examples:
            newest = max(label for label, _ in pairs)
            newest_label |= {pair: min(newest, newest_label.get(pair, newest)) for pair in pairs}
        ordered = sorted(newest_label, key=lambda pair: (newest_label[pair], *pair))
        columns = np.array(ordered, dtype=np.int64).reshape(-1, 2).T
        return cls(tags, scheme, columns[0].copy(), columns[1].copy())

    def __len__(self) -> int:
        """S, the number of states."""
        return len(self.labels)

    @property
    def finer(self) -> IntArray | None:
        """The label that each state stands for; None where the states are the labels."""
        return None if self.scheme is self.tags.scheme else self.labels

    @cached
    def names(self) -> tuple[str, ...]:
        """A name for each state: its label in the scheme that is learned."""
        if self.finer is None:
            return self.tags.labels
        kinds = [self.tags.parsed[label][1] for label in self.labels]
        roles = [Role(role) for role in self.roles.tolist()]
        names = [make_label(*pair, self.scheme, self.tags.style) for pair in zip(roles, kinds, strict=True)]
        labels = [self.tags.labels[label] for label in self.labels]
        return tuple(f"{a} ({b})" if names.count(a) > 1 else a for a, b in zip(names, labels, strict=True))

    def encode(self, ids: IntArray, lengths: IntArray) -> IntArray:
        """The states of flat label ids, which are legal where the states are finer."""
        if self.finer is None:
            return ids
        spans = self.tags.find_spans(ids, lengths)
        sizes, starts = spans.end - spans.begin, (np.cumsum(lengths) - lengths)[spans.sequence] + spans.begin
        roles = np.full(len(ids), Role.O, dtype=np.int64)
        roles[ranges(starts, sizes)] = roles_of_spans(sizes, *edge_roles(self.scheme))
        return self._numbers[ids, roles]

    def allowed(self, labels: BoolArray) -> BoolArray:
        """``(N, L)`` by label as ``(N, S)`` by state."""
        return labels if self.finer is None else np.take(labels, self.labels, axis=1)

    def allowed_transitions(self) -> AllowedTransitions:
        """The steps that both schemes allow, and in which they agree where spans start and end."""
        limits = self.tags.allowed_transitions()
        if self.finer is None:
            return limits
        kinds = [self.tags.parsed[label][1] for label in self.labels]
        label_roles = np.array([self.tags.parsed[label][0] for label in self.labels], dtype=np.int64)
        steps = steps_between(legal_steps(self.scheme), self.roles, kinds)
        for table in conlleval_tables():
            steps &= steps_between(table, self.roles, kinds) == steps_between(table, label_roles, kinds)
        both = np.ix_(self.labels, self.labels)
        return AllowedTransitions(
            steps[1:, 1:] & limits.transitions[both],
            steps[0, 1:] & limits.start[self.labels],
            steps[1:, 0] & limits.end[self.labels],
        )

    @cached
    def _numbers(self) -> IntArray:
        """``(L, roles)``: the state with a label and a role, -1 where there is none."""
        numbers = np.full((len(self.tags), len(Role)), -1, dtype=np.int64)
        numbers[self.labels, self.roles] = np.arange(len(self))
        return numbers


@cache
def _situations(written: Scheme, learned: Scheme) -> tuple[tuple[tuple[Role, Role], ...], ...]:
    """A span of one, two or three tokens, with one of its type right before and after it or not, in both schemes.

    IO cannot tell spans apart that adjoin, so there is nothing to be learned of them.
    """
    situations = []
    for sizes in product((0, 1), (1, 2, 3), (0, 1)):
        edges = [0, *accumulate(sizes)]
        spans = [Span(begin, end, "X") for begin, end in pairwise(edges) if begin < end]
        one, two = (tags_from_spans(spans, edges[-1], scheme) for scheme in (written, learned))
        if spans_from_tags(one, written) == spans:
            roles = zip(
                (parse_label(tag, written)[0] for tag in one),
                (parse_label(tag, learned)[0] for tag in two),
                strict=True,
            )
            situations.append(tuple(roles))
    return tuple(situations)

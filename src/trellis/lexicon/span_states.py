"""Chains whose states know where spans begin and end.

    labels (IOB2)      B-PER  I-PER  O  B-LOC
    states             first  last   O  only

Whether a span starts or ends at a token depends on its label and on the label beside it, as
`trellis.tags.TagSet.find_spans` reads them. Here each state of a chain is split into the versions that answer both
questions: it starts a span or not, it ends one or not. A step is possible where the versions tell the truth, so paths
correspond one to one, the score of a path stays, and "tokens 2 to 4 are a span of type PER" becomes a condition on
single tokens. Where the labels tell it themselves (BIOES, BMES), each state has one version, and the chain stays as it
is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trellis.arrays import AnyArray, BoolArray, IntArray
from trellis.chain import ChainScores
from trellis.tags import Role, TagSet


class PossibleSteps(NamedTuple):
    """Which steps between states are possible; of first and last states."""

    transitions: BoolArray  # [A, A]
    start: BoolArray  # [A]
    end: BoolArray  # [A]


@dataclass(frozen=True, eq=False)
class SpanStates:
    """The states of a chain, each in the versions that say whether a span starts and whether one ends there."""

    own: IntArray  # [A] the state of the chain that this is a version of
    labels: IntArray  # [A] its label
    kind: IntArray  # [A] the type of its span, an index into `kinds`; -1 outside every span
    starts: BoolArray  # [A]
    ends: BoolArray  # [A]
    steps: PossibleSteps
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, scores: ChainScores, tags: TagSet, state_labels: IntArray | None) -> SpanStates:
        """The versions of a chain's states that some path can visit, and at least one of each."""
        labels = np.arange(len(tags)) if state_labels is None else state_labels
        starts, ends = (table[np.ix_(*[_with_edge(labels)] * 2)] for table in tags.span_steps())
        versions = _versions(_possible(scores), starts, ends)
        own, starting, ending = versions.T[0], versions.T[1] > 0, versions.T[2] > 0
        kinds = span_types(tags)
        numbers = {kind: number for number, kind in enumerate(kinds)}
        of_label = np.array([-1 if role is Role.O else numbers[kind] for role, kind in tags.parsed], dtype=np.int64)
        steps = _steps(own, starting, ending, starts, ends)
        return cls(own, labels[own], of_label[labels[own]], starting, ending, steps, kinds)

    def __len__(self) -> int:
        """A, the number of versions."""
        return len(self.own)

    def chain(self, scores: ChainScores) -> ChainScores:
        """The chain with these states; paths and their scores stay."""
        if len(self) == scores.num_labels:  # one version each, so that all steps that have a score tell the truth
            return scores
        return expanded(scores, self.own, self.steps, scores.emissions[:, self.own])

    def inside(self, size: int, kind: int | None) -> BoolArray:
        """``(size, A)``: the states with which `size` tokens are one whole span of this type; of any type for None."""
        fits = self.kind >= 0 if kind is None else self.kind == kind
        first, last = np.arange(size) == 0, np.arange(size) == size - 1
        result: BoolArray = (
            fits & (self.starts == first[:, None]) & (self.ends == last[:, None])  # a span starts and ends only there
        )
        return result


def span_types(tags: TagSet) -> tuple[str, ...]:
    """The types of spans; one empty type if they have none."""
    return tuple(dict.fromkeys(kind for role, kind in tags.parsed if role is not Role.O))


def parted(scores: ChainScores, gaps: IntArray, tags: TagSet, state_labels: IntArray | None) -> ChainScores:
    """The chain in which no word runs across the white space before these tokens, numbered through the batch.

    The token after a gap begins like the first of a sentence, the token before it ends like the last.
    """
    if not len(gaps):
        return scores
    legal = tags.allowed_transitions()
    allowed = np.ones((len(scores.emissions), len(tags)), dtype=np.bool_)
    allowed[gaps] &= legal.start
    allowed[gaps - 1] &= legal.end
    return scores.restricted(allowed if state_labels is None else allowed[:, state_labels])


def expanded(scores: ChainScores, own: IntArray, steps: PossibleSteps, emissions: AnyArray) -> ChainScores:
    """A chain of versions of states, with these emissions; `own` are the states, and only `steps` are possible."""
    both = np.ix_(own, own)
    forbidden = scores.emissions.dtype.type(-np.inf)
    return ChainScores(
        emissions,
        scores.lengths,
        np.where(steps.transitions, scores.transitions[both], forbidden),
        np.where(steps.start, scores.start[own], forbidden),
        np.where(steps.end, scores.end[own], forbidden),
        None if scores.edges is None else scores.edges[:, own][:, :, own],
    )


def _with_edge(labels: IntArray) -> IntArray:
    return np.concatenate([[0], labels + 1])


def _possible(scores: ChainScores) -> BoolArray:
    """``(S + 1, S + 1)``: steps that are not forbidden; row and column 0 are the edge."""
    S = scores.num_labels
    table = np.zeros((S + 1, S + 1), dtype=np.bool_)
    table[1:, 1:], table[0, 1:], table[1:, 0] = (x > -np.inf for x in (scores.transitions, scores.start, scores.end))
    return table


def _versions(possible: BoolArray, starts: BoolArray, ends: BoolArray) -> IntArray:
    """``(A, 3)``: state, whether it starts a span, whether it ends one."""
    into, out = possible[:, 1:], possible[1:, :]
    can_start = np.stack([(into & (starts[:, 1:] == x)).any(axis=0) for x in (False, True)], axis=1)  # [S, 2]
    can_end = np.stack([(out & (ends[1:, :] == y)).any(axis=1) for y in (False, True)], axis=1)
    for can in (can_start, can_end):
        can[~can.any(axis=1), 0] = True
    return np.argwhere(can_start[:, :, None] & can_end[:, None, :])


def _steps(own: IntArray, starting: BoolArray, ending: BoolArray, starts: BoolArray, ends: BoolArray) -> PossibleSteps:
    """The steps in which the versions tell the truth."""
    both = np.ix_(own + 1, own + 1)
    return PossibleSteps(
        (starts[both] == starting) & (ends[both] == ending[:, None]),
        starts[0, own + 1] == starting,
        ends[own + 1, 0] == ending,
    )

"""Heads: emissions to a loss, and to the scores of a chain that every answer is computed from.

All give ordinary chain scores, so decoding, probabilities and k-best are the same code for all:

    CRF       learned transitions, forbidden ones minus infinity
    softmax   no transitions: zeros, or minus infinity for those that are not legal
    semi-CRF  scores of segments, and the chain that has their distribution
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from trellis.arrays import BoolArray, FloatArray, IntArray
from trellis.chain import ChainScores
from trellis.chain import torch as scoring
from trellis.chain.torch import SegmentScores
from trellis.errors import ConfigError
from trellis.nn.crf import CRF
from trellis.nn.semicrf import SemiCRF, TokenScores
from trellis.ragged import check_lengths, later_tokens, offsets_of, split

Legal = tuple[Tensor, Tensor, Tensor]
"""Booleans: transitions (L, L), start (L,), end (L,)."""


class Head(nn.Module, ABC):
    """A loss, and the scores of a chain; a softmax has no transitions, so it ignores `edges`, their scores by place."""

    num_tags: int

    @property
    def num_scores(self) -> int:
        """How many numbers the head takes for each token: an emission per label."""
        return self.num_tags

    @property
    def histories(self) -> IntArray | None:
        """The label that each state of the chain stands for; None if these are the labels."""
        return None

    def answers(self, emissions: FloatArray, lengths: IntArray, edges: FloatArray | None) -> ChainScores:
        """The chain that every answer is computed from, given the scores of tokens ``(N, num_scores)``."""
        transitions, start, end = (x.detach().cpu().numpy() for x in self.chain())
        return ChainScores(emissions, lengths, transitions, start, end, edges)

    @abstractmethod
    def chain(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions, start and end scores of the chain."""

    def losses(
        self,
        emissions: Tensor,
        lengths: IntArray,
        tags: Tensor | None = None,
        *,
        allowed: Tensor | None = None,
        weights: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> Tensor:
        """Negative log-likelihood of each sequence's tags ``(N,)``: (B,).

        With `weights` ``(N,)`` each token counts by its weight. With `allowed` ``(N, L)`` instead of tags it is minus
        the log probability that every token has one of its allowed labels.
        """
        scores = scoring.ChainScores(emissions, lengths, *self.chain(), edges)
        return scores.nll(tags, allowed=allowed, weights=weights)


class CRFHead(Head):
    """A linear-chain CRF over flat emissions ``(N, L)``."""

    def __init__(self, num_tags: int, legal: Legal | None = None) -> None:
        super().__init__()
        self.num_tags = num_tags
        self.crf = CRF(num_tags, constraints=legal)

    def chain(self) -> tuple[Tensor, Tensor, Tensor]:
        """The learned scores with the constraints in them."""
        return self.crf.chain_parameters()


class SoftmaxHead(Head):
    """Each token by itself; `legal` is the 0/1 table of allowed transitions, None for plain argmax."""

    _transitions: Tensor
    _start: Tensor
    _end: Tensor

    def __init__(self, num_tags: int, legal: Legal | None = None) -> None:
        super().__init__()
        self.num_tags = num_tags
        shapes = ((num_tags, num_tags), (num_tags,), (num_tags,))
        for name, shape, table in zip(("_transitions", "_start", "_end"), shapes, legal or (None,) * 3, strict=True):
            scores = torch.zeros(shape) if table is None else torch.where(table, 0.0, -torch.inf)
            self.register_buffer(name, scores, persistent=False)

    def chain(self) -> tuple[Tensor, Tensor, Tensor]:
        """Zero where legal, minus infinity elsewhere."""
        return self._transitions, self._start, self._end

    def losses(
        self,
        emissions: Tensor,
        lengths: IntArray,
        tags: Tensor | None = None,
        *,
        allowed: Tensor | None = None,
        weights: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> Tensor:
        if tags is None:
            assert allowed is not None
            losses = emissions.logsumexp(1) - emissions.masked_fill(~allowed, -torch.inf).logsumexp(1)
        else:
            losses = nn.functional.cross_entropy(emissions, tags, reduction="none")
            losses = losses if weights is None else losses * weights.to(losses.dtype)
        checked = check_lengths(lengths, len(losses))
        sequence = torch.from_numpy(np.repeat(np.arange(len(checked)), checked)).to(losses.device)
        return losses.new_zeros(len(lengths)).index_add(0, sequence, losses)


SINGLE, FIRST, INNER, LAST = range(4)


@dataclass(frozen=True, eq=False)
class SegmentStates:
    """The states of a CRF by type of segment; those outside all spans are a type whose segments have one token."""

    places: IntArray
    """``(C, 4)``: the state of a single, a first, an inner and a last token of each type, -1 where there is none."""

    def lengths(self, longest: int) -> BoolArray:
        """(K, C): which segments can be written."""
        single, first, inner, last = (self.places >= 0).T
        rows = [single, first & last, *([first & inner & last] * max(0, longest - 2))]
        return np.stack(rows[:longest])

    def types(self, states: int) -> tuple[IntArray, BoolArray]:
        """Type of each state, and whether a segment begins with it."""
        types, begins = np.zeros(states, dtype=np.int64), np.zeros(states, dtype=np.bool_)
        for role in (SINGLE, FIRST, INNER, LAST):
            known = self.places[:, role] >= 0
            types[self.places[known, role]] = np.flatnonzero(known)
            begins[self.places[known, role]] = role in (SINGLE, FIRST)
        return types, begins


class SemiCRFHead(Head):
    """A semi-Markov CRF: it learns segments, and answers as a chain that has the same distribution.

    Emissions ``(N, S)`` are those of a CRF that learns in BIOES; with a rank R, 2 R more for what both ends of a
    segment say together. A segment adds up the emissions of its tokens (S alone; B, I ..., E) and a score of its
    length, so that it is judged as a whole. To answer, it becomes states that count its tokens down::

        begin (PER, 2)   inside (PER, 1)   inside (PER, 0)   begin (O, 0)     a segment's score stands at its begin

    Each of these states stands for one label, so labels, their probabilities, the k best and spans come from the same
    code as for every other head, and they are exact.
    """

    def __init__(self, num_tags: int, states: SegmentStates, longest: int, rank: int = 0) -> None:
        super().__init__()
        self.num_tags, self.longest, self.rank = num_tags, longest, rank
        self.states = states
        self._types, self._begins = states.types(num_tags)
        allowed = torch.from_numpy(states.lengths(longest))
        self.layer = SemiCRF(len(states.places), longest, allowed=allowed, rank=rank)

    @property
    def num_scores(self) -> int:
        return self.num_tags + 2 * self.rank

    def chain(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions, start and end scores of the states that count tokens down."""
        transitions, start, end = map(torch.from_numpy, self._chain())
        return transitions, start, end

    def answers(self, emissions: FloatArray, lengths: IntArray, edges: FloatArray | None) -> ChainScores:
        """The chain of states that count tokens down, `histories` of which say what they stand for."""
        with torch.no_grad():
            scores = self._scores(torch.from_numpy(emissions).to(self.layer.length.device), lengths)
        segments = scores.segments.cpu().numpy()  # [N, K, C], at the last token of each segment
        begins = np.full_like(segments, -np.inf)  # the same at its first token
        left = np.repeat(np.cumsum(scores.lengths), scores.lengths) - np.arange(len(segments))  # tokens to the end
        for k in range(self.longest):
            rows = np.flatnonzero(left > k)
            begins[rows, k] = segments[rows + k, k]
        length, types, inside = self._counting()
        emissions = np.where(inside, 0.0, begins[:, length, types])
        return ChainScores(emissions, scores.lengths, *self._chain())

    @property
    def histories(self) -> IntArray:
        """The state of a CRF that each state of `chain` stands for."""
        length, types, inside = self._counting()
        roles = np.where(inside, np.where(length == 0, LAST, INNER), np.where(length == 0, SINGLE, FIRST))
        return self.states.places[types, roles]

    def losses(
        self,
        emissions: Tensor,
        lengths: IntArray,
        tags: Tensor | None = None,
        *,
        allowed: Tensor | None = None,
        weights: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> Tensor:
        """See `Head`. A span that is longer than the longest segments is learned as several of them."""
        if weights is not None:
            raise ConfigError("label_weights need head = crf or softmax: a semicrf scores segments, not tokens")
        scores = self._scores(emissions, lengths)
        if tags is not None:
            return scores.nll(self.paths(tags.cpu().numpy(), lengths))
        assert allowed is not None
        segments = torch.from_numpy(self._allowed(allowed.cpu().numpy())).to(emissions.device)
        return (scores.log_partition() - scores.restricted(segments).log_partition()).clamp_min(0)

    def paths(self, tags: IntArray, lengths: IntArray) -> Sequence[IntArray]:
        """The segments (S, 3) of each sequence, from the states of its tokens."""
        owner = np.repeat(np.arange(len(lengths)), lengths)
        position = np.arange(len(tags)) - offsets_of(lengths)[:-1][owner]
        starts = np.flatnonzero((position == 0) | self._begins[tags])
        since = np.arange(len(tags)) - np.repeat(starts, np.diff([*starts, len(tags)]))
        starts = np.flatnonzero(since % self.longest == 0)
        begin, size = position[starts], np.diff([*starts, len(tags)])
        rows = np.stack([begin, begin + size, self._types[tags[starts]]], axis=1)
        return split(rows, np.bincount(owner[starts], minlength=len(lengths)))

    def _scores(self, emissions: Tensor, lengths: IntArray) -> SegmentScores:
        places = torch.from_numpy(self.states.places.T).to(emissions.device)
        # [N, C] each; 0 where a type has no such state, whose segments are forbidden
        roles = [torch.where(states >= 0, emissions[:, states.clamp_min(0)], 0.0) for states in places]
        single, first, inner, last = roles
        tokens = TokenScores(inner, first - inner, last - inner, single)
        if self.rank:
            middle = self.num_tags + self.rank
            tokens = replace(tokens, left=emissions[:, self.num_tags : middle], right=emissions[:, middle:])
        return self.layer.segments(tokens, lengths)

    def _allowed(self, by_state: BoolArray) -> BoolArray:
        """(N, K, C): the segments all of whose tokens may have the states that they are written with."""
        places = self.states.places
        single, first, inner, last = (by_state[:, places[:, r]] & (places[:, r] >= 0) for r in range(4))
        segments = np.zeros((len(by_state), self.longest, len(places)), dtype=np.bool_)
        segments[:, 0] = single
        between = np.ones_like(inner)
        for k in range(1, self.longest):
            if k > 1:
                between[k:] &= inner[1 : len(inner) - k + 1]
            segments[k:, k] = first[:-k] & between[k:] & last[k:]
        return segments

    def _counting(self) -> tuple[IntArray, IntArray, BoolArray]:
        """The states of the chain: how many tokens are left after this one, the type, whether a segment went on."""
        fits = self.states.lengths(self.longest)
        begins = np.argwhere(fits)
        inside = np.argwhere([fits[k:].any(axis=0) & (k > 0) for k in range(self.longest)]) - [1, 0]
        rows = np.concatenate([begins, inside.reshape(-1, 2)])
        return rows[:, 0], rows[:, 1], np.arange(len(rows)) >= len(begins)

    def _chain(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Steps within a segment cost nothing; from the last token of one to the first of the next, a transition."""
        length, types, inside = self._counting()
        layer = self.layer
        scores = (layer.transitions, layer.start_transitions, layer.end_transitions)
        transitions, start, end = (x.detach().cpu().double().numpy() for x in scores)
        between = (length == 0)[:, None] & ~inside
        goes_on = (length[:, None] == length + 1) & (types[:, None] == types) & inside
        steps = np.where(between, transitions[np.ix_(types, types)], np.where(goes_on, 0.0, -np.inf))
        return steps, np.where(inside, -np.inf, start[types]), np.where(length == 0, end[types], -np.inf)


class BilinearEdges(nn.Module):
    """Scores of transitions that depend on both tokens: a bilinear form of low rank for each pair of labels.

        edges[p, i, j] = sum_k W[i, j, k] * (U h[t-1])[k] * (V h[t])[k]        p: the pair of tokens t - 1 and t

    W begins at zero, so that training begins with transitions that are the same at every place.
    """

    def __init__(self, size: int, num_tags: int, rank: int) -> None:
        super().__init__()
        self.num_tags = num_tags
        self.left, self.right = nn.Linear(size, rank), nn.Linear(size, rank)
        # One row per pair of labels, by both: a model that knows more labels takes over the first of each.
        self.weight = nn.Parameter(torch.zeros(num_tags, num_tags, rank))

    def forward(self, features: Tensor, lengths: IntArray) -> Tensor:
        """Scores ``(P, L, L)`` for features ``(N, size)``, as `trellis.chain.torch.ChainScores` takes them."""
        later = torch.from_numpy(later_tokens(lengths)).to(features.device)
        products = self.left(features)[later - 1] * self.right(features)[later]
        scores = nn.functional.linear(products, self.weight.flatten(0, 1))
        return scores.view(-1, self.num_tags, self.num_tags).float()

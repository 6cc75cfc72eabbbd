"""The linear-chain CRF as a layer: emissions of any encoder in, loss, labels and probabilities out.

`ExportDecoder` is its decoder in plain tensor operations, for programs that export a module instead of running it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from trellis.chain import torch as chain
from trellis.chain.torch import compile as operators
from trellis.errors import ChainError, ConfigError, ShapeError
from trellis.ragged import check_lengths

Constraints = Tensor | tuple[Tensor, Tensor, Tensor]


class CRF(nn.Module):
    """Conditional random field over the labels of a sequence.

    ``P(y | x) = exp(score) / Z`` with ``score = start[y[0]] + sum_t (emissions[t, y[t]] + transitions[y[t-1], y[t]])
    + end[y[T-1]]``. Constructor, parameters, ``forward`` and ``decode`` are those of pytorch-crf.

    Tensors are ``(T, B, ...)``, or ``(B, T, ...)`` with ``batch_first``. A mask says which places hold a token: holes,
    padding on the left and empty rows are all fine, and ``lengths[B]`` may be given instead. Places where ``tags`` is
    ``ignore_index`` hold no token either. Tags may also be one-hot, shaped like the emissions, where a place of zeros
    holds no token. ``edges=`` adds scores of transitions that depend on the place. ``scores(...)`` is the distribution
    itself, which also knows ``score``, ``log_partition``, ``kbest``, ``sample``, ``entropy`` and ``span_log_prob``.

    Args:
        num_tags: L.
        batch_first: whether the batch comes before time.
        constraints: which transitions are allowed: booleans ``(L, L)``, or three of them for transitions, start
            ``(L,)`` and end ``(L,)``, as ``TagSet.allowed_transitions`` makes them. They apply to the loss,
            to probabilities and to decoding.
        ignore_index: the tag of places to skip.

    Attributes:
        start_transitions: ``(L,)`` score of a sequence that starts with a label.
        end_transitions: ``(L,)`` score of one that ends with it.
        transitions: ``(L, L)`` score of a transition from row to column.

    """

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        *,
        constraints: Constraints | None = None,
        ignore_index: int = -100,
    ) -> None:
        if num_tags <= 0:
            raise ConfigError(f"invalid number of tags: {num_tags}")
        super().__init__()
        self.num_tags = num_tags
        self.batch_first = batch_first
        self.ignore_index = ignore_index
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        self._register_constraints(constraints)
        self.reset_parameters()

    def _register_constraints(self, constraints: Constraints | None) -> None:
        """Keep what is forbidden as buffers outside the state dict, so that checkpoints fit with and without them."""
        L = self.num_tags
        given = constraints if isinstance(constraints, tuple) else (constraints, None, None)
        for name, allowed, shape in zip(("transitions", "start", "end"), given, ((L, L), (L,), (L,)), strict=True):
            mask = None if allowed is None else torch.as_tensor(allowed)
            if mask is not None and (mask.shape != shape or mask.dtype != torch.bool):
                raise ShapeError(
                    f"constraints of {name} must be bool {shape} for num_tags = {L}, "
                    f"got {mask.dtype} {tuple(mask.shape)}"
                )
            self.register_buffer(f"_forbidden_{name}", None if mask is None else ~mask, persistent=False)

    def reset_parameters(self) -> None:
        """Draw all parameters uniformly from -0.1 .. 0.1."""
        for parameter in (self.start_transitions, self.end_transitions, self.transitions):
            nn.init.uniform_(parameter, -0.1, 0.1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_tags={self.num_tags})"

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: str = "sum",
        *,
        edges: Tensor | None = None,
    ) -> Tensor:
        """Log-likelihood of the tags, as in pytorch-crf: ``-nll(...)``."""
        return -self.nll(emissions, tags, mask, reduction=reduction, edges=edges)

    def scores(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        edges: Tensor | None = None,
        tags: Tensor | None = None,
    ) -> chain.ChainScores:
        """The distribution over label sequences, which the other methods ask.

        Args:
            emissions: ``(T, B, L)``, or ``(B, T, L)`` with ``batch_first``.
            mask: ``(T, B)`` or ``(B, T)``, true for places that hold a token.
            lengths: ``(B,)`` instead of a mask, for padding on the right.
            edges: ``(T - 1, B, L, L)`` or ``(B, T - 1, L, L)``, added to the transitions. Those of place t - 1 are for
                the transition into the token at place t from the token before it, which may be further left if the
                mask has holes.
            tags: like the mask; places where they are ``ignore_index`` hold no token.

        """
        operators.refuse_export_of_scores()
        self._check(emissions, tags, mask)
        return chain.ChainScores.padded(
            emissions,
            self._places(emissions, mask, lengths),
            *self.chain_parameters(),
            edges,
            batch_first=self.batch_first,
            tags=tags,
            ignore_index=self.ignore_index,
        )

    def nll(
        self,
        emissions: Tensor,
        tags: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        allowed: Tensor | None = None,
        label_weights: Tensor | None = None,
        edges: Tensor | None = None,
        reduction: str = "sum",
    ) -> Tensor:
        """Negative log-likelihood, never negative: the loss.

        Args:
            emissions: ``(T, B, L)``, or ``(B, T, L)`` with ``batch_first``.
            tags: ``(T, B)`` or ``(B, T)``, the labels; or one-hot, shaped like the emissions.
            mask: the same shape, true for places that hold a token.
            lengths: ``(B,)`` instead of a mask, for padding on the right.
            allowed: like the emissions, instead of tags: the labels that each place may have. The loss is then
                that of the event that every place has one of its labels.
            label_weights: ``(L,)``: each token's share of the loss, ``-log P(y[t] | y[0..t-1])``, is multiplied by
                the weight of its label.
            edges: scores of transitions by place; see `scores`.
            reduction: "none" (a value per sequence), "sum", "mean" (over sequences) or "token_mean" (over tokens).

        """
        tags = None if tags is None else self._numbers(emissions, tags)
        if torch.compiler.is_compiling() and tags is not None and allowed is None and label_weights is None:
            self._check(emissions, tags, mask)
            check_reduction(reduction)  # after the shapes, as in pytorch-crf
            places = self._places(emissions, mask, lengths)
            options = (self.batch_first, self.ignore_index, reduction)
            return operators.nll(emissions, tags, places, *self.chain_parameters(), edges, *options)
        scores = self.scores(emissions, mask, lengths=lengths, edges=edges, tags=tags)
        check_reduction(reduction)
        weights = None
        if label_weights is not None and tags is not None:
            if label_weights.shape != (self.num_tags,):
                raise ShapeError(f"label_weights must be (L,) = ({self.num_tags},), got {tuple(label_weights.shape)}")
            known = (tags >= 0) & (tags < self.num_tags)  # the others are reported, or ignored
            weights = label_weights[tags.where(known, 0)]
        scale = None if reduction == "none" else 1.0
        if reduction in ("mean", "token_mean"):
            count = scores.layout.sequences if reduction == "mean" else scores.layout.tokens
            scale = 1.0 / max(count, 1)  # a batch without tokens has no loss; 0 / 0 would spoil the parameters for ever
        return scores.nll(tags, allowed=allowed, weights=weights, scale=scale)

    def decode(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> list[list[int]]:
        """The best labels of each sequence as a list, one label per token and none for padding."""
        return self.scores(emissions, mask, lengths=lengths, edges=edges).best_lists()

    def viterbi(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        allowed: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> chain.Decoded[Tensor, Tensor]:
        """The best labels as a tensor, -1 where there is no token, and their scores ``(B,)``."""
        if torch.compiler.is_compiling() and allowed is None:
            self._check(emissions, None, mask)
            places = self._places(emissions, mask, lengths)
            return operators.viterbi(emissions, places, *self.chain_parameters(), edges, self.batch_first)
        return self.scores(emissions, mask, lengths=lengths, edges=edges).viterbi(allowed=allowed)

    def marginals(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        allowed: Tensor | None = None,
        edges: Tensor | None = None,
        pairwise: bool = False,
    ) -> chain.Marginals[Tensor, Tensor]:
        """Probability of each label at each token (0 at places without one), and expected transitions."""
        return self.scores(emissions, mask, lengths=lengths, edges=edges).marginals(allowed=allowed, pairwise=pairwise)

    def _numbers(self, emissions: Tensor, tags: Tensor) -> Tensor:
        """The tags by their numbers, also where they are one-hot; a place of zeros is one to leave out."""
        if tags.dim() != 3 or tags.shape != emissions.shape:
            return tags
        ones = tags != 0
        if not torch.compiler.is_compiling() and not bool(((tags == ones) & (ones.sum(2, keepdim=True) <= 1)).all()):
            raise ChainError("one-hot tags must be a single 1 among zeros, or zeros where there is no token")
        return torch.where(ones.any(2), ones.to(torch.uint8).argmax(2), self.ignore_index)

    def decoder_for_export(self) -> ExportDecoder:
        """The decoder in plain tensor operations, for `torch.onnx.export`, `torch.jit.trace` and `torch.export`.

        It shares the parameters of this module; its constraints and `batch_first` are those of now.
        """
        return ExportDecoder(self)

    def _check(self, emissions: Tensor, tags: Tensor | None, mask: Tensor | None) -> None:
        if torch.compiler.is_compiling() or operators.is_traced():  # the question itself is slow
            operators.refuse_exporters()
        check_padded(emissions, tags, mask, self.num_tags)

    def _places(self, emissions: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor | None:
        return token_mask(emissions, mask, lengths, batch_first=self.batch_first)

    def chain_parameters(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions, start and end scores with the constraints in them: minus infinity where forbidden."""
        parameters, buffers = self._parameters, self._buffers  # looking up the attributes is slow
        return (
            _forbid(parameters["transitions"], buffers["_forbidden_transitions"]),
            _forbid(parameters["start_transitions"], buffers["_forbidden_start"]),
            _forbid(parameters["end_transitions"], buffers["_forbidden_end"]),
        )


def _forbid(scores: Tensor | None, forbidden: Tensor | None) -> Tensor:
    assert scores is not None
    return scores if forbidden is None else scores.masked_fill(forbidden, -torch.inf)


def check_padded(emissions: Tensor, tags: Tensor | None, mask: Tensor | None, L: int) -> None:
    """The checks of pytorch-crf, with its messages; one-hot tags of a wrong width have one of their own."""
    shape = emissions.shape
    if len(shape) != 3:
        raise ShapeError(f"emissions must have dimension of 3, got {len(shape)}")
    if shape[2] != L:
        raise ShapeError(f"expected last dimension of emissions is {L}, got {shape[2]}")
    places = shape[:2]
    if tags is not None and tags.ndim == 3 and tags.shape[:2] == places and tags.shape[2] > 1:
        raise ShapeError(
            f"the last dimension of one-hot tags must be num_tags = {L}, got {tags.shape[2]} in {tuple(tags.shape)}; "
            f"tags may also be numbers of labels, {tuple(places)}"
        )
    for name, other in (("tags", tags), ("mask", mask)):
        if other is not None and other.shape != places:
            raise ShapeError(
                f"the first two dimensions of emissions and {name} must match, "
                f"got {tuple(places)} and {tuple(other.shape)}"
            )


def token_mask(emissions: Tensor, mask: Tensor | None, lengths: Tensor | None, *, batch_first: bool) -> Tensor | None:
    """The places that hold a token, as a mask: the one given, or that of lengths; None if all do."""
    if lengths is None:
        return mask
    if mask is not None:
        raise ChainError("give either a mask or lengths, got both")
    B, T = emissions.shape[:2] if batch_first else (emissions.shape[1], emissions.shape[0])
    given = lengths if isinstance(lengths, Tensor) else torch.from_numpy(check_lengths(lengths))
    kind = given.dtype
    if given.shape != (B,) or kind.is_floating_point or kind.is_complex or kind == torch.bool:
        raise ShapeError(f"lengths must be integers (B,) = ({B},), got {kind} {tuple(given.shape)}")
    counts = given.to(emissions.device, torch.int64)
    if not (torch.compiler.is_compiling() or bool(((counts >= 0) & (counts <= T)).all())):
        raise ShapeError(f"lengths must be in 0..{T}, the size of the time axis, got {given.tolist()}")
    present = torch.arange(T, device=emissions.device) < counts[:, None]
    return present if batch_first else present.T


def check_reduction(reduction: str) -> None:
    if reduction not in ("none", "sum", "mean", "token_mean"):
        raise ConfigError(f"invalid reduction: {reduction}")


class ExportDecoder(nn.Module):
    """Emissions and a mask to the best labels, -1 where there is no token, their marginals, and the path's probability.

    Shapes are those of the CRF: ``(T, B, L)`` and ``(T, B)``, or with ``batch_first`` ``(B, T, L)`` and ``(B, T)``.

    `torch.jit.trace` would write out a loop once per time step of its example, so it gets the loop as a script;
    `torch.export`, and `torch.onnx.export` with it, get a scan. Either way the length of a batch may vary afterwards.
    The recursions are in log space.
    """

    def __init__(self, crf: CRF) -> None:
        super().__init__()
        self.crf = crf

    def forward(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The labels, the probability of each label at each token, and that of each sequence's path ``(B,)``.

        Nothing is learned through them.
        """
        first = self.crf.batch_first
        by_time, places = (emissions.transpose(0, 1), mask.transpose(0, 1)) if first else (emissions, mask)
        decode = _by_script() if operators.is_traced() else _by_scan if operators.is_exported() else by_loop
        scores = [given.detach() for given in (by_time, *self.crf.chain_parameters())]
        tags, marginals, total = decode(scores[0], places.bool(), *scores[1:])
        return (tags.t(), marginals.transpose(0, 1), total) if first else (tags, marginals, total)


def by_loop(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Labels ``(T, B)``, marginals ``(T, B, L)`` and probabilities ``(B,)``, one time step after another."""
    T = mask.shape[0]
    beta = end + torch.zeros_like(emissions[0])
    best = beta
    betas, bests = [beta], [best]
    for i in range(T - 1):
        t = T - 1 - i
        beta, best = _step_back(beta, best, emissions[t], mask[t], transitions)
        betas.append(beta)
        bests.append(best)
    rows = torch.cat([transitions, start.unsqueeze(0)])
    alpha, state, total = _begin(emissions[0])
    tags, marginals = [state], [beta]  # their types, for the script
    for t in range(T):
        alpha, state, total, tag, probabilities = _step_forward(
            alpha, state, total, emissions[t], mask[t], betas[T - 1 - t], bests[T - 1 - t], rows
        )
        tags.append(tag)
        marginals.append(probabilities)
    return torch.stack(tags[1:]), torch.stack(marginals[1:]), total.exp()


def _by_scan(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`by_loop` as a scan, for `torch.export`."""
    from torch._higher_order_ops.scan import scan

    def back(carry: tuple[Tensor, Tensor], given: tuple[Tensor, Tensor]) -> Any:
        here = tuple(x.clone() for x in carry)
        return _step_back(*carry, *given, transitions), here

    def ahead(carry: tuple[Tensor, Tensor, Tensor], given: tuple[Tensor, Tensor, Tensor, Tensor]) -> Any:
        values = _step_forward(*carry, *given, rows)
        return values[:3], values[3:]

    last = end + torch.zeros_like(emissions[0])
    _, (beta, best) = scan(back, (last, last.clone()), (emissions, mask), dim=0, reverse=True)
    rows = torch.cat([transitions, start.unsqueeze(0)])
    (_, _, total), (tags, marginals) = scan(ahead, _begin(emissions[0]), (emissions, mask, beta, best), dim=0)
    return tags, marginals, total.exp()


@cache
def _by_script() -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    with warnings.catch_warnings():  # scripts are deprecated, but nothing else keeps a loop in a trace
        warnings.simplefilter("ignore")
        return torch.jit.script(by_loop)


def _step_back(beta: Tensor, best: Tensor, e: Tensor, m: Tensor, transitions: Tensor) -> tuple[Tensor, Tensor]:
    """Beta and best one token earlier, ``(B, L)``; unchanged if there is no token here."""
    here = m.unsqueeze(1)
    sums = _near_zero(((e + beta).unsqueeze(1) + transitions).logsumexp(2))
    largest = _near_zero(((e + best).unsqueeze(1) + transitions).amax(2))
    return torch.where(here, sums, beta), torch.where(here, largest, best)


def _begin(e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Before the first token: alpha ``(B, L + 1)``, the row of the start scores, and log probability 0."""
    nowhere = torch.full_like(e, -torch.inf)
    alpha = torch.cat([nowhere, torch.zeros_like(e[:, :1])], 1)
    state = torch.zeros_like(e[:, 0]).long() + e.shape[1]
    return alpha, state, torch.zeros_like(e[:, 0])


def _step_forward(
    alpha: Tensor, state: Tensor, total: Tensor, e: Tensor, m: Tensor, beta: Tensor, best: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Alpha, label and log probability after this place; its label and marginals."""
    here = m.unsqueeze(1)
    # Without labels from which the end cannot be reached: the largest of them would round away the others.
    ahead = (alpha.unsqueeze(2) + rows).logsumexp(1) + e
    arriving = _near_zero(torch.where(torch.isinf(beta), beta, ahead))
    row = rows[state] + e
    chosen = (row + best).argmax(1)
    scores = row + beta
    gain = scores.gather(1, chosen.unsqueeze(1)).squeeze(1) - scores.logsumexp(1)
    moved = torch.cat([arriving, torch.full_like(e[:, :1], -torch.inf)], 1)
    marginals = torch.where(here, (arriving + beta).softmax(1), torch.zeros_like(e))
    tag = torch.where(m, chosen, torch.full_like(chosen, -1))
    return (
        torch.where(here, moved, alpha),
        torch.where(m, chosen, state),
        torch.where(m, total + gain, total),
        tag,
        marginals,
    )


def _near_zero(values: Tensor) -> Tensor:
    """The values minus the largest of their row, which changes no difference between them."""
    largest = values.amax(1, keepdim=True)
    return values - torch.where(torch.isinf(largest), torch.zeros_like(largest), largest)

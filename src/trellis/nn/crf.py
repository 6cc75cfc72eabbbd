"""The linear-chain CRF as a layer: emissions of any encoder in, loss, labels and probabilities out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trellis.chain import torch as chain
from trellis.chain.torch import library
from trellis.errors import ChainError, ConfigError, ShapeError
from trellis.nn import arguments
from trellis.nn.arguments import Constraints
from trellis.nn.exporting import ExportDecoder


class CRF(nn.Module):
    """Conditional random field over the labels of a sequence.

    ``P(y | x) = exp(score) / Z`` with ``score = start[y[0]] + sum_t (emissions[t, y[t]] + transitions[y[t-1], y[t]])
    + end[y[T-1]]``. Constructor, parameters, ``forward`` and ``decode`` are those of pytorch-crf.

    Tensors are ``(T, B, ...)``, or ``(B, T, ...)`` with ``batch_first``. A mask says which places hold a token: holes,
    padding on the left and empty rows are all fine, and ``lengths[B]`` may be given instead. Places where ``tags`` is
    ``ignore_index`` hold no token either. Tags may also be one-hot, shaped like the emissions, where a place of zeros
    holds no token. ``scores(...)`` is the distribution itself, and the other methods ask it;
    ``edges=`` adds scores of transitions that depend on the place.

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
        self._set_constraints(constraints)
        self.reset_parameters()

    def _set_constraints(self, constraints: Constraints | None) -> None:
        """Keep what is forbidden as buffers outside the state dict, so that checkpoints fit with and without them."""
        names = ("transitions", "start", "end")
        for name, mask in zip(names, arguments.forbidden(constraints, self.num_tags), strict=True):
            self.register_buffer(f"_forbidden_{name}", mask, persistent=False)

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
        library.refuse_export_of_scores()
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
            options = (self.batch_first, self.ignore_index, arguments.known(reduction))
            places = self._places(emissions, mask, lengths)
            return library.nll(emissions, tags, places, *self.chain_parameters(), edges, *options)
        scores = self.scores(emissions, mask, lengths=lengths, edges=edges, tags=tags)
        weights = None if label_weights is None or tags is None else self._weights(tags, label_weights)
        return scores.nll(tags, allowed=allowed, weights=weights, scale=arguments.scale(scores, reduction))

    def _weights(self, tags: Tensor, label_weights: Tensor) -> Tensor:
        if label_weights.shape != (self.num_tags,):
            raise ShapeError(f"label_weights must be (L,) = ({self.num_tags},), got {tuple(label_weights.shape)}")
        known = (tags >= 0) & (tags < self.num_tags)  # the others are reported, or ignored
        return label_weights[tags.where(known, 0)]

    def score(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> Tensor:
        """Score of the tags of each sequence, ``(B,)``; minus infinity if they are forbidden."""
        tags = self._numbers(emissions, tags)
        return self.scores(emissions, mask, lengths=lengths, edges=edges, tags=tags).score(tags)

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
    ) -> chain.Decoded:
        """The best labels as a tensor, -1 where there is no token, and their scores ``(B,)``."""
        if torch.compiler.is_compiling() and allowed is None:
            self._check(emissions, None, mask)
            places = self._places(emissions, mask, lengths)
            return library.viterbi(emissions, places, *self.chain_parameters(), edges, self.batch_first)
        return self.scores(emissions, mask, lengths=lengths, edges=edges).viterbi(allowed=allowed)

    def log_partition(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        allowed: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> Tensor:
        """Log Z of each sequence, ``(B,)``."""
        return self.scores(emissions, mask, lengths=lengths, edges=edges).log_partition(allowed=allowed)

    def marginals(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        allowed: Tensor | None = None,
        edges: Tensor | None = None,
        pairwise: bool = False,
    ) -> chain.Marginals:
        """Probability of each label at each token (0 at places without one), and expected transitions."""
        return self.scores(emissions, mask, lengths=lengths, edges=edges).marginals(allowed=allowed, pairwise=pairwise)

    def kbest(
        self,
        emissions: Tensor,
        k: int,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        allowed: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> chain.Paths:
        """The k best label sequences of each sequence with their scores, best first."""
        return self.scores(emissions, mask, lengths=lengths, edges=edges).kbest(k, allowed=allowed)

    def sample(
        self,
        emissions: Tensor,
        n: int = 1,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        allowed: Tensor | None = None,
        edges: Tensor | None = None,
        seed: int = 0,
    ) -> Tensor:
        """``n`` label sequences drawn from the exact distribution, -1 where there is no token."""
        return self.scores(emissions, mask, lengths=lengths, edges=edges).sample(n, seed=seed, allowed=allowed)

    def entropy(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        allowed: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> Tensor:
        """Entropy of each sequence's distribution over label sequences in nats, ``(B,)``."""
        return self.scores(emissions, mask, lengths=lengths, edges=edges).entropy(allowed=allowed)

    def span_log_prob(
        self,
        emissions: Tensor,
        spans: Tensor | list[list[int]],
        tags: Tensor | list[list[int]],
        mask: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        before: Tensor | None = None,
        after: Tensor | None = None,
        allowed: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> Tensor:
        """Exact log probability that spans carry given labels; see ``trellis.chain.ChainScores.span_log_prob``.

        Positions count the tokens of a sequence, not its padding.
        """
        scores = self.scores(emissions, mask, lengths=lengths, edges=edges)
        return scores.span_log_prob(spans, tags, before=before, after=after, allowed=allowed)

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
        if torch.compiler.is_compiling() or library.is_traced():  # the question itself is slow
            library.refuse_exporters()
        arguments.check_padded(emissions, tags, mask, self.num_tags)

    def _places(self, emissions: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor | None:
        return arguments.places(emissions, mask, lengths, batch_first=self.batch_first)

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

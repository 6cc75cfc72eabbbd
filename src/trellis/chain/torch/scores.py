"""``ChainScores`` of tensors: native kernels on the CPU, the torch implementation elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from trellis import _native
from trellis.arrays import plain_tensor
from trellis.chain import scores as arrays
from trellis.chain.problems import (
    OneSequence,
    check_loss,
    check_side,
    check_span_tags,
    check_spans,
    check_weights,
)
from trellis.chain.scores import Decoded, Marginals, Paths
from trellis.chain.tables import Tabled
from trellis.chain.torch import scan
from trellis.chain.torch.autograd import (
    Arguments,
    BatchLoss,
    ChainLoss,
    Gradients,
    Inference,
    layout_lengths,
    layout_of_mask,
    loss_and_gradient,
    make_inference,
    native_gradient,
    ragged,
    raise_report,
    to_numpy,
    token_rows,
)
from trellis.errors import ShapeError
from trellis.ragged import check_lengths

Backend = Literal["auto", "scan"]


class ChainScores(Tabled):
    """The scores of a batch as tensors, with the questions of ``trellis.chain.ChainScores``.

    Args:
        emissions: ``(N, L)`` with ``lengths``, or padded with ``ChainScores.padded``. Half and bfloat16 are computed
            in float32.
        lengths: ``(B,)``, adding up to N.
        transitions: ``(L, L)``, from row to column.
        start: ``(L,)``, zeros by default.
        end: ``(L,)``, zeros by default.
        edges: ``(P, L, L)``, what is added to the transitions of each pair of neighbouring tokens, or None.
        backend: "auto", or "scan" to use the torch implementation on the CPU too.

    """

    __slots__ = ("edges", "emissions", "end", "layout", "native", "shape", "start", "transitions")

    def __init__(
        self,
        emissions: Tensor,
        lengths: Tensor | Sequence[int] | npt.NDArray[Any],
        transitions: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
        edges: Tensor | None = None,
        *,
        backend: Backend = "auto",
    ) -> None:
        if emissions.dim() != 2 or emissions.shape[1] < 1:
            raise ShapeError(f"emissions must be (N, L) with L >= 1, got {tuple(emissions.shape)}")
        checked = check_lengths(to_numpy(lengths), len(emissions))
        self.layout = _native.layout_of_lengths(checked, len(checked), len(emissions))
        self._set(emissions, transitions, start, end, backend)
        if edges is not None:
            self._set_edges(edges, "(P, L, L)", self.layout.pairs)

    @classmethod
    def padded(
        cls,
        emissions: Tensor,
        mask: Tensor | None,
        transitions: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
        edges: Tensor | None = None,
        *,
        batch_first: bool = True,
        tags: Tensor | None = None,
        ignore_index: int = -100,
        backend: Backend = "auto",
    ) -> Self:
        """The scores of a padded batch ``(B, T, L)``, or ``(T, B, L)`` with ``batch_first=False``.

        The tokens of a sequence are the true places of its row of ``mask`` (B, T) (or column of (T, B)), in order:
        holes, padding on the left and empty rows are all fine. Without a mask every place is a token. With ``tags``,
        places whose tag is ``ignore_index`` are skipped too.

        ``edges`` are ``(B, T - 1, L, L)``, or ``(T - 1, B, L, L)``: those of place t - 1 are added to the scores of
        transitions into the token at place t, from the token before it, which is at t - 1 or, if the mask has holes,
        further left. Those into places without a token, and into the first token of a sequence, are ignored.
        """
        shape = emissions.shape
        if len(shape) != 3 or shape[2] < 1:
            raise ShapeError(f"emissions must be (B, T, L) with L >= 1, got {tuple(shape)}")
        first, second, _ = shape
        for name, places in (("mask", mask), ("tags", tags)):
            if places is not None and places.shape != (first, second):
                raise ShapeError(
                    f"{name} must be {(first, second)} to match emissions {tuple(shape)}, got {tuple(places.shape)}"
                )
        self = cls.__new__(cls)
        self.layout = layout_of_mask(shape, mask, tags, ignore_index, batch_first)
        self._set(emissions, transitions, start, end, backend)
        if edges is not None:
            if batch_first:
                self._set_edges(edges, "(B, T - 1, L, L)", first, max(second - 1, 0))
            else:
                self._set_edges(edges, "(T - 1, B, L, L)", max(first - 1, 0), second)
        return self

    def _set(
        self, emissions: Tensor, transitions: Tensor, start: Tensor | None, end: Tensor | None, backend: Backend
    ) -> None:
        L = emissions.shape[-1]
        dtype = emissions.dtype if emissions.dtype == torch.float64 else torch.float32
        self.shape = emissions.shape
        self.native = backend == "auto" and emissions.is_cpu
        # In its own shape: a view would add a node to the graph.
        self.emissions = self._plain(emissions, dtype)
        self.transitions = self._matching("transitions", transitions, "(L, L)", (L, L))
        self.start = self._zeros() if start is None else self._matching("start", start, "(L,)", (L,))
        self.end = self._zeros() if end is None else self._matching("end", end, "(L,)", (L,))
        self.edges: Tensor | None = None

    def _set_edges(self, edges: Tensor, letters: str, *places: int) -> None:
        self.edges = self._matching("edges", edges, letters, (*places, self.num_labels, self.num_labels))

    def _matching(self, name: str, x: Tensor, letters: str, shape: tuple[int, ...]) -> Tensor:
        if not isinstance(x, Tensor):
            raise ShapeError(f"{name} must be a tensor {letters} = {shape}, got {type(x).__name__}")
        if x.shape != shape:
            raise ShapeError(
                f"{name} must be {letters} = {shape} to match emissions {tuple(self.shape)}, got {tuple(x.shape)}"
            )
        if self.native and not x.is_cpu:
            raise ShapeError(f"{name} must be on the cpu to match emissions, got {x.device}")
        return self._plain(x, self.emissions.dtype)

    def _plain(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return plain_tensor(x, dtype) if self.native else x.to(dtype).contiguous()  # it may have no address

    def _zeros(self) -> Tensor:
        return self.emissions.new_zeros(self.num_labels)

    @property
    def num_labels(self) -> int:
        """L, the number of labels."""
        return int(self.shape[-1])

    @property
    def _num_rows(self) -> int:
        """Places in the layout of the emissions, including those without a token."""
        return self.shape[:-1].numel()

    @property
    def _arguments(self) -> Arguments:
        """Emissions, transitions, start, end, edges."""
        return self.emissions, self.transitions, self.start, self.end, self.edges

    def restricted(self, allowed: Tensor | None) -> Self:
        """The scores with every label outside ``allowed`` (shaped like the emissions) forbidden."""
        if allowed is None:
            return self
        if allowed.shape != self.shape or allowed.dtype != torch.bool:
            raise ShapeError(
                f"allowed must be bool {tuple(self.shape)} to match emissions, "
                f"got {allowed.dtype} {tuple(allowed.shape)}"
            )
        other = type(self).__new__(type(self))
        for name in ChainScores.__slots__:
            setattr(other, name, getattr(self, name))
        other.emissions = self.emissions.masked_fill(~allowed, -torch.inf)
        return other

    def requires_grad(self) -> bool:
        """Whether an answer computed from these scores becomes part of a graph."""
        e, a, s, z, edges = self._arguments
        wanted = e.requires_grad or a.requires_grad or s.requires_grad or z.requires_grad
        return torch.is_grad_enabled() and (wanted or (edges is not None and edges.requires_grad))

    def log_partition(self, *, allowed: Tensor | None = None) -> Tensor:
        """Log Z of each sequence, (B,). Its gradient is the marginals."""
        given = self.restricted(allowed)
        return given._native_losses(None) if given.native else given._scan_log_partition()

    def score(self, tags: Tensor) -> Tensor:
        """Score of the given labels of each sequence, (B,)."""
        path = self._check_tags(tags)
        if not self.native or self.requires_grad():
            return self._scan_score(path)
        out = self._by_sequence()
        self._check(self._inference().score(path.data_ptr(), out.data_ptr()), path)
        return out.to(self.emissions.dtype)

    def nll(
        self,
        tags: Tensor | None = None,
        *,
        allowed: Tensor | None = None,
        weights: Tensor | None = None,
        scale: float | None = None,
    ) -> Tensor:
        """Negative log-likelihood, (B,), never negative: of the given labels, or that they are among ``allowed``.

        With ``weights``, shaped like the tags, each token counts by its weight; see ``trellis.chain.ChainScores.nll``.
        With ``scale``, the sum over the batch times the scale, which saves work if nothing else is needed.
        """
        check_loss(tags, allowed, weights)
        if tags is None:
            losses = (self.log_partition() - self.log_partition(allowed=allowed)).clamp_min(0)
            return losses if scale is None else losses.sum() * scale
        path = self._check_tags(tags)
        if self.native and weights is None and scale is not None:
            arguments = (self.requires_grad(), self.layout, path, scale, *self._arguments)
            loss: Tensor = BatchLoss.apply(*arguments)  # type: ignore[no-untyped-call]
            return loss
        if weights is not None:
            check_weights(weights, path)
            weights = plain_tensor(weights, torch.float64)
        if self.native:
            losses = self._native_losses(path, weights)
        elif weights is None:
            losses = (self._scan_log_partition() - self._scan_gold_score(path)).clamp_min(0)
        else:
            self._scan_gold_score(path)
            rows = self._rows()
            by_token = weights.reshape(-1)[rows].to(self.emissions.dtype)
            losses = scan.weighted_nll(self._ragged(), path.reshape(-1)[rows], by_token)
        return losses if scale is None else losses.sum() * scale

    def _native_losses(self, path: Tensor | None, weights: Tensor | None = None) -> Tensor:
        """The loss of the path of each sequence, or log Z if there is none."""
        arguments = (self.requires_grad(), self.layout, path, weights, *self._arguments)
        losses: Tensor = ChainLoss.apply(*arguments)  # type: ignore[no-untyped-call]
        return losses

    def nll_gradient(self, tags: Tensor, grad: Tensor) -> list[Tensor]:
        """The gradient of ``(grad * nll(tags)).sum()``, for use when autograd is off.

        By emissions, transitions, start, end, and edges if there are any.
        """
        path = self._check_tags(tags)
        if not self.native:
            return self._scan_nll_gradient(path, grad)
        inference, values = self._inference(), self._by_sequence()
        self._check(inference.nll(path.data_ptr(), values.data_ptr(), True), path)
        grads = native_gradient(inference, self._arguments, grad, True)
        return [x for x in grads if x is not None]

    def total_nll_gradient(self, tags: Tensor) -> tuple[Tensor, Gradients]:
        """The loss summed over the batch, and its gradient, in one pass by the native kernels: CPU tensors only.

        For use when autograd is off; the gradient is by emissions, transitions, start, end, and edges or None.
        """
        return loss_and_gradient(self._inference(), self.layout, self._arguments, self._check_tags(tags), 1.0)

    def viterbi(self, *, allowed: Tensor | None = None) -> Decoded[Tensor, Tensor]:
        """The best label sequence of each sequence and its score, whose gradient is that of the path's score."""
        given = self.restricted(allowed)
        if not given.native:
            given._scan_log_partition()
            flat, best = scan.viterbi(given._ragged())
            return Decoded(given._by_token(flat, -1), best)
        tags = torch.empty(given.shape[:-1], dtype=torch.int64)
        out = torch.empty(given.layout.sequences, dtype=given.emissions.dtype)
        given._check(given._inference().viterbi_rounded(tags.data_ptr(), tags.numel(), out.data_ptr()))
        return Decoded(tags, given.score(tags) if given.requires_grad() else out)

    def best_lists(self) -> list[list[int]]:
        """The best labels of each sequence as a list, one label per token."""
        if self.native:
            report, lists = self._inference().viterbi_lists(self._num_rows, self.num_labels)
            self._check(report)
            return lists
        with torch.no_grad():
            tags = self.viterbi().tags.cpu()
        return self.layout.lists(tags.data_ptr(), tags.numel(), self.num_labels)

    def kbest(self, k: int, *, allowed: Tensor | None = None) -> Paths[Tensor, Tensor]:
        """The k best label sequences of each sequence, best first; fewer if fewer exist.

        It is computed on the CPU, without gradients; an answer holds at most 2**27 tags, as with
        ``trellis.chain.ChainScores``.
        """
        answer, like = self.restricted(allowed)._numpy().kbest(k), self.emissions
        tags = [torch.from_numpy(paths).to(like.device) for paths in answer.tags]
        return Paths(tags, [torch.from_numpy(scores).to(like) for scores in answer.scores])

    def marginals(self, *, allowed: Tensor | None = None, pairwise: bool = False) -> Marginals[Tensor, Tensor]:
        """Probabilities of labels by forward-backward, and expected counts of transitions."""
        given = self.restricted(allowed)
        if not given.native or given.requires_grad():
            given._scan_log_partition()
            total, tokens, by_pair = scan.marginals(given._ragged())
            lengths = given._lengths()
            stops = lengths.cumsum(0)[lengths > 0].to(tokens.device)
            starts = stops - lengths[lengths > 0].to(tokens.device)
            counts = (by_pair.sum(0), tokens[starts].sum(0), tokens[stops - 1].sum(0))
            return Marginals(total, given._by_token(tokens), *counts, by_pair if pairwise else None)
        tokens = torch.zeros_like(given.emissions)
        a, s, e = (torch.empty_like(x) for x in (given.transitions, given.start, given.end))
        out, inference = given._by_sequence(), given._inference()
        pointers = (tokens.data_ptr(), a.data_ptr(), s.data_ptr(), e.data_ptr())
        pairs = None
        if pairwise:
            pairs = tokens.new_empty(given.layout.pairs, *a.shape)
            given._check(inference.pairwise(out.data_ptr(), *pointers, pairs.data_ptr()))
        else:
            given._check(inference.marginals(out.data_ptr(), given._num_rows, *pointers))
        return Marginals(out.to(tokens.dtype), tokens, a, s, e, pairs)

    def sample(self, n: int = 1, *, seed: int = 0, allowed: Tensor | None = None) -> Tensor:
        """``n`` label sequences of each sequence, drawn from their exact distribution: (n, *layout of the emissions).

        They are drawn on the CPU, and may be at most 2**27 tags.
        """
        given = self.restricted(allowed)
        drawn = torch.from_numpy(given._numpy().sample(n, seed=seed)).to(given.emissions.device)
        return torch.stack([given._by_token(tags, -1) for tags in drawn])

    def entropy(self, *, allowed: Tensor | None = None) -> Tensor:
        """Entropy (nats) of each sequence's distribution over label sequences, (B,)."""
        given = self.restricted(allowed)
        if not given.native or given.requires_grad():
            given._scan_log_partition()
            return scan.entropy(given._ragged())
        out = given._by_sequence()
        given._check(given._inference().entropy(out.data_ptr()))
        return out.to(given.emissions.dtype)

    def span_log_prob(
        self,
        spans: Tensor | Sequence[Sequence[int]],
        tags: Tensor | Sequence[Sequence[int]],
        *,
        before: Tensor | None = None,
        after: Tensor | None = None,
        allowed: Tensor | None = None,
    ) -> Tensor:
        """Exact log probability that spans carry given labels, (S,); see ``trellis.chain.ChainScores.span_log_prob``.

        Positions count the tokens of a sequence, not its padding.
        """
        given, L = self.restricted(allowed), self.num_labels
        checked = check_spans(to_numpy(spans), given._lengths().numpy())
        path, S = check_span_tags(to_numpy(tags), checked, L), len(checked)
        sides = (check_side("before", to_numpy(before), S, L), check_side("after", to_numpy(after), S, L))
        if not given.native or given.requires_grad():
            given._scan_log_partition()
            device = given.emissions.device
            masks = (None if isinstance(x, int) else torch.from_numpy(x).bool().to(device) for x in sides)
            return scan.span_log_prob(
                given._ragged(), *(torch.from_numpy(x).to(device) for x in (checked, path)), *masks
            )
        out = torch.empty(S, dtype=torch.float64)
        given._check(given._inference().spans(checked, S, path, *sides, 0, L, out.data_ptr()))
        return out.to(given.emissions.dtype)

    def _sequences(self, allowed: Tensor | None) -> list[OneSequence]:
        """The scores as arrays: a table has no gradients, and its rows are tokens, not padding."""
        return self.restricted(allowed)._numpy()._sequences(None)

    def _numpy(self) -> arrays.ChainScores:
        """The scores of tokens as arrays, without gradients."""
        return arrays.ChainScores(*map(to_numpy, self._ragged()))

    def _inference(self) -> Inference:
        """The native side; it points into these tensors, which must be given alive."""
        return make_inference(self.layout, self._arguments)

    def _rows(self) -> Tensor:
        return token_rows(self.layout).to(self.emissions.device)

    def _lengths(self) -> Tensor:
        """Length of each sequence, int64[B], on the CPU."""
        return layout_lengths(self.layout)

    def _ragged(self) -> scan.Chain:
        """The input of ``scan``."""
        return ragged(self.layout, self._arguments)

    def _by_token(self, values: Tensor, fill: float = 0) -> Tensor:
        """Put values of tokens ``(N, ...)`` back into the layout of the emissions."""
        rest = values.shape[1:]
        if len(self.shape) == 2:
            return values
        out = values.new_full((self._num_rows, *rest), fill)
        return out.index_copy(0, self._rows(), values).reshape(*self.shape[:-1], *rest)

    def _check(self, report: tuple[int, int], tags: Tensor | None = None) -> None:
        if report[0]:
            raise_report(report, self.layout, self._arguments, tags)

    def _check_tags(self, tags: Tensor) -> Tensor:
        """Tags as the native side expects them; it checks that each is a label."""
        if tags.shape != self.shape[:-1] or tags.dtype.is_floating_point or tags.dtype.is_complex:
            raise ShapeError(
                f"tags must be integers {tuple(self.shape[:-1])} to match emissions {tuple(self.shape)}, "
                f"got {tags.dtype} {tuple(tags.shape)}"
            )
        if self.native and not tags.is_cpu:
            raise ShapeError(f"tags must be on the cpu to match emissions, got {tags.device}")
        return plain_tensor(tags, torch.int64) if self.native else tags.to(torch.int64).contiguous()

    def _by_sequence(self) -> Tensor:
        """Where the native side writes a value for each sequence."""
        return torch.empty(self.layout.sequences, dtype=torch.float64)

    def _scan_log_partition(self) -> Tensor:
        """Log Z of each sequence by the torch implementation; the native side says what is wrong with the scores."""
        self._check_finite()
        value = scan.log_partition(self._ragged())
        if bool((value == -torch.inf).any()):
            self._numpy().log_partition()
        return value

    def _scan_score(self, tags: Tensor) -> Tensor:
        """Score of the given labels of each sequence by the torch implementation."""
        self._check_finite()
        path = tags.reshape(-1)[self._rows()]
        if bool(((path < 0) | (path >= self.num_labels)).any()):
            self._numpy().score(to_numpy(path))
        return scan.path_score(self._ragged(), path)

    def _scan_gold_score(self, tags: Tensor) -> Tensor:
        """Score of the given labels by the torch implementation; forbidden labels are an error."""
        gold = self._scan_score(tags)
        if bool((gold == -torch.inf).any()):
            self._numpy().nll(to_numpy(tags.reshape(-1)[self._rows()]))
        return gold

    def _scan_nll_gradient(self, tags: Tensor, grad: Tensor) -> list[Tensor]:
        """The gradient of ``(grad * nll).sum()`` without autograd: emissions by row, transitions, start, end, edges."""
        L, rows = self.num_labels, self._rows()
        labels, lengths = tags.reshape(-1)[rows], self._lengths().to(grad.device)
        weights = grad.repeat_interleave(lengths)  # [N]
        _, tokens, pairs = scan.marginals(self._ragged())
        d_tokens = (tokens - one_hot(labels, L)) * weights[:, None]
        first = torch.ones_like(labels, dtype=torch.bool)
        first[1:] = torch.arange(len(lengths), device=grad.device).repeat_interleave(lengths).diff() != 0
        last = first.roll(-1)
        observed = one_hot(labels[:-1][~first[1:]] * L + labels[1:][~first[1:]], L * L).view(-1, L, L)
        d_pairs = (pairs - observed) * weights[~first][:, None, None]
        d_emissions = torch.zeros_like(self.emissions).reshape(-1, L).index_copy_(0, rows, d_tokens)
        grads = [d_emissions, d_pairs.sum(0), d_tokens[first].sum(0), d_tokens[last].sum(0)]
        if self.edges is not None:
            pair_rows = torch.from_numpy(self.layout.edge_rows).to(grad.device)
            grads.append(torch.zeros_like(self.edges).view(-1, L, L).index_copy_(0, pair_rows, d_pairs))
        return grads

    def _check_finite(self) -> None:
        """No score is NaN or plus infinity."""
        emissions, _, *others = self._ragged()
        if any(not bool((x < torch.inf).all()) for x in (emissions, *others) if x is not None):
            self._numpy().log_partition()

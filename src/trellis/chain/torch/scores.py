"""``ChainScores`` of tensors: native kernels on the CPU, the torch implementation elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trellis.arrays import plain_tensor
from trellis.chain import scores as arrays
from trellis.chain._checks import (
    check_kbest,
    check_loss,
    check_sample,
    check_seed,
    check_side,
    check_span_tags,
    check_spans,
)
from trellis.chain.tables import Sequences, Tabled
from trellis.chain.torch import _scan, by_scan
from trellis.chain.torch.answers import Decoded, Marginals, Paths
from trellis.chain.torch.autograd import (
    BatchLoss,
    ChainLoss,
    Gradients,
    WeightedLoss,
    loss_and_gradient,
    native_gradient,
)
from trellis.chain.torch.batch import Batch, to_numpy
from trellis.errors import ShapeError


class ChainScores(Batch, Tabled):
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

    __slots__ = ()

    def log_partition(self, *, allowed: Tensor | None = None) -> Tensor:
        """Log Z of each sequence, (B,). Its gradient is the marginals."""
        kept = self.restricted(allowed)
        return kept._native_loss(None, None) if kept.native else by_scan.log_partition(kept)

    def score(self, tags: Tensor) -> Tensor:
        """Score of the given labels of each sequence, (B,)."""
        path = self.check_tags(tags)
        if not self.native or self.requires_grad():
            return by_scan.path_score(self, path)
        out = self.by_sequence()
        self.check(self.inference().score(path.data_ptr(), out.data_ptr()), path)
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
        if tags is not None and weights is None and self.native:
            return self._native_loss(self.check_tags(tags), scale)
        losses = self._losses(tags, allowed, weights)
        return losses if scale is None else losses.sum() * scale

    def _losses(self, tags: Tensor | None, allowed: Tensor | None, weights: Tensor | None) -> Tensor:
        if tags is None:
            return (self.log_partition() - self.log_partition(allowed=allowed)).clamp_min(0)
        path = self.check_tags(tags)
        if weights is not None:
            return self._weighted_loss(path, weights)
        return (by_scan.log_partition(self) - by_scan.gold_score(self, path)).clamp_min(0)

    def _native_loss(self, path: Tensor | None, scale: float | None) -> Tensor:
        loss: Tensor
        if path is not None and scale is not None:
            arguments = (self.requires_grad(), self.layout, path, scale, *self.arguments)
            loss = BatchLoss.apply(*arguments)  # type: ignore[no-untyped-call]
        else:
            loss = ChainLoss.apply(self.requires_grad(), self.layout, path, *self.arguments)  # type: ignore[no-untyped-call]
        return loss

    def _weighted_loss(self, path: Tensor, weights: Tensor) -> Tensor:
        if weights.shape != path.shape or not bool((weights >= 0).all()):
            raise ShapeError(
                f"weights must be numbers >= 0 of shape {tuple(path.shape)} to match tags, got {tuple(weights.shape)}"
            )
        plain = plain_tensor(weights, torch.float64)
        if self.native:
            loss: Tensor = WeightedLoss.apply(self.layout, path, plain, *self.arguments)  # type: ignore[no-untyped-call]
            return loss
        by_scan.gold_score(self, path)
        rows = self.rows()
        kept = plain.reshape(-1)[rows].to(self.emissions.dtype)
        return _scan.weighted_nll(self.ragged(), path.reshape(-1)[rows], kept)

    def nll_gradient(self, tags: Tensor, grad: Tensor) -> list[Tensor]:
        """The gradient of ``(grad * nll(tags)).sum()``, for use when autograd is off.

        By emissions, transitions, start, end, and edges if there are any.
        """
        path = self.check_tags(tags)
        if not self.native:
            return by_scan.nll_gradient(self, path, grad)
        inference, values = self.inference(), self.by_sequence()
        self.check(inference.nll(path.data_ptr(), values.data_ptr(), True), path)
        grads = native_gradient(inference, self.arguments, grad, True)
        return [x for x in grads if x is not None]

    def total_nll_gradient(self, tags: Tensor) -> tuple[Tensor, Gradients]:
        """The loss summed over the batch, and its gradient, in one pass by the native kernels: CPU tensors only.

        For use when autograd is off; the gradient is by emissions, transitions, start, end, and edges or None.
        """
        return loss_and_gradient(self.inference(), self.layout, self.arguments, self.check_tags(tags), 1.0)

    def viterbi(self, *, allowed: Tensor | None = None) -> Decoded:
        """The best label sequence of each sequence and its score, whose gradient is that of the path's score."""
        kept = self.restricted(allowed)
        if not kept.native:
            by_scan.log_partition(kept)
            flat, best = _scan.viterbi(kept.ragged())
            return Decoded(kept.by_token(flat, -1), best)
        tags = torch.empty(kept.shape[:-1], dtype=torch.int64)
        out = torch.empty(kept.layout.sequences, dtype=kept.emissions.dtype)
        kept.check(kept.inference().viterbi_rounded(tags.data_ptr(), tags.numel(), out.data_ptr()))
        return Decoded(tags, kept.score(tags) if kept.requires_grad() else out)

    def best_lists(self) -> list[list[int]]:
        """The best labels of each sequence as a list, one label per token."""
        if self.native:
            report, found = self.inference().viterbi_lists(self.num_rows, self.num_labels)
            self.check(report)
            return found
        with torch.no_grad():
            tags = self.viterbi().tags.cpu()
        return self.layout.lists(tags.data_ptr(), tags.numel(), self.num_labels)

    def kbest(self, k: int, *, allowed: Tensor | None = None) -> Paths:
        """The k best label sequences of each sequence, best first; fewer if fewer exist.

        An answer holds at most 2**27 tags, as with ``trellis.chain.ChainScores``. The torch implementation keeps k
        numbers for each label of each place of the padded batch, and these may be at most 2**27.
        """
        kept = self.restricted(allowed)
        lengths = kept.lengths()
        wanted = check_kbest(k, lengths.numpy(), kept.num_labels, by_label=not kept.native)
        if kept.native:
            report, *arrays = kept.inference().kbest(wanted)
            kept.check(report)
            counts, best, flat = (torch.from_numpy(array) for array in arrays)
        else:
            by_scan.log_partition(kept)
            counts, best, flat = _scan.kbest(kept.ragged(), wanted)
        sizes = counts.tolist()
        paths = torch.split(flat, (counts.cpu() * lengths).tolist())
        shapes = zip(paths, sizes, lengths.tolist(), strict=True)
        tags = [path.reshape(count, length) for path, count, length in shapes]
        return Paths(tags, list(torch.split(best.to(kept.emissions.dtype), sizes)))

    def marginals(self, *, allowed: Tensor | None = None, pairwise: bool = False) -> Marginals:
        """Probabilities of labels by forward-backward, and expected counts of transitions."""
        kept = self.restricted(allowed)
        if not kept.native or kept.requires_grad():
            return by_scan.marginals(kept, pairwise)
        tokens = torch.zeros_like(kept.emissions)
        a, s, e = (torch.empty_like(x) for x in (kept.transitions, kept.start, kept.end))
        out, inference = kept.by_sequence(), kept.inference()
        pointers = (tokens.data_ptr(), a.data_ptr(), s.data_ptr(), e.data_ptr())
        pairs = None
        if pairwise:
            pairs = tokens.new_empty(kept.layout.pairs, *a.shape)
            kept.check(inference.pairwise(out.data_ptr(), *pointers, pairs.data_ptr()))
        else:
            kept.check(inference.marginals(out.data_ptr(), kept.num_rows, *pointers))
        return Marginals(out.to(tokens.dtype), tokens, a, s, e, pairs)

    def sample(self, n: int = 1, *, seed: int = 0, allowed: Tensor | None = None) -> Tensor:
        """``n`` label sequences of each sequence, drawn from their exact distribution: (n, *layout of the emissions).

        That may be at most 2**27 tags.
        """
        kept = self.restricted(allowed)
        n = check_sample(n, kept.num_rows)
        if not kept.native:
            by_scan.log_partition(kept)
            generator = torch.Generator(kept.emissions.device).manual_seed(check_seed(seed))
            with torch.no_grad():
                drawn = _scan.sample(kept.ragged(), n, generator)
            return torch.stack([kept.by_token(one, -1) for one in drawn])
        rows = kept.num_rows
        tags = torch.full((n, rows), -1, dtype=torch.int64)
        kept.check(kept.inference().sample(n, check_seed(seed), tags.data_ptr(), rows))
        return tags.view(n, *kept.shape[:-1])

    def entropy(self, *, allowed: Tensor | None = None) -> Tensor:
        """Entropy (nats) of each sequence's distribution over label sequences, (B,)."""
        kept = self.restricted(allowed)
        if not kept.native or kept.requires_grad():
            by_scan.log_partition(kept)
            return _scan.entropy(kept.ragged())
        out = kept.by_sequence()
        kept.check(kept.inference().entropy(out.data_ptr()))
        return out.to(kept.emissions.dtype)

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
        kept, L = self.restricted(allowed), self.num_labels
        checked = check_spans(to_numpy(spans), kept.lengths().numpy())
        path = check_span_tags(to_numpy(tags), checked, L)
        first, last = (
            check_side(name, to_numpy(side), len(checked), L) for name, side in (("before", before), ("after", after))
        )
        if not kept.native or kept.requires_grad():
            by_scan.log_partition(kept)
            device = kept.emissions.device
            sides = (None if isinstance(side, int) else torch.from_numpy(side) for side in (first, last))
            masks = (None if side is None else side.bool().to(device) for side in sides)
            where = (torch.from_numpy(checked).to(device), torch.from_numpy(path).to(device))
            return _scan.span_log_prob(kept.ragged(), *where, *masks)
        out = torch.empty(len(checked), dtype=torch.float64)
        kept.check(kept.inference().spans(checked, len(checked), path, first, last, 0, L, out.data_ptr()))
        return out.to(kept.emissions.dtype)

    def _sequences(self, allowed: Tensor | None) -> Sequences:
        """The scores as arrays: a table has no gradients, and its rows are tokens, not padding."""
        plain = (to_numpy(x) for x in self.restricted(allowed).ragged())
        return arrays.ChainScores(*plain)._sequences(None)

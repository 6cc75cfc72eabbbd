"""pytorch-crf's public name, on the kernels of Trellis: ``from trellis.compat.torchcrf import CRF``.

Parameters, results and error messages are those of pytorch-crf 0.7.2, and its checkpoints load unchanged. Like the
original, it refuses masks whose first timestep is off; ``trellis.nn.CRF`` accepts any mask.
"""

from __future__ import annotations

from torch import Tensor

from trellis import nn
from trellis.chain.torch import ChainScores
from trellis.errors import ShapeError

__all__ = ["CRF"]

__version__ = "0.7.2"


class CRF(nn.CRF):
    """``torchcrf.CRF``, exact and fast; see ``trellis.nn.CRF`` for what it can do beyond the original."""

    def _check(self, emissions: Tensor, tags: Tensor | None, mask: Tensor | None) -> None:
        super()._check(emissions, tags, mask)
        if mask is not None and not (mask[:, 0] if self.batch_first else mask[0]).all():
            raise ShapeError("mask of the first timestep must all be on")

    # Private in pytorch-crf, but public scripts call them. Tensors are (T, B, ...), whatever `batch_first` says.

    def _validate(self, emissions: Tensor, tags: Tensor | None = None, mask: Tensor | None = None) -> None:
        self._check(emissions, tags, mask)

    def _compute_score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        return self._by_time(emissions, mask).score(tags)

    def _compute_normalizer(self, emissions: Tensor, mask: Tensor) -> Tensor:
        return self._by_time(emissions, mask).log_partition()

    def _viterbi_decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        return self._by_time(emissions, mask).best_lists()

    def _by_time(self, emissions: Tensor, mask: Tensor) -> ChainScores:
        return ChainScores.padded(emissions, mask, *self.chain_parameters(), batch_first=False)

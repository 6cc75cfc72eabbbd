"""Torch modules: the parts that neural taggers are made of.

`TransformerEncoder` and `CRFForTokenClassification` load when they are first used, since they need tokenizers and
transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import torch  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError("trellis.nn needs torch: pip install 'trellis-crf[neural]'", name="torch") from None

from trellis.lazy import lazily
from trellis.nn.characters import CharacterCNN, CharacterLSTM
from trellis.nn.crf import CRF
from trellis.nn.dropout import LockedDropout, TokenDropout, WordDropout
from trellis.nn.encoder import Batch, CategoryEmbedding, Characters, Encoder, Part, WordEmbedding
from trellis.nn.heads import CRFHead, Head, SegmentStates, SemiCRFHead, SoftmaxHead
from trellis.nn.lstm import BiLSTM, Packing
from trellis.nn.semicrf import SemiCRF, TokenScores
from trellis.nn.subwords import WordPooling, pool
from trellis.vectors import Coverage, Vectors, read_vectors

if TYPE_CHECKING:
    from trellis.nn.trainer import CRFForTokenClassification, align_labels
    from trellis.nn.transformer import TransformerEncoder

__all__ = [
    "CRF",
    "Batch",
    "BiLSTM",
    "CRFForTokenClassification",
    "CRFHead",
    "CategoryEmbedding",
    "CharacterCNN",
    "CharacterLSTM",
    "Characters",
    "Coverage",
    "Encoder",
    "Head",
    "LockedDropout",
    "Packing",
    "Part",
    "SegmentStates",
    "SemiCRF",
    "SemiCRFHead",
    "SoftmaxHead",
    "TokenDropout",
    "TokenScores",
    "TransformerEncoder",
    "Vectors",
    "WordDropout",
    "WordEmbedding",
    "WordPooling",
    "align_labels",
    "pool",
    "read_vectors",
]


__getattr__ = lazily(
    __name__, {"trainer": ("CRFForTokenClassification", "align_labels"), "transformer": ("TransformerEncoder",)}
)

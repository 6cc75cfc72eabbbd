"""Torch modules: the parts that neural taggers are made of.

`TransformerEncoder` and `CRFForTokenClassification` load when they are first used, since they need tokenizers and
transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.lazy import lazily
from trellis.nn.bilstm import BiLSTM
from trellis.nn.characters import CharacterCNN, CharacterLSTM
from trellis.nn.crf import CRF
from trellis.nn.dropout import LockedDropout, TokenDropout, WordDropout
from trellis.nn.embeddings import CategoryEmbedding, WordEmbedding
from trellis.nn.encoder import Batch, Characters, Encoder, Part
from trellis.nn.heads import CRFHead, Head, SoftmaxHead
from trellis.nn.pooling import WordPooling, pool
from trellis.nn.segment_head import SegmentStates, SemiCRFHead
from trellis.nn.semicrf import SemiCRF, TokenScores
from trellis.vectors import Coverage, Vectors, read_vectors

if TYPE_CHECKING:
    from trellis.nn.token_classification import CRFForTokenClassification, align_labels
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
    __name__,
    {
        "token_classification": ("CRFForTokenClassification", "align_labels"),
        "transformer": ("TransformerEncoder",),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)

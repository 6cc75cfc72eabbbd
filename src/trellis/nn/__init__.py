"""Torch modules: the parts that neural taggers are made of.

`TransformerEncoder` loads when it is first used, since it needs tokenizers and transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    from trellis.nn.transformer import TransformerEncoder

__all__ = [
    "CRF",
    "Batch",
    "BiLSTM",
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
    "pool",
    "read_vectors",
]


def __getattr__(name: str) -> Any:
    if name != "TransformerEncoder":
        raise AttributeError(f"module 'trellis.nn' has no attribute {name!r}")
    from trellis.nn.transformer import TransformerEncoder

    return TransformerEncoder


def __dir__() -> list[str]:
    return sorted(__all__)

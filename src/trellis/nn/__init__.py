"""Torch modules: the parts that neural taggers are made of."""

from trellis.nn.characters import CharacterCNN, CharacterLSTM
from trellis.nn.crf import CRF
from trellis.nn.dropout import LockedDropout, TokenDropout, WordDropout
from trellis.nn.embeddings import CategoryEmbedding, WordEmbedding
from trellis.nn.vectors import Coverage, Vectors, read_vectors

__all__ = [
    "CRF",
    "CategoryEmbedding",
    "CharacterCNN",
    "CharacterLSTM",
    "Coverage",
    "LockedDropout",
    "TokenDropout",
    "Vectors",
    "WordDropout",
    "WordEmbedding",
    "read_vectors",
]

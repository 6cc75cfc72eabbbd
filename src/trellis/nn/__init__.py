"""Torch modules: the parts that neural taggers are made of."""

from trellis.nn.crf import CRF

__all__ = ["CRF"]

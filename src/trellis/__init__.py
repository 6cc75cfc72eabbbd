"""Trellis: exact, fast sequence labelling over one linear-chain core."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]

"""hmmlearn's names over Trellis: ``from trellis.compat.hmmlearn import hmm`` and nothing else changes.

`CategoricalHMM` has hmmlearn's (0.3.3) parameters, attributes and results: from the same start, the parameters agree
after every iteration of EM. What differs:

- It is many times faster, with either ``implementation``; both give the same exact results.
- No result is ever NaN: a state that is never visited keeps its distribution, whereas hmmlearn leaves a row of zeros
  that the next call refuses; a sequence of probability zero scores minus infinity, and decoding it is an error.
- Sequences of length zero are fine.
"""

from __future__ import annotations

from trellis.compat.hmmlearn import hmm
from trellis.compat.hmmlearn.hmm import CategoricalHMM

__all__ = ["CategoricalHMM", "hmm"]

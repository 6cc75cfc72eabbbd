"""hmmlearn's names over Trellis: ``from trellis.compat.hmmlearn import hmm`` and nothing else changes.

The models of ``hmmlearn.hmm`` have hmmlearn's (0.3.3) parameters, attributes and results: from the same start, the
parameters agree after every iteration of EM. `BaseHMM` is there for emissions of one's own. What differs:

- It is faster, `CategoricalHMM` many times, with either ``implementation``; both give the same exact results.
- No result is ever NaN: a state that is never visited keeps its distribution, whereas hmmlearn leaves a row of zeros
  that the next call refuses; a sequence of probability zero scores minus infinity, and decoding it is an error.
- Sequences of length zero are fine. Covariances are right, too, where means are not learned (``params="stc"``), and
  ``covars_`` are one matrix per state for "spherical", too.

The variational models of ``hmmlearn.vhmm`` are not there.
"""

from __future__ import annotations

from trellis.compat.hmmlearn import base, hmm
from trellis.compat.hmmlearn.hmm import GMMHMM, CategoricalHMM, GaussianHMM, MultinomialHMM, PoissonHMM

__all__ = ["GMMHMM", "CategoricalHMM", "GaussianHMM", "MultinomialHMM", "PoissonHMM", "base", "hmm"]

__version__ = "0.3.3"

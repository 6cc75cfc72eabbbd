"""Hidden Markov models."""

from trellis.models.hmm.config import HMMConfig
from trellis.models.hmm.model import HMM

__all__ = ["HMM", "HMMConfig"]

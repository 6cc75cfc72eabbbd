"""Models to learn from rather than to tag with: Markov chains, and CRFs of feature functions in Python."""

from trellis.study.functions import FeatureFunctions, ScoredLabels
from trellis.study.markov import MarkovChain

__all__ = ["FeatureFunctions", "MarkovChain", "ScoredLabels"]

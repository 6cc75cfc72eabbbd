"""The CRF of the textbooks: feature functions of any kind, written in Python, with weights given or learned."""

from trellis.models.functions.model import FeatureFunctions, ScoredLabels

__all__ = ["FeatureFunctions", "ScoredLabels"]

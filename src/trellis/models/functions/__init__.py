"""The CRF of the textbooks: feature functions of any kind, written in Python, with weights given or learned."""

from trellis.models.functions.model import Best, FeatureFunctions

__all__ = ["Best", "FeatureFunctions"]

"""The feature CRF."""

from trellis.models.crf.model import CRF, CRFConfig

__all__ = ["CRF", "CRFConfig"]

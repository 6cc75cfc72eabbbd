"""The feature CRF."""

from trellis.models.crf.config import CRFConfig
from trellis.models.crf.model import CRF

__all__ = ["CRF", "CRFConfig"]

"""sklearn-crfsuite's public names on Trellis: ``from trellis.compat.sklearn_crfsuite import CRF, metrics``.

Parameters, attributes and results are those of sklearn-crfsuite 0.5.0, and so is the model: the same objective, no
scheme constraints, the same features. CRFsuite's binary model files are refused with an error that says so. Fitted
estimators can be pickled, cloned and searched over.
"""

from __future__ import annotations

from trellis.compat.sklearn_crfsuite.estimator import CRF

__all__ = ["CRF"]

__version__ = "0.5.0"

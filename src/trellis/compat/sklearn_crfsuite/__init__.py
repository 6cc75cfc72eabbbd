"""sklearn-crfsuite's public names on Trellis: ``from trellis.compat.sklearn_crfsuite import CRF, metrics``.

Parameters, attributes and results are those of sklearn-crfsuite 0.5.0, and so is the model: the same objective, no
scheme constraints, the same features. Model files are those of CRFsuite. Fitted estimators can be pickled, cloned and
searched over; pickles that sklearn-crfsuite 0.3 to 0.5 wrote open where its name is taken (`trellis.compat.install`).
"""

from __future__ import annotations

from trellis.compat.sklearn_crfsuite.estimator import CRF

__all__ = ["CRF"]

__version__ = "0.5.0"

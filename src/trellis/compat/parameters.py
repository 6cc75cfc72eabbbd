"""scikit-learn's conventions for estimators: its own class, or, where it is not installed, what is needed of it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

from trellis.errors import ModelError

__all__ = ["Estimator"]


class Parameters:
    """The parameters are those of the constructor; each is kept as an attribute of the same name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ModelError(f"Invalid parameter {name!r} for estimator {self}. Valid are: {sorted(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = {name: value for name, value in self.get_params().items() if value is not defaults[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


if TYPE_CHECKING:
    Estimator = Parameters
else:
    try:
        from sklearn.base import BaseEstimator as Estimator
    except ImportError:
        Estimator = Parameters

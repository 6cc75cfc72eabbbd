"""scikit-learn's conventions for estimators, without importing scikit-learn before it is used."""

from __future__ import annotations

import inspect
from typing import Any, Self


class Parameters:
    """The parameters are those of the constructor; each is kept as an attribute of the same name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}. Valid are: {sorted(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The parameters that are not the defaults."""
        defaults = {name: p.default for name, p in inspect.signature(type(self)).parameters.items()}
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Neither a classifier nor a regressor of rows, like the original."""
        from sklearn.utils import Tags, TargetTags  # type: ignore[import-untyped,import-not-found,unused-ignore]

        return Tags(estimator_type=None, target_tags=TargetTags(required=True))

"""Settings in scikit-learn's way: what the constructor takes, `get_params`, `set_params`, and what a search asks.

A class names the dataclass of its settings (`config_class`); its signature and its help text are made from that, so
that completion and ``help()`` know every setting. Settings inside a section have names like ``training__epochs``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, Self, TypeVar

from trellis.errors import ConfigError
from trellis.models.fitting import replaced

C = TypeVar("C")


class Estimator(Generic[C]):
    """Something with settings that learns; names that end in ``_`` exist only once it has learned."""

    config_class: ClassVar[type[Any]]

    def __init__(self, settings: C | None = None, /, **options: Any) -> None:
        """Take a configuration, single settings by name, or both: names override the configuration."""
        base = self.config_class() if settings is None else settings
        self.config: C = _with_options(base, options)

    def __init_subclass__(cls, **options: Any) -> None:
        """Give a family the signature and the help text that its settings make."""
        super().__init_subclass__(**options)
        if "config_class" in cls.__dict__:
            cls.__signature__ = _signature(cls.config_class)  # type: ignore[attr-defined]
            cls.__doc__ = f"{cls.__doc__}\n\n    Settings:\n{_described(cls.config_class)}\n"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name; `deep` adds those inside sections, as ``section__name``."""
        return dict(_parameters(self.config, deep))

    def set_params(self, **options: Any) -> Self:
        """Change settings by name; ``section__name`` changes one inside a section."""
        self.config = _with_options(self.config, options)
        return self

    def __repr__(self) -> str:
        """The settings that are not the defaults, as the constructor takes them."""
        changed = _differences(self.config, self.config_class())
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's pipelines and searches ask: it learns from labels, and takes lists of token lists."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        # No kind of estimator: "classifier" would split the data by label, and a label here is a whole sequence.
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True, one_d_labels=False),
            input_tags=InputTags(two_d_array=False, string=True),
            transformer_tags=TransformerTags() if hasattr(type(self), "transform") else None,
        )


def _parameters(settings: Any, deep: bool, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        yield f"{prefix}{item.name}", value
        if deep and dataclasses.is_dataclass(value):
            yield from _parameters(value, deep, f"{prefix}{item.name}__")


def _differences(settings: Any, usual: Any) -> dict[str, Any]:
    """The values that are not the usual ones by name; those of a section as a dict."""
    found = {}
    for item in dataclasses.fields(settings):
        value, default = getattr(settings, item.name), getattr(usual, item.name)
        if value != default:
            found[item.name] = _differences(value, default) if dataclasses.is_dataclass(value) else value
    return found


def _with_options(settings: Any, options: dict[str, Any]) -> Any:
    """The settings with some changed; whole sections first, then what is said about their insides."""
    for name, value in sorted(options.items(), key=lambda option: option[0].count("__")):
        *sections, last = name.split("__")
        change: dict[str, Any] = {last: value}
        for section in reversed(sections):
            change = {section: change}
        _check_sections(settings, sections, name)
        settings = replaced(settings, change)
    return settings


def _check_sections(settings: Any, sections: list[str], name: str) -> None:
    """``c2__x`` asks for the inside of a number."""
    for section in sections:
        settings = getattr(settings, section, None)
        if not dataclasses.is_dataclass(settings):
            raise ConfigError(f"setting {name!r} does not exist: {section!r} is not a section with its own settings")


def _signature(config_class: type[Any]) -> inspect.Signature:
    parameters = [inspect.Parameter("settings", inspect.Parameter.POSITIONAL_ONLY, default=None)]
    for name, default in _parameters(config_class(), deep=False):
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default))
    return inspect.Signature(parameters)


def _described(config_class: type[Any]) -> str:
    """One paragraph per setting, for ``help()``."""
    lines = []
    for item in dataclasses.fields(config_class):
        explanation = " ".join(item.metadata.get("explanation", "").split())
        default = "" if item.default is dataclasses.MISSING else f" (default {item.default!r})"
        lines.append(f"        {item.name}: {explanation}{default}")
    return "\n".join(lines)

"""Configurations: any frozen dataclass <-> commented TOML.

A model's settings are one frozen dataclass next to the model; this module writes it as TOML, each key with its default
and an explanation in a comment, and reads it back. An unknown key is an error that suggests the nearest known one.

    >>> @dataclass(frozen=True)
    ... class Config:
    ...     c2: float = setting(1.0, "coefficient of L2 regularisation")
    ...     features: str | None = setting(None, "name of a template set")
    >>> print(to_toml(Config()))
    # coefficient of L2 regularisation
    c2 = 1.0
    <BLANKLINE>
    # name of a template set
    # features is not set
    <BLANKLINE>
    >>> from_toml(Config, "c2 = 0.5")
    Config(c2=0.5, features=None)
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from trellis.errors import ConfigError, did_you_mean, shown
from trellis.files import write_text

__all__ = [
    "Rule",
    "changed",
    "check",
    "dataclass",
    "described",
    "differences",
    "flat",
    "from_dict",
    "from_toml",
    "layered",
    "load",
    "override",
    "parameters",
    "save",
    "section",
    "setting",
    "to_dict",
    "to_toml",
    "with_options",
]

T = TypeVar("T")
_LARGEST = int(sys.float_info.max)
_UNSET = "unset"
"""None in TOML, for a setting whose default is not None."""
_KNOWN_HINTS: dict[type[Any], dict[str, Any]] = {}


def _hints(cls: type[Any]) -> dict[str, Any]:
    """The types of the settings; to work them out takes a millisecond."""
    if cls not in _KNOWN_HINTS:
        _KNOWN_HINTS[cls] = typing.get_type_hints(cls)
    return _KNOWN_HINTS[cls]


def setting(default: T, explanation: str) -> T:
    """A field of a configuration: its default and the comment it is written with."""
    made: T = field(default=default, metadata={"explanation": explanation})
    return made


def section(kind: type[T], explanation: str) -> T:
    """A field that is itself a configuration, with its defaults; in TOML, a table."""
    made: T = field(default_factory=kind, metadata={"explanation": explanation})
    return made


Rule = tuple[str, str, Callable[[Any], bool]]
"""Names of settings, the values that are allowed in words, and a test of a value."""


def check(settings: Any, rules: Iterable[Rule]) -> None:
    """Refuse numbers that break a rule or are beyond the range of floats; a setting that is unset breaks none."""
    for names, allowed, fits in rules:
        for name in names.split():
            value = getattr(settings, name)
            if value is not None and not (abs(value) <= sys.float_info.max and fits(value)):
                raise ConfigError(f"{name} must be {allowed}, got {shown(value)}")


def to_dict(config: Any) -> dict[str, Any]:
    """Plain values by name, nested configurations as nested dicts; the input of `from_dict`."""
    return {item.name: _plain(getattr(config, item.name)) for item in dataclasses.fields(config)}


def from_dict(cls: type[T], values: Mapping[str, Any], *, where: str = "") -> T:
    """The configuration with these values, each checked against its type; missing ones take their default."""
    hints = _hints(cls)
    names = [item.name for item in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            hint = did_you_mean(key, names, always=True)
            raise ConfigError(f"{cls.__name__} has no setting {shown(where + key)}{hint}")
    checked = {key: _check(f"{where}{key}", value, hints[key]) for key, value in values.items()}
    try:
        return cls(**checked)
    except TypeError as error:
        raise ConfigError(f"{where or cls.__name__}: {error}") from None


def to_toml(config: Any) -> str:
    """TOML with each field's explanation above it; a field that is None is only mentioned."""
    return "\n".join(_toml_lines(config, ""))


def from_toml(cls: type[T], text: str, *, name: str = "configuration") -> T:
    """Read TOML that `to_toml` or a person wrote."""
    return _from_file(cls, _toml(text, name), name)


def save(config: Any, path: str | Path) -> None:
    """Write the configuration as a TOML file, all or nothing."""
    write_text(path, to_toml(config), ConfigError)


def load(cls: type[T], path: str | Path) -> T:
    """Read a configuration from a TOML file."""
    return from_toml(cls, _text(path), name=str(path))


def layered(config: T, path: str | Path) -> T:
    """The configuration, changed by what a TOML file sets; everything else stays."""
    return _from_file(type(config), _merged(config, _toml(_text(path), str(path))), str(path))


def changed(config: T, values: Mapping[str, Any]) -> T:
    """The configuration with some values changed; a mapping for a section changes only the settings it names."""
    return from_dict(type(config), _merged(config, values))


def _merged(config: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    result = to_dict(config)
    for key, value in values.items():
        section = getattr(config, key, None)
        nested = dataclasses.is_dataclass(section) and isinstance(value, Mapping)
        result[key] = _merged(section, value) if nested else value
    return result


def _from_file(cls: type[T], values: Mapping[str, Any], name: str) -> T:
    """Like `from_dict`, with the name of the file in front of an error."""
    try:
        return from_dict(cls, values)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration {path} cannot be read: {error}") from None


def _toml(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise ConfigError(f"{name} is not TOML: {error}") from None


def flat(config: Any, section: str = "") -> dict[str, Any]:
    """Plain values by dotted names, those of nested configurations among them."""
    values: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value, name = getattr(config, item.name), f"{section}{item.name}"
        values |= flat(value, f"{name}.") if dataclasses.is_dataclass(value) else {name: _plain(value)}
    return values


def override(config: T, assignments: Iterable[str]) -> T:
    """The configuration changed by assignments like ``training.epochs=3``; later ones override earlier ones.

    Values are TOML; anything else, such as ``features=ner``, is read as a string, and nothing after the ``=`` leaves
    the setting unset.
    """
    values = to_dict(config)
    for assignment in assignments:
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not (key and equals):
            raise ConfigError(f"expected key=value, got {assignment!r}")
        try:
            value = tomllib.loads(f"value = {text}")["value"] if text else None
        except tomllib.TOMLDecodeError:
            value = text
        except RecursionError:
            raise ConfigError(f"the value {shown(text)} is nested too deeply") from None
        *sections, name = key.split(".")
        table: Any = values
        owner: Any = config
        for section in sections:
            table = table.get(section) if isinstance(table, dict) else None
            owner = getattr(owner, section, None)
        # Below a setting that is itself a table, such as label_weights.PER, any name is accepted.
        if not isinstance(table, dict) or (dataclasses.is_dataclass(owner) and name not in table):
            # What was probably meant: a setting of the same name in another section, or else the most similar one.
            known = list(flat(config))
            elsewhere = [one for one in known if one.rpartition(".")[2] == name]
            hint = did_you_mean(key, elsewhere[:1] or known, always=True)
            raise ConfigError(f"{type(config).__name__} has no setting {key!r}{hint}")
        table[name] = value
    return from_dict(type(config), values)


def parameters(config: Any, *, deep: bool = False, prefix: str = "") -> dict[str, Any]:
    """The values by name as they were given; `deep` adds those inside sections, as ``section__name``."""
    values: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value, name = getattr(config, item.name), f"{prefix}{item.name}"
        values[name] = value
        if deep and dataclasses.is_dataclass(value):
            values |= parameters(value, deep=True, prefix=f"{name}__")
    return values


def with_options(config: Any, options: Mapping[str, Any]) -> Any:
    """The configuration with some settings changed; ``section__name``, which comes last, is one inside a section.

    The given values are kept unchanged, as scikit-learn's clone expects; a dict in place of a section changes only the
    settings that it names.
    """
    for name, value in sorted(options.items(), key=lambda option: option[0].count("__")):
        *sections, last = name.split("__")
        inner, change = config, {last: value}
        for section in sections:
            inner = getattr(inner, section, None)
            if not dataclasses.is_dataclass(inner):
                raise ConfigError(
                    f"setting {name!r} does not exist: {section!r} is not a section with its own settings"
                )
        for section in reversed(sections):
            change = {section: change}
        config = _replaced(config, change)
    return config


def _replaced(config: Any, options: Mapping[str, Any]) -> Any:
    from_dict(type(config), options)
    values = {}
    for name, value in options.items():
        section = getattr(config, name)
        nested = dataclasses.is_dataclass(section) and isinstance(value, Mapping)
        values[name] = _replaced(section, value) if nested else value
    try:
        return dataclasses.replace(config, **values)
    except TypeError as error:
        raise ConfigError(str(error)) from None


def differences(config: Any, usual: Any) -> dict[str, Any]:
    """The values that are not the usual ones by name; those of a section as a dict."""
    changed = {}
    for item in dataclasses.fields(config):
        value, default = getattr(config, item.name), getattr(usual, item.name)
        if value != default:
            changed[item.name] = differences(value, default) if dataclasses.is_dataclass(value) else value
    return changed


def described(cls: type[Any], main: Sequence[str] = ()) -> str:
    """A paragraph about each setting, for ``help()``; the `main` ones come first, by dotted names."""

    def line(name: str) -> str:
        section, _, last = name.rpartition(".")
        owner = typing.get_type_hints(cls)[section] if section else cls
        item = next(item for item in dataclasses.fields(owner) if item.name == last)
        default = "" if item.default is dataclasses.MISSING else f" (default {item.default!r})"
        return f"        {name}: {' '.join(item.metadata.get('explanation', '').split())}{default}"

    others = [item.name for item in dataclasses.fields(cls) if item.name not in main]
    blocks = {"The settings that matter most": main, "Further settings" if main else "Settings": others}
    return "\n\n".join(f"    {title}:\n" + "\n".join(map(line, names)) for title, names in blocks.items() if names)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _check(path: str, value: Any, kind: Any) -> Any:
    """The value as the type needs it: lists become tuples, integers floats, dicts nested configurations."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        if (value is None and type(None) in arguments) or (value == _UNSET and _may_be_unset(kind)):
            return None
        for one in arguments:
            with suppress(ConfigError):
                return _check(path, value, one)
        return _refuse(path, value, " or ".join(map(_expected, arguments)))
    if origin is Literal:
        known = any(value == one and type(value) is type(one) for one in arguments)
        return value if known else _refuse(path, value, _expected(kind))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and isinstance(value, Mapping):
        return from_dict(kind, value, where=f"{path}.")
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_check(f"{path}[{i}]", item, arguments[0]) for i, item in enumerate(value))
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {key: _check(f"{path}.{key}", item, arguments[1]) for key, item in value.items()}
    kind = origin or kind
    if kind is Any:
        return value
    if kind is Path and isinstance(value, str):
        return Path(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST:
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind in (int, float)):
        return _refuse(path, value, kind.__name__)
    return value


def _may_be_unset(kind: Any) -> bool:
    """Whether the word `unset` can stand for None: not if it could also be a string of that setting."""
    kinds = typing.get_args(kind) if typing.get_origin(kind) in (Union, types.UnionType) else ()
    return type(None) in kinds and str not in kinds


def _expected(kind: Any) -> str:
    """How an error names a type: a choice by its values."""
    if typing.get_origin(kind) is Literal:
        return " or ".join(map(repr, typing.get_args(kind)))
    return "None" if kind is type(None) else getattr(kind, "__name__", str(kind))


def _refuse(path: str, value: Any, expected: str) -> Any:
    raise ConfigError(f"setting {path!r} must be {expected}, got {shown(value)}")


def _toml_lines(config: Any, section: str) -> list[str]:
    plain, nested = [], []
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        comment = [f"# {line}" for line in item.metadata.get("explanation", "").splitlines()]
        if dataclasses.is_dataclass(value):
            name = f"{section}{item.name}"
            nested += [*comment, f"[{name}]", *_toml_lines(value, f"{name}.")]
        elif value is None and item.default is None:
            plain += [*comment, f"# {item.name} is not set", ""]
        elif value is None and not _may_be_unset(_hints(type(config))[item.name]):
            raise ConfigError(
                f"setting {section}{item.name!r} is None, which is not its default and cannot be said in TOML"
            )
        elif value is None:
            plain += [*comment, f'{item.name} = "{_UNSET}"', ""]
        else:
            plain += [*comment, f"{item.name} = {_toml_value(value)}", ""]
    return plain + nested


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(value) if math.isfinite(value) else {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_string(str(key))} = {_toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return str(value) if isinstance(value, int) else _toml_string(str(value))


def _toml_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

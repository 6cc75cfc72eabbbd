"""One exception tree for everything Trellis refuses.

    TrellisError
    ├── ChainError                 scores that the chain cannot work on (also a ValueError)
    │   ├── ShapeError             an array has the wrong shape
    │   ├── NonFiniteError         a score is NaN or plus infinity
    │   ├── TagRangeError          a tag id lies outside 0..L-1
    │   └── NoPathError            every label sequence is forbidden
    ├── TagError                   a label or a span that the tag scheme does not allow (also a ValueError)
    ├── DataError                  a file or a row that cannot be read as what it should be (also a ValueError)
    │   └── CorpusError            the same with file, line and text
    ├── ConfigError                a configuration with an unknown key or an impossible value (also a ValueError)
    ├── TemplateError              a feature template that cannot be read or applied (also a ValueError)
    ├── StoreError                 a saved model that is damaged, foreign or too new (also a ValueError)
    │   └── NewerFormatError       it is too new: a newer version of Trellis opens it
    ├── ProcessError               one of several processes that work together was lost (also a RuntimeError)
    └── ModelError                 a model was asked for something it cannot give (also a ValueError)
        └── NotFittedError         a model was asked before it was trained (also an AttributeError)

`DataWarning` is no error: data were not as they should be, and it says what was done about it.

Every message says what is wrong, where, what was expected and what was found; `shown`, `number_of` and `did_you_mean`
write its parts. `required` and `needed` name the extra to install where a package is missing.
"""

from __future__ import annotations

import importlib
import reprlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from typing import Any, Self

LONGEST_SHOWN = 120
"""Characters of somebody's text that a message quotes."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = LONGEST_SHOWN
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 20
_SHORT.maxlevel = 4

_SIMILAR = 0.6  # out of 1: two names are similar from here on


def shortened(text: str) -> str:
    """The beginning of a text, for a message."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def shown(value: Any) -> str:
    """A value for a message: as Python writes it, but short, no matter how long or deeply nested it is.

    >>> shown([1, "two", None])
    "[1, 'two', None]"
    """
    try:
        return _SHORT.repr(value)
    except Exception:  # the caller's own `repr`, or an integer of too many digits
        if type(value) is int:
            return f"an integer of {value.bit_length()} bits"
        return f"a value of type {type(value).__name__}"


def number_of(count: int, noun: str, plural: str | None = None) -> str:
    """A number and what it counts: 1 sentence, 2,000 sentences; `plural` is for nouns that do not take an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def some_of(names: Sequence[str], most: int = 8) -> str:
    """The first of these names, for a message: ``PER, LOC, ...``."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def nearest(name: object, known: Iterable[str], *, always: bool = False) -> str | None:
    """The most similar of the known names; None if none is similar, or with `always` only if there are no names.

    >>> nearest("shap", ["shape", "type"])
    'shape'
    >>> nearest("colour", ["shape", "type"])
    """
    return next(iter(get_close_matches(str(name), list(known), n=1, cutoff=0.0 if always else _SIMILAR)), None)


def did_you_mean(
    name: object, known: Iterable[str], *, always: bool = False, show: Callable[[str], object] = repr
) -> str:
    """The end of an error about an unknown name; `show` writes the suggested one. Empty if `nearest` finds none.

    >>> did_you_mean("shap", ["shape", "type"])
    "; did you mean 'shape'?"
    """
    near = nearest(name, known, always=always)
    return "" if near is None else f"; did you mean {show(near)}?"


class TrellisError(Exception):
    """The root: catch this to catch everything that Trellis refuses."""


class ChainError(TrellisError, ValueError):
    """Scores, tags or lengths that chain inference cannot work on."""

    sequence: int | None = None
    """The sequence of the batch that the error is about, if it is about one."""

    def about(self, name: str) -> Self:
        """A copy of the error with another name for the sequence, for callers who know its line in a file."""
        renamed = type(self)(str(self).replace(f"sequence {self.sequence}", name, 1))
        renamed.sequence = self.sequence
        return renamed


class ShapeError(ChainError):
    """An array has the wrong shape, or two arrays do not fit each other."""


class NonFiniteError(ChainError):
    """A score is NaN or plus infinity; minus infinity, meaning forbidden, is fine."""


class TagRangeError(ChainError):
    """A tag id lies outside ``0..L-1``."""


class NoPathError(ChainError):
    """Every label sequence has score minus infinity, so there is nothing to choose from."""


class TagError(TrellisError, ValueError):
    """A label or a span that the tag scheme does not allow."""


class DataError(TrellisError, ValueError):
    """A file or a row that cannot be read as what it should be."""


class CorpusError(DataError):
    """A line that the format does not allow, with its `path`, `line` (from 1) and `text`.

    `whole` is everything that is lost with it: the lines of its sentence, or the line itself.
    """

    def __init__(self, problem: str, *, path: str, line: int, text: str, whole: str | None = None) -> None:
        super().__init__(f"{path}:{line}: {problem}: {shortened(text)!r}")
        self.problem = problem
        self.path = path
        self.line = line
        self.text = text
        self.whole = text if whole is None else whole

    def __reduce__(self) -> tuple[Any, ...]:
        """It may be pickled, for another process."""
        make = partial(type(self), path=self.path, line=self.line, text=self.text, whole=self.whole)
        return make, (self.problem,)


class DataWarning(UserWarning):
    """Data that were not as they should be, and what was done about it."""


def warn(message: str, category: type[Warning] = DataWarning) -> None:
    """Warn, with the nearest line of the caller's own code as the place."""
    frame, level = sys._getframe(0), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "trellis":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class ConfigError(TrellisError, ValueError):
    """A configuration with an unknown key or an impossible value."""


class TemplateError(TrellisError, ValueError):
    """A feature template that cannot be read, or that does not fit the sentences."""


class StoreError(TrellisError, ValueError):
    """A saved model that is damaged, of another kind, or of a newer format."""


class NewerFormatError(StoreError):
    """A file that a newer version of Trellis wrote and opens; nothing is wrong with it."""

    @classmethod
    def of(cls, path: object, version: int, known: int) -> Self:
        """The file, its format, and the newest that is known here."""
        newer = "it was saved by a newer version of Trellis, which opens it"
        return cls(f"{path} has format {version}; this version of Trellis reads format {known}: {newer}")


class ProcessError(TrellisError, RuntimeError):
    """One of several processes that work together was lost."""


class ModelError(TrellisError, ValueError):
    """A model was asked for something it cannot give."""


class NotFittedError(ModelError, AttributeError):
    """A model was asked before it was trained; an AttributeError, since learned attributes do not exist yet."""


@contextmanager
def required(what: str, package: str, error: type[TrellisError] = ConfigError, instead: str = "") -> Iterator[None]:
    """Around imports: if a package is missing, the error says what needs it and how to install it.

    Args:
        what: who needs it, the beginning of the message.
        package: what to install: a package, or an extra of ours, e.g. "trellis-crf[neural]".
        error: the kind of error.
        instead: what works without the package, the end of the message.

    """
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] == "trellis":
            raise
        install = f"'{package}'" if "[" in package else package
        raise error(f"{what} needs {missing.name}: pip install {install}{instead and '; '}{instead}") from None


def needed(module: str, extra: str, what: str) -> Any:
    """A module of one of our extras; see `required`."""
    with required(what, f"trellis-crf[{extra}]"):
        return importlib.import_module(module)

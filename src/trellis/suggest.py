"""What was probably meant: the known name most similar to an unknown one, for errors that suggest it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

_LIKE = 0.6  # out of 1: two names are similar from here on


def nearest(name: object, known: Iterable[str], *, always: bool = False) -> str | None:
    """The most similar of the known names; None if none is similar, or with `always` only if there are no names.

    >>> nearest("shap", ["shape", "type"])
    'shape'
    >>> nearest("colour", ["shape", "type"])
    """
    found = get_close_matches(str(name), list(known), n=1, cutoff=0.0 if always else _LIKE)
    return found[0] if found else None


def did_you_mean(
    name: object, known: Iterable[str], *, always: bool = False, show: Callable[[str], object] = repr
) -> str:
    """The end of an error about an unknown name; `show` writes the suggested one. Empty if `nearest` finds none.

    >>> did_you_mean("shap", ["shape", "type"])
    "; did you mean 'shape'?"
    """
    near = nearest(name, known, always=always)
    return "" if near is None else f"; did you mean {show(near)}?"

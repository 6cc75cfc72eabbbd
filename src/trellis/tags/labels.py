"""What one label says: the place of its token in a span (a role) and the type of that span.

A label is a letter and a type joined by a hyphen, and the letter comes first (``B-PER``, the prefix
style) or last (``PER-B``, the suffix style). Only the hyphen next to the letter separates, so types may
contain hyphens: ``B-GPE-LOC`` has type ``GPE-LOC``. A bare letter (``B``) has the empty type ``""``, as
in word segmentation.

Schemes spell the same five roles with different letters (the last token of a span is E in BIOES, L in
BILOU), so everything after parsing works on roles.
"""

from __future__ import annotations

import enum

from trellis.errors import TagError

SEPARATOR = "-"


class Role(enum.IntEnum):
    """The place of a token relative to a span. A scheme can express the first five.

    ``DOT`` and ``OTHER`` exist only for the rules of conlleval, which reads any letter at all: a dot
    counts as outside, and a letter it does not know only ends and starts spans where the type changes.
    """

    O = 0  # outside every span  # noqa: E741
    B = 1  # first token
    I = 2  # inner token  # noqa: E741
    E = 3  # last token
    S = 4  # only token
    DOT = 5
    OTHER = 6


class Style(enum.Enum):
    """On which side of the type the letter stands."""

    PREFIX = "prefix"  # B-PER
    SUFFIX = "suffix"  # PER-B


def split_label(label: str, style: Style) -> tuple[str, str]:
    """Letter and type of a label; a label without a single letter on that side raises ``TagError``."""
    if len(label) == 1:
        return label, ""
    if style is Style.PREFIX:
        letter, separator, kind = label[:1], label[1:2], label[2:]
    else:
        letter, separator, kind = label[-1:], label[-2:-1], label[:-2]
    if separator != SEPARATOR or not kind:
        example = "B-PER" if style is Style.PREFIX else "PER-B"
        raise TagError(
            f"label {label!r:.80} is not of the {style.value} style: expected a form like {example!r} or 'B'"
        )
    return letter, kind


def join_label(letter: str, kind: str, style: Style) -> str:
    """The label with this letter and type: the inverse of :func:`split_label`."""
    if not kind:
        return letter
    return f"{letter}{SEPARATOR}{kind}" if style is Style.PREFIX else f"{kind}{SEPARATOR}{letter}"

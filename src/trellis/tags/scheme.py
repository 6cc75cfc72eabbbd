"""Tag schemes as data: which letters each uses, and which steps from one token to the next it allows.

Schemes spell the same five roles of a token in its span with different letters (the last token is E in BIOES, L in
BILOU), so everything after parsing works on roles.

             Ekeus  met  U.N.   envoys  from  Baghdad  Basra
    IO       I-PER  O    I-ORG  O       O     I-LOC    I-LOC    adjoining spans of one type run together
    IOB1     I-PER  O    I-ORG  O       O     I-LOC    B-LOC    B only if spans of one type adjoin
    IOB2     B-PER  O    B-ORG  O       O     B-LOC    B-LOC    every span begins with B; also called BIO
    IOE1     I-PER  O    I-ORG  O       O     E-LOC    I-LOC    the mirror of IOB1
    IOE2     E-PER  O    E-ORG  O       O     E-LOC    E-LOC    the mirror of IOB2
    BIOES    S-PER  O    S-ORG  O       O     S-LOC    S-LOC    B first, I inner, E last, S single; IOBES
    BILOU    U-PER  O    U-ORG  O       O     U-LOC    U-LOC    the same with L for last, U for unit
    BMES     S-PER  O    S-ORG  O       O     S-LOC    S-LOC    the same with M for inner; W is read as S
    PLAIN    NNP    VBD  NNP    NNS     IN    NNP      NNP      no scheme: each token stands alone

A scheme is two requirements on neighbours, both about tokens of one type: which roles need an open span
before them, and which need their span to continue after them. Legal steps, strict reading and error
messages all come from these.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from trellis.arrays import BoolArray
from trellis.errors import TagError, did_you_mean

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


_OPEN = frozenset({Role.B, Role.I})  # a span may continue after these
_ONGOING = frozenset({Role.I, Role.E})  # a span may be open before these


class Scheme(enum.Enum):
    """A way of writing spans as one label per token."""

    IO = "IO"
    IOB1 = "IOB1"
    IOB2 = "IOB2"
    IOE1 = "IOE1"
    IOE2 = "IOE2"
    BIOES = "BIOES"
    BILOU = "BILOU"
    BMES = "BMES"
    PLAIN = "PLAIN"

    @classmethod
    def parse(cls, name: str | Scheme) -> Scheme:
        """The scheme people call ``name``, in any case: ``bio``, ``IOBES``, ``bmewo``..."""
        if isinstance(name, Scheme):
            return name
        key = name.strip().upper()
        if key in _ALIASES:
            return cls(_ALIASES[key])
        if key in _AMBIGUOUS:
            raise TagError(f"scheme {name!r} is ambiguous: say {_AMBIGUOUS[key]}")
        hint = did_you_mean(key, _ALIASES, show=lambda near: repr(_ALIASES[near]))
        raise TagError(f"unknown scheme {name!r}: expected one of {', '.join(s.value for s in cls)}{hint}")

    @property
    def letters(self) -> Mapping[str, Role]:
        """Letter -> role; the first letter of a role is the one that is written."""
        return _LETTERS[self]

    def letter(self, role: Role) -> str:
        """The letter this scheme writes for a role it has."""
        return next(letter for letter, known in _LETTERS[self].items() if known is role)


_ALIASES: Mapping[str, str] = {scheme.value: scheme.value for scheme in Scheme} | {
    **dict.fromkeys(("BIO", "BIO2", "IOB-2", "BIO-2"), "IOB2"),
    **dict.fromkeys(("BIO1", "IOB-1", "BIO-1"), "IOB1"),
    **dict.fromkeys(("IOBES", "BIESO", "BIES", "BIOSE", "IOBSE"), "BIOES"),
    **dict.fromkeys(("BILUO", "BIOLU", "BILO"), "BILOU"),
    **dict.fromkeys(("BMESO", "BMEOS", "BMOES", "BMEWO", "BMEW"), "BMES"),
    **dict.fromkeys(("NONE", "POS"), "PLAIN"),
}
_AMBIGUOUS = {
    "IOB": "'iob1' (B only between adjoining spans of one type) or 'iob2' (B at every span; also 'bio')",
    "IOE": "'ioe1' (E only between adjoining spans of one type) or 'ioe2' (E at every span)",
}


def _spelled(letters: str, roles: str) -> Mapping[str, Role]:
    return MappingProxyType({letter: Role[role] for letter, role in zip(letters, roles, strict=True)})


_LETTERS: Mapping[Scheme, Mapping[str, Role]] = {
    Scheme.IO: _spelled("OI", "OI"),
    Scheme.IOB1: _spelled("OBI", "OBI"),
    Scheme.IOB2: _spelled("OBI", "OBI"),
    Scheme.IOE1: _spelled("OIE", "OIE"),
    Scheme.IOE2: _spelled("OIE", "OIE"),
    Scheme.BIOES: _spelled("OBIES", "OBIES"),
    Scheme.BILOU: _spelled("OBILU", "OBIES"),
    Scheme.BMES: _spelled("OBMESW", "OBIESS"),
    Scheme.PLAIN: _spelled("", ""),
}
ALL_LETTERS: Mapping[str, Role] = MappingProxyType(
    {letter: role for letters in _LETTERS.values() for letter, role in letters.items()}
)


class Needs(NamedTuple):
    """``roles`` are legal only next to a token of the same type whose role is in ``beside``."""

    roles: frozenset[Role]
    beside: frozenset[Role]


_WHOLE = (Scheme.BIOES, Scheme.BILOU, Scheme.BMES)  # these mark both edges of every span


def needs_before(scheme: Scheme) -> Needs:
    """Roles that need a token of their type right before them."""
    roles = {Scheme.IOB1: frozenset({Role.B}), Scheme.IOB2: frozenset({Role.I}), **dict.fromkeys(_WHOLE, _ONGOING)}
    return Needs(roles.get(scheme, frozenset()), _OPEN)


def needs_after(scheme: Scheme) -> Needs:
    """Roles that need a token of their type right after them."""
    roles = {Scheme.IOE1: frozenset({Role.E}), Scheme.IOE2: frozenset({Role.I}), **dict.fromkeys(_WHOLE, _OPEN)}
    return Needs(roles.get(scheme, frozenset()), _ONGOING)


def steps(previous: Iterable[Role], following: Iterable[Role], *, same: bool | None = None) -> BoolArray:
    """Table [previous role, role, types equal] that is true for these steps (``same`` None: either)."""
    table = np.zeros((len(Role), len(Role), 2), dtype=np.bool_)
    kinds = [0, 1] if same is None else [int(same)]
    table[np.ix_([*previous], [*following], kinds)] = True
    return table


@cache
def legal_steps(scheme: Scheme) -> BoolArray:
    """Table [previous role, role, types equal]: may these two adjoin? A sentence's edge counts as O."""
    left, right = needs_before(scheme), needs_after(scheme)
    orphan = steps(Role, left.roles) & ~steps(left.beside, left.roles, same=True)
    unfinished = steps(right.roles, Role) & ~steps(right.roles, right.beside, same=True)
    return ~(orphan | unfinished)

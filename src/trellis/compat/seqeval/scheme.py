"""seqeval's scheme classes, for ``scheme=`` of strict mode.

The rules are Trellis's own (:func:`trellis.tags.spans.strict_tables`), which give seqeval's spans on
every input, except for IOE1: seqeval does not let a span begin with E, except right after an E of the same
type, so it misses spans of one token before another of their type. That is mirrored here, and only
here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from trellis.errors import ConfigError, TagError, shown
from trellis.tags import Role, Scheme
from trellis.tags.scheme import steps
from trellis.tags.spans import Alphabet, ChunkTables, find_chunks, locate, strict_tables


class Prefix(enum.Flag):
    """The letters that seqeval accepts."""

    I = enum.auto()  # noqa: E741
    O = enum.auto()  # noqa: E741
    B = enum.auto()
    E = enum.auto()
    S = enum.auto()
    U = enum.auto()
    L = enum.auto()
    ANY = I | O | B | E | S | U | L


Prefixes: dict[str, Prefix] = {letter: Prefix[letter] for letter in "IOBESUL"}


class Tag(enum.Flag):
    """Whether two neighbours have the same type."""

    SAME = enum.auto()
    DIFF = enum.auto()
    ANY = SAME | DIFF


class UnknownPrefixError(TagError, KeyError):
    """A tag whose letter no scheme has; seqeval raises a KeyError."""

    __str__ = Exception.__str__  # a KeyError would show the message in quotes


class EmptyTagError(TagError, IndexError):
    """A tag without any letter; seqeval raises an IndexError."""


class TagTypeError(TagError, TypeError):
    """A tag that is no string; seqeval raises a TypeError."""


class Token:
    """One tag taken apart; subclasses add a scheme."""

    scheme: ClassVar[Scheme]
    allowed_prefix: ClassVar[Prefix] = Prefix.ANY

    def __init__(self, token: str, suffix: bool = False, delimiter: str = "-") -> None:
        letter, self.tag = _split(token, suffix, delimiter)
        self.token = token
        self.prefix = Prefixes[letter]

    def __repr__(self) -> str:
        """The tag as it was given."""
        return self.token

    @classmethod
    def tables(cls) -> ChunkTables:
        """Where spans start, continue and end."""
        return strict_tables(check_scheme(cls).scheme)

    def is_valid(self) -> bool:
        """True, or a ``TagError`` if the scheme does not have the prefix."""
        if self.prefix not in self.allowed_prefix:
            allowed = " ".join(self.scheme.letters)
            raise TagError(f"tag {self.token!r}: {type(self).__name__} has only the prefixes {allowed}")
        return True

    def is_start(self, prev: Token) -> bool:
        """Whether a span starts here."""
        return self._step(prev, 0)

    def is_inside(self, prev: Token) -> bool:
        """Whether a span continues from ``prev`` to here."""
        return self._step(prev, 1)

    def is_end(self, prev: Token) -> bool:
        """Whether a span ended with ``prev``."""
        return self._step(prev, 2)

    def _step(self, prev: Token, table: int) -> bool:
        before, here = (_ROLES[token.prefix.name or ""] for token in (prev, self))
        return bool(self.tables()[table][before, here, int(prev.tag == self.tag)])


_ROLES = {**{role.name: role for role in Role}, "U": Role.S, "L": Role.E}


def _split(token: str, suffix: bool, delimiter: str) -> tuple[str, str]:
    """Letter and type; the type of a bare letter is ``_``."""
    if not isinstance(token, str | bytes):
        raise TagTypeError(f"a tag must be a string, got {shown(token)}")
    if not isinstance(delimiter, str):
        raise TagTypeError(f"the delimiter of tags must be a string, got {shown(delimiter)}")
    if not token:
        raise EmptyTagError(f"tag {token!r} is empty: expected one of {' '.join(Prefixes)}, and a type")
    letter, rest = (token[-1:], token[:-1]) if suffix else (token[:1], token[1:])
    if letter not in Prefixes:
        raise UnknownPrefixError(f"tag {token!r} has the prefix {letter!r}: expected one of {' '.join(Prefixes)}")
    return letter, rest.strip(delimiter) or "_"


def check_scheme(scheme: Any) -> type[Token]:
    """A class of this module, which has the rules of its scheme."""
    if isinstance(scheme, type) and issubclass(scheme, Token) and hasattr(scheme, "scheme"):
        return scheme
    named = "IOB1, IOB2, IOE1, IOE2, IOBES or BILOU"
    own = isinstance(scheme, type) and issubclass(scheme, Token)
    raise ConfigError(
        f"scheme must be one of the classes {named}, got {shown(scheme)}"
        + (": classes with patterns of their own are not supported" if own else "")
    )


class IOB1(Token):
    """B only between adjoining spans of one type."""

    scheme = Scheme.IOB1
    allowed_prefix = Prefix.I | Prefix.O | Prefix.B


class IOB2(Token):
    """B at the start of every span."""

    scheme = Scheme.IOB2
    allowed_prefix = Prefix.I | Prefix.O | Prefix.B


class IOE1(Token):
    """E only between adjoining spans of one type, with seqeval's gap: a span cannot begin with E."""

    scheme = Scheme.IOE1
    allowed_prefix = Prefix.I | Prefix.O | Prefix.E

    @classmethod
    @cache
    def tables(cls) -> ChunkTables:
        """The correct tables without the starts that seqeval does not have."""
        proper = strict_tables(Scheme.IOE1)
        lacking = steps(Role, [Role.E]) & ~steps([Role.E], [Role.E], same=True)
        return proper._replace(start=proper.start & ~lacking)


class IOE2(Token):
    """E at the end of every span."""

    scheme = Scheme.IOE2
    allowed_prefix = Prefix.I | Prefix.O | Prefix.E


class IOBES(Token):
    """B, I, E, and S for a span of one token."""

    scheme = Scheme.BIOES
    allowed_prefix = Prefix.I | Prefix.O | Prefix.B | Prefix.E | Prefix.S


class BILOU(Token):
    """B, I, L, and U for a span of one token."""

    scheme = Scheme.BILOU
    allowed_prefix = Prefix.B | Prefix.I | Prefix.L | Prefix.O | Prefix.U


def scheme_alphabet(scheme: type[Token], suffix: bool = False, delimiter: str = "-") -> Alphabet:
    """An empty alphabet that reads tags as ``scheme`` does."""
    check_scheme(scheme)

    def parse(label: str) -> tuple[Role, str]:
        token = scheme(label, suffix, delimiter)
        token.is_valid()
        return _ROLES[token.prefix.name or ""], token.tag

    return Alphabet(parse, outside="_")


class Entity(NamedTuple):
    """A span of tokens ``start`` to ``end - 1`` in one sentence."""

    sent_id: int | None
    start: int
    end: int
    tag: str

    def __repr__(self) -> str:
        """Sentence, type, start and end."""
        return f"({self.sent_id}, {self.tag}, {self.start}, {self.end})"

    def to_tuple(self) -> tuple[int | None, str, int, int]:
        """Sentence, type, start and end."""
        return self.sent_id, self.tag, self.start, self.end


class Entities:
    """The well-formed spans of many sequences."""

    def __init__(
        self,
        sequences: Sequence[Sequence[str]],
        scheme: type[Token],
        suffix: bool = False,
        delimiter: str = "-",
    ) -> None:
        if isinstance(sequences, str) or not isinstance(sequences, Iterable):
            raise TagTypeError(f"expected a list of lists of tags, got {shown(sequences)}")
        alphabet = scheme_alphabet(scheme, suffix, delimiter)
        chunks = find_chunks(alphabet, alphabet.encode(sequences), scheme.tables())
        owner, offset = locate(chunks, map(len, sequences))
        columns = (owner, chunks.begin - offset, chunks.end - offset, chunks.kind)
        kinds = alphabet.kinds
        self.entities: list[list[Entity]] = [[] for _ in sequences]
        for sent_id, start, end, kind in zip(*(column.tolist() for column in columns), strict=True):
            self.entities[sent_id].append(Entity(sent_id, start, end, kinds[kind]))

    def filter(self, tag_name: str) -> set[Entity]:
        """The spans of one type."""
        return {entity for entity in chain.from_iterable(self.entities) if entity.tag == tag_name}

    @property
    def unique_tags(self) -> set[str]:
        """The types that occur."""
        return {entity.tag for entity in chain.from_iterable(self.entities)}


class Tokens:
    """One sequence; tags that the scheme does not have are refused when its well-formed spans are asked for."""

    def __init__(
        self,
        tokens: Sequence[str],
        scheme: type[Token],
        suffix: bool = False,
        delimiter: str = "-",
        sent_id: int | None = None,
    ) -> None:
        self.outside_token = scheme("O", suffix, delimiter)
        self.tokens = [scheme(token, suffix, delimiter) for token in tokens]
        self.extended_tokens = [*self.tokens, self.outside_token]
        self.sent_id = sent_id
        self._find = partial(Entities, [tokens], scheme, suffix, delimiter)

    @property
    def entities(self) -> list[Entity]:
        """The spans, by position."""
        return [entity._replace(sent_id=self.sent_id) for entity in self._find().entities[0]]


def auto_detect(sequences: Sequence[Sequence[str]], suffix: bool = False, delimiter: str = "-") -> type[Token]:
    """IOB2, IOE2, IOBES or BILOU, by the letters that occur."""
    labels = set(chain.from_iterable(sequences))
    letters = {_split(label, suffix, delimiter)[0] for label in labels}
    if "B" in letters and letters <= set("BIO"):
        return IOB2
    if "E" in letters and letters <= set("EIO"):
        return IOE2
    if letters == {"S"} or ({"B", "E"} <= letters <= set("BIOES")):
        return IOBES
    if letters == {"U"} or ({"B", "L"} <= letters <= set("BILOU")):
        return BILOU
    if not letters:
        raise TagError("there is no tag that could tell IOB2, IOE2, IOBES or BILOU: give a scheme")
    raise TagError(f"the prefixes {' '.join(sorted(letters))} are not those of IOB2, IOE2, IOBES or BILOU")

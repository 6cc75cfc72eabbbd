"""seqeval's scheme classes, for ``scheme=`` of strict mode, and the spans that they find.

The rules are Trellis's own (:func:`trellis.tags.spans.strict_tables`), which give seqeval's spans on
every input, except for IOE1: seqeval does not let a span begin with E, except right after an E of the same
type, so it misses spans of one token before another of their type. That is mirrored here, and only
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import ClassVar, NamedTuple

from trellis.errors import ConfigError, TagError, shown
from trellis.tags import Role, Scheme
from trellis.tags.scheme import steps
from trellis.tags.spans import Alphabet, ChunkTables, find_chunks, locate, strict_tables

_LETTERS = "IOBESUL"


class UnknownPrefixError(TagError, KeyError):
    """A tag whose letter no scheme has; seqeval raises a KeyError."""

    __str__ = Exception.__str__  # a KeyError would show the message in quotes


class EmptyTagError(TagError, IndexError):
    """A tag without any letter; seqeval raises an IndexError."""


class TagTypeError(TagError, TypeError):
    """A tag that is no string; seqeval raises a TypeError."""


class Token:
    """The base of the scheme classes, which are given as they are: ``scheme=IOB2``."""

    scheme: ClassVar[Scheme]

    @classmethod
    def tables(cls) -> ChunkTables:
        """Where spans start, continue and end."""
        return strict_tables(cls.scheme)


class IOB1(Token):
    """B only between adjoining spans of one type."""

    scheme = Scheme.IOB1


class IOB2(Token):
    """B at the start of every span."""

    scheme = Scheme.IOB2


class IOE1(Token):
    """E only between adjoining spans of one type, with seqeval's gap: a span cannot begin with E."""

    scheme = Scheme.IOE1

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


class IOBES(Token):
    """B, I, E, and S for a span of one token."""

    scheme = Scheme.BIOES


class BILOU(Token):
    """B, I, L, and U for a span of one token."""

    scheme = Scheme.BILOU


def scheme_alphabet(scheme: type[Token], suffix: bool = False, delimiter: str = "-") -> Alphabet:
    """An empty alphabet that reads tags as the scheme does, which must be a class of this module."""
    derived = isinstance(scheme, type) and issubclass(scheme, Token)
    if not derived or not hasattr(scheme, "scheme"):
        raise ConfigError(
            f"scheme must be one of the classes IOB1, IOB2, IOE1, IOE2, IOBES or BILOU, got {shown(scheme)}"
            + (": classes with patterns of their own are not supported" if derived else "")
        )
    roles = scheme.scheme.letters

    def parse(label: str) -> tuple[Role, str]:
        letter, kind = _split(label, suffix, delimiter)
        if letter not in roles:
            raise TagError(f"tag {label!r}: {scheme.__name__} has only the prefixes {' '.join(roles)}")
        return roles[letter], kind

    return Alphabet(parse, outside="_")


def _split(tag: str, suffix: bool, delimiter: str) -> tuple[str, str]:
    """Letter and type; the type of a bare letter is ``_``."""
    if not isinstance(tag, str | bytes):
        raise TagTypeError(f"a tag must be a string, got {shown(tag)}")
    if not isinstance(delimiter, str):
        raise TagTypeError(f"the delimiter of tags must be a string, got {shown(delimiter)}")
    if not tag:
        raise EmptyTagError(f"tag {tag!r} is empty: expected one of {' '.join(_LETTERS)}, and a type")
    letter, rest = (tag[-1:], tag[:-1]) if suffix else (tag[:1], tag[1:])
    if isinstance(tag, bytes) or letter not in _LETTERS:
        raise UnknownPrefixError(f"tag {tag!r} has the prefix {letter!r}: expected one of {' '.join(_LETTERS)}")
    return letter, rest.strip(delimiter) or "_"


class Entity(NamedTuple):
    """A span of tokens ``start`` to ``end - 1`` in one sentence."""

    sent_id: int | None
    start: int
    end: int
    tag: str

    def __repr__(self) -> str:
        return f"({self.sent_id}, {self.tag}, {self.start}, {self.end})"

    def to_tuple(self) -> tuple[int | None, str, int, int]:
        return self.sent_id, self.tag, self.start, self.end


class Entities:
    """The well-formed spans of many sequences."""

    def __init__(
        self, sequences: Sequence[Sequence[str]], scheme: type[Token], suffix: bool = False, delimiter: str = "-"
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
        return {entity.tag for entity in chain.from_iterable(self.entities)}


def auto_detect(sequences: Sequence[Sequence[str]], suffix: bool = False, delimiter: str = "-") -> type[Token]:
    """IOB2, IOE2, IOBES or BILOU, by the letters that occur."""
    letters = {_split(tag, suffix, delimiter)[0] for tag in set(chain.from_iterable(sequences))}
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

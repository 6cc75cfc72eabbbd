"""A small grammar of sentences, written as text, and the drawing of sentences from it.

    sentence:
        [PER <given> ] went to [LOC <city> ] .
        ~ is [PER <given> ] in [LOC <city> ] ?

    given:
        Ada | Jordan | May
        --
        Kofi

A symbol and a colon, then its alternatives: one per line, or several with ``|`` between them. Words are separated by
spaces; ``<city>`` stands for an alternative of that symbol, and joins what it touches (``<surname><given>`` is one
word). ``[LOC ... ]`` marks an entity. What follows ``--`` is held out: drawn for dev and test, never for training. A
sentence that starts with ``~`` is written in lower case, with ``^`` in upper case. ``#`` starts a comment line.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from trellis.errors import DataError
from trellis.text import Sentence

START = "sentence"

_HEADING = re.compile(r"([a-z-]+):$")
_REFERENCE = re.compile(r"<([a-z-]+)>")
_HELD_OUT = "--"
_OPENING = ('"', "(")
_CASES: dict[str, Callable[[str], str]] = {"~": str.lower, "^": str.upper}


@dataclass(frozen=True, slots=True)
class Symbol:
    """The alternatives of a symbol: those for everyone, and those that training never sees."""

    seen: list[str] = field(default_factory=list)
    held_out: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Grammar:
    """Symbols by name; every sentence is an alternative of ``sentence`` with all references replaced."""

    symbols: dict[str, Symbol]

    @classmethod
    def parse(cls, text: str) -> Grammar:
        """Read a grammar; a symbol that is missing, or has no alternative for training, is an error."""
        symbols: dict[str, Symbol] = {}
        alternatives: list[str] | None = None
        for number, line in enumerate(text.split("\n"), 1):
            content = line.strip()
            heading = _HEADING.match(line)
            if heading:
                symbol = symbols.setdefault(heading[1], Symbol())
                alternatives = symbol.seen
            elif not content or content.startswith("#"):
                continue
            elif alternatives is None:
                raise DataError(f"grammar, line {number}: expected a symbol such as 'city:', found {content!r}")
            elif content == _HELD_OUT:
                alternatives = symbol.held_out
            else:
                alternatives.extend(part.strip() for part in content.split(" | "))
        _check(symbols)
        return cls(symbols)


def _check(symbols: dict[str, Symbol]) -> None:
    if START not in symbols:
        raise DataError(f"grammar: there is no symbol {START!r}")
    for name, symbol in symbols.items():
        if not symbol.seen:
            raise DataError(f"grammar: the symbol {name!r} has no alternative for training")
        for text in (*symbol.seen, *symbol.held_out):
            missing = [used for used in _REFERENCE.findall(text) if used not in symbols]
            if missing:
                raise DataError(f"grammar: <{missing[0]}> in {text!r} of {name!r} is not a symbol")


class Writer:
    """Draws sentences from a grammar, as varied as it allows.

    The alternatives of a symbol are dealt like cards: each comes up once before any comes up again.
    """

    def __init__(self, grammar: Grammar, seed: int) -> None:
        self._grammar = grammar
        self._random = random.Random(seed)
        self._decks: dict[tuple[str, bool], list[str]] = {}

    def sentences(self, *, held_out: bool) -> Iterator[Sentence]:
        """Sentences without end, from all alternatives or only from those for training."""
        while True:
            yield to_sentence(self._expand(START, held_out))

    def _expand(self, name: str, held_out: bool) -> str:
        return _REFERENCE.sub(lambda match: self._expand(match[1], held_out), self._deal(name, held_out))

    def _deal(self, name: str, held_out: bool) -> str:
        deck = self._decks.setdefault((name, held_out), [])
        if not deck:
            symbol = self._grammar.symbols[name]
            deck.extend([*symbol.seen, *symbol.held_out] if held_out else symbol.seen)
            # Sorted by random(), whose sequence Python keeps across versions; that of shuffle it may change.
            deck.sort(key=lambda _: self._random.random())
        return deck.pop()


def to_sentence(text: str) -> Sentence:
    """The tokens and BIO tags of a drawn sentence: ``[PER Ada Hill ]`` gives B-PER and I-PER."""
    words = text.split(" ")
    tokens: list[str] = []
    tags: list[str] = []
    tag = "O"
    for word in words[words[0] in _CASES :]:
        if word.startswith("["):
            tag = f"B-{word[1:]}"
        elif word == "]":
            tag = "O"
        else:
            tokens.append(word)
            tags.append(tag)
            tag = tag.replace("B-", "I-")
    change = _CASES.get(words[0], str)
    return Sentence([change(token) for token in _spelt(tokens)], tags)


def _spelt(tokens: list[str]) -> list[str]:
    """As English is written: a capital at the start (also of what is quoted), and "an" before a vowel."""
    spelt = [
        f"{word}n" if word == "a" and after[0] in "aeiouAEIOU8" else word
        for word, after in zip(tokens, [*tokens[1:], " "], strict=True)
    ]
    first = spelt[0] in _OPENING and len(spelt) > 1
    return [*spelt[:first], spelt[first][:1].upper() + spelt[first][1:], *spelt[first + 1 :]]

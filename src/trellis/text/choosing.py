"""From a name, a setting or a stored description to the tokenizer that is meant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from trellis.errors import ConfigError, DataError
from trellis.text import plain
from trellis.text.conventions import Conventions
from trellis.text.own import File, Function, OwnTokenizer, Regex, file_tokenizer, imported_function, stored_function
from trellis.text.sentence import Offsets, Sentence
from trellis.text.splitters import Plain, Splitter, Tokenizer, WordSplitter, sentence_at, sentence_in
from trellis.untrusted import Fields


@lru_cache(maxsize=1)
def _english() -> WordSplitter:
    return WordSplitter()


def english(text: str) -> list[Offsets]:
    """Words as most annotated English has them: ``It 's``, ``do n't``, ``U.S.``, ``$ 5``, ``3.5 %``."""
    return _english().offsets(text)


TOKENIZERS: dict[str, Tokenizer] = {
    "words": plain.words,
    "english": english,
    "characters": plain.characters,
    "whitespace": plain.whitespace,
}
_PLAIN = {name: Plain(name) for name in ("words", "characters", "whitespace")}
_OTHERS = "regex:PATTERN, package.module:function or a tokenizers file (.json)"


def tokenize(text: str, tokenizer: str | Tokenizer | Splitter = "words") -> Sentence:
    """The text as a sentence of tokens with offsets; see `splitter` for what `tokenizer` may be."""
    if callable(tokenizer):
        return sentence_at(text, tokenizer(text))
    return splitter(tokenizer).sentence(text)


def get_tokenizer(tokenizer: str | Tokenizer | Splitter) -> Tokenizer:
    """The tokenizer of that name, or the function itself."""
    return tokenizer if callable(tokenizer) else splitter(tokenizer).offsets


def splitter(given: str | OwnTokenizer | Splitter) -> Splitter:
    """The splitter that a user means: one of ours by name, or an own one; see `trellis.text.own`."""
    if isinstance(given, Splitter):
        return given
    if not isinstance(given, str):
        return Function(given)
    if given in TOKENIZERS:
        return _PLAIN.get(given) or _english()
    if given.startswith("regex:"):
        return Regex(given.removeprefix("regex:"))
    if given.endswith(".json"):
        return file_tokenizer(given)
    if ":" in given:
        return Function(imported_function(given))
    raise DataError(f"unknown tokenizer {given!r}: expected one of {', '.join(TOKENIZERS)}, {_OTHERS}")


def splitter_from_dict(fields: Fields) -> Splitter:
    """The splitter that `Splitter.to_dict` described, in a file that anybody may have written."""
    kinds: dict[str, Callable[[Fields], Splitter]] = {
        "regex": lambda own: Regex(own.text("pattern")),
        "function": lambda own: Function(stored_function(own.text("function"))),
        "file": lambda own: File(own.text("description")),
    }
    name = fields.choice("name", [*_PLAIN, *kinds])
    if name in kinds:
        try:
            return kinds[name](fields)
        except ConfigError as error:
            raise fields.error(f"{fields.where}: {error}") from None
    return _words(fields) if "conventions" in fields else _PLAIN[name]


def _words(fields: Fields) -> WordSplitter:
    switches = fields.table("conventions")
    known = {item.name for item in dataclasses.fields(Conventions)}
    values: dict[str, Any] = {name: switches.value(name, bool) for name in known if name in switches}
    exceptions = {}
    for pieces in fields.items("exceptions", list):
        if not pieces or not all(isinstance(piece, str) and piece and not piece.isspace() for piece in pieces):
            raise fields.error(
                f"{fields.where}: an exception of the tokenizer must be a list of strings, got {pieces!r:.80}"
            )
        exceptions["".join(pieces)] = tuple(pieces)
    compounds = "compounds" in fields and fields.value("compounds", bool)
    return WordSplitter(Conventions(**values), exceptions, compounds=compounds)


def split_text(text: str, tokenizer: str | Splitter) -> list[str]:
    """The tokens of a text without their offsets, in a third of the time; see `sentence_in`."""
    return splitter(tokenizer).split(text)


__all__ = ["TOKENIZERS", "get_tokenizer", "sentence_in", "split_text", "splitter", "splitter_from_dict", "tokenize"]

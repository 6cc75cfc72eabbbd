"""Tokenizers that users bring: a regular expression, a function, or a file of Hugging Face's `tokenizers`."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

from trellis.errors import ConfigError, DataError
from trellis.text.sentence import Offsets, Sentence
from trellis.text.splitters import Splitter, sentence_at, sentence_in
from trellis.untrusted import parse_json

OwnTokenizer = Callable[[str], Sequence[Offsets] | Sequence[str]]
_MARK = "__trellis_tokenizer__"
_LONGEST_PATTERN = 10_000
_MOST_REPEATS = 100_000
_COUNTS = re.compile(r"\{\s*(\d{1,18})")
_SECONDS, _SECONDS_PER_CHARACTER = 1.0, 1e-5  # of CPU time, for the matches of one text


class Regex(Splitter):
    """The matches of a regular expression are the tokens; what lies between them is skipped.

    The pattern may come from a model file of a stranger. It is one of Python's `re`; the package `regex` matches it,
    with a limit of CPU time, since patterns like ``(a|aa)+b`` can take exponential time.
    """

    name = "regex"
    covers = False

    def __init__(self, pattern: str) -> None:
        import regex

        if len(pattern) > _LONGEST_PATTERN:
            raise ConfigError(
                f"the tokenizer's pattern has {len(pattern)} characters, at most {_LONGEST_PATTERN} are possible"
            )
        if prod(max(1, int(count)) for count in _COUNTS.findall(pattern)) > _MOST_REPEATS:  # `regex` writes them out
            raise ConfigError(
                f"the counts of the tokenizer's pattern {pattern!r:.200} multiply to more than {_MOST_REPEATS:,}"
            )
        try:
            re.compile(pattern)
            self._pattern = regex.compile(pattern)
        except (re.error, regex.error, RecursionError, OverflowError) as error:
            raise ConfigError(
                f"the tokenizer's pattern {pattern!r:.200} is not a regular expression: {error}"
            ) from None

    def split(self, text: str) -> list[str]:
        """The matches that are not empty."""
        return [text[start:end] for start, end in self._places(text)]

    def sentence(self, text: str) -> Sentence:
        """The matches where they were found."""
        return sentence_at(text, self._places(text))

    def to_dict(self) -> dict[str, Any]:
        """The pattern."""
        return {"name": self.name, "pattern": self._pattern.pattern}

    def _places(self, text: str) -> list[Offsets]:
        seconds = _SECONDS + _SECONDS_PER_CHARACTER * len(text)
        try:
            return [match.span() for match in self._pattern.finditer(text, timeout=seconds) if match[0]]
        except TimeoutError:
            raise DataError(
                f"the tokenizer's pattern {self._pattern.pattern!r:.200} needs more than {seconds:.3g} seconds for a "
                f"text of {len(text):,} characters; write nested repeats possessively, (?:a++)++b"
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Regex, (self._pattern.pattern,)


def tokenizer(function: OwnTokenizer) -> OwnTokenizer:
    """Mark a function as a tokenizer, so that models that were stored with its name may call it.

    It takes a text and returns the tokens, or their ``(start, end)`` offsets, in order. It must be importable by its
    name, that is be defined at the top of a module.
    """
    setattr(function, _MARK, True)
    return function


class Function(Splitter):
    """A function that takes a text and returns its tokens, or their offsets."""

    name = "function"
    covers = False

    def __init__(self, function: OwnTokenizer) -> None:
        self.function = function
        self.place = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', '?')}"

    def split(self, text: str) -> list[str]:
        """The tokens."""
        return list(self.sentence(text).tokens)

    def sentence(self, text: str) -> Sentence:
        """The tokens where the function found them."""
        found: list[Any] = list(self.function(text))
        if all(isinstance(token, str) for token in found):
            try:
                return sentence_in(text, found)
            except ValueError:
                problem = f"the tokenizer {self.place} returned tokens that the text does not have: {text!r:.80}"
                raise DataError(problem) from None
        return sentence_at(text, [(int(start), int(end)) for start, end in found])

    def to_dict(self) -> dict[str, Any]:
        """The name under which the function can be imported."""
        if not getattr(self.function, _MARK, False) or "<" in self.place:
            raise ConfigError(
                f"the tokenizer {self.place} cannot be stored with a model: define it at the top of a module and "
                "mark it with @trellis.text.tokenizer"
            )
        return {"name": self.name, "function": self.place}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self.function,)


def imported_function(place: str) -> OwnTokenizer:
    """The function ``package.module:name``, as a user asks for it."""
    module, _, name = place.partition(":")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"the tokenizer {place!r} cannot be imported: {error}") from None
    if not callable(found):
        raise ConfigError(f"the tokenizer {place!r} is not a function")
    return found


def stored_function(place: str) -> OwnTokenizer:
    """The function that a model names. A file must not run code by itself: only marked functions are called.

    The module must have been imported, by the program or by a ``--tokenizer`` on the command line.
    """
    module, _, name = place.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found) or not getattr(found, _MARK, False):
        raise ConfigError(
            f"the model splits raw text by the function {place}: import its module before you open the model, and mark "
            "the function with @trellis.text.tokenizer (on the command line: --tokenizer module:function)"
        )
    return found  # type: ignore[no-any-return]


class File(Splitter):
    """The words of a file of Hugging Face's `tokenizers`: what its pre-tokenizer gives, not the subwords of its model.

    Only the parts that find words are kept, without the vocabulary.
    """

    name = "file"
    covers = False

    def __init__(self, description: str) -> None:
        library = _library()
        try:
            given = parse_json(description)
            kept = {key: given.get(key) for key in ("version", "normalizer", "pre_tokenizer")}
            if kept["pre_tokenizer"] is None:
                raise ConfigError("the tokenizer file has no pre_tokenizer, which is what finds words")
            unknown = {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}
            self._description = json.dumps({**kept, "added_tokens": [], "model": unknown}, ensure_ascii=False)
            self._backend = library.Tokenizer.from_str(self._description)
        except (ConfigError, KeyboardInterrupt):
            raise
        except BaseException as error:  # the library raises bare exceptions, and panics that are not even those
            raise ConfigError(f"the tokenizer file cannot be read: {error}") from None

    def split(self, text: str) -> list[str]:
        """The words."""
        return list(self.sentence(text).tokens)

    def sentence(self, text: str) -> Sentence:
        """The words with their offsets, without the white space that some tokenizers take along."""
        try:
            offsets = self._backend.encode(text, add_special_tokens=False).offsets
        except BaseException as error:  # a panic of the library is not even an Exception: a pattern that takes too long
            if type(error).__name__ != "PanicException":
                raise
            raise DataError(f"the tokenizer file cannot split a text of {len(text):,} characters: {error}") from None
        return sentence_at(
            text, [place for place in (_stripped(text, *pair) for pair in offsets) if place[0] < place[1]]
        )

    def to_dict(self) -> dict[str, Any]:
        """The description, without a vocabulary."""
        return {"name": self.name, "description": self._description}

    def __reduce__(self) -> tuple[Any, ...]:
        return File, (self._description,)


def file_tokenizer(path: str | Path) -> File:
    """The tokenizer of a file such as ``tokenizer.json``."""
    try:
        return File(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"the tokenizer file {path} cannot be read: {error.strerror}") from None


def _stripped(text: str, start: int, end: int) -> Offsets:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - (len(part) - len(part.rstrip()))


def _library() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise ConfigError("a tokenizer file needs tokenizers: pip install tokenizers") from None
    return tokenizers

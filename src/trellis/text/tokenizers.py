"""Tokenizers and splitters: the ways of making tokens of raw text. A splitter can be stored with a model.

words        by the conventions of a corpus (`trellis.text.conventions`), or plainly by letters
characters   one by one, as a reader sees them
whitespace   what stands between white space
regex        the matches of a regular expression
function     a function of the user's
file         the words of a file of Hugging Face's `tokenizers`
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any

from trellis import _native
from trellis.errors import ConfigError, DataError, required, shown, warn
from trellis.lazy import cached
from trellis.text.conventions import (
    ABBREVIATIONS,
    COMPOUND,
    CONTRACTIONS,
    UNSPACED,
    Conventions,
    learn_conventions,
    pattern,
    patterns,
    word_list,
)
from trellis.text.sentence import Offsets, Sentence
from trellis.untrusted import Fields, parse_json

Tokenizer = Callable[[str], list[Offsets]]

_TAKEN_APART = (
    "the model was trained on words of several ideographs, but raw text is split into single ones: segment it first "
    "(trellis.Pipeline, trellis tag --pipe SEGMENTER MODEL), or give the model words"
)
_LONGEST_CHUNK = 48  # characters of a chunk that is remembered
_MOST_CHUNKS = 50_000
_LONGEST_EXCEPTION = 6  # tokens that an exception may join
OwnTokenizer = Callable[[str], Sequence[Offsets] | Sequence[str]]
_MARK = "__trellis_tokenizer__"
_LONGEST_PATTERN = 10_000
_MOST_REPEATS = 100_000
_COUNTS = re.compile(r"\{\s*(\d{1,18})")
_SECONDS, _SECONDS_PER_CHARACTER = 1.0, 1e-5  # of CPU time, for the matches of one text
_ALONE: dict[str, str] = {}
"""Characters met so far that are tokens of their own; looking them up takes less time than a pattern.

Texts share them, and with them their bytes in UTF-8, which Python keeps once native code has asked.
"""
_SINGLE = [(i, i + 1) for i in range(1024)]
"""The offsets of single characters, as one object for all sentences: a corpus of characters has millions."""


def whitespace(text: str) -> list[Offsets]:
    """Everything between white space of any kind (Unicode's, so NBSP and the ideographic space too)."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def characters(text: str) -> list[Offsets]:
    """Each character as a reader sees it, without white space.

    Kept whole: combining marks and variation selectors with their base, emoji joined by ZWJ or with a skin
    tone, pairs of regional indicators (flags), and the two halves of a surrogate pair; a lone surrogate is a
    token by itself.
    """
    known = patterns()
    if known.special.search(text) is None:
        return [(i, i + 1) for i, character in enumerate(text) if not character.isspace()]
    return [match.span() for match in known.character.finditer(text)]


def graphemes(text: str) -> list[Offsets]:
    """Like `characters`, with white space kept: the pieces join to the text again."""
    known = patterns()
    if known.special.search(text) is None:
        return [*_SINGLE[: len(text)], *((i, i + 1) for i in range(len(_SINGLE), len(text)))]
    return [match.span() for match in known.grapheme.finditer(text)]


def words(text: str) -> list[Offsets]:
    """Words and numbers, and each punctuation mark or symbol by itself.

    Inner apostrophes stay (``don't``), and so do points and commas between digits (``1,000.5``); hyphens
    split. Ideographs and hiragana, written without spaces, come one by one; other scripts without spaces
    (Thai, Khmer) as runs.
    """
    return [match.span() for match in patterns().word.finditer(text)]


class Splitter(ABC):
    """Makes tokens of raw text; `name` says how. Subclasses define `split` or `sentence`."""

    name: str
    separator: str = " "
    """What stands between tokens that came without a text."""
    covers: bool = True
    """Whether there is nothing but white space between tokens, so that `sentence_in` finds them in their text."""

    def split(self, text: str) -> list[str]:
        """The tokens, in order."""
        return list(self.sentence(text).tokens)

    def sentence(self, text: str) -> Sentence:
        """The tokens with their offsets in the text."""
        return sentence_in(text, self.split(text))

    def offsets(self, text: str) -> list[Offsets]:
        """The ``(start, end)`` of each token."""
        return list(self.sentence(text).offsets or ())

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values, from which `trellis.text.splitter_from_dict` makes the same splitter."""

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Splitter) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.name)


class Plain(Splitter):
    """One of the splitters that know no conventions: words, characters or whitespace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.separator = "" if name == "characters" else " "

    def split(self, text: str) -> list[str]:
        if self.name == "whitespace":
            return text.split()
        if self.name == "characters":
            try:
                return list(map(_ALONE.__getitem__, text))
            except KeyError:
                pass
        known = patterns()
        if self.name == "words":
            return known.word.findall(text)
        if known.special.search(text) is not None:
            return known.character.findall(text)
        characters = list("".join(text.split()))
        _ALONE.update(zip(characters, characters, strict=True))  # all of Unicode at most
        return characters

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name}


class WordSplitter(Splitter):
    """Words by the conventions of a corpus, with exceptions.

    Text is split at white space first, and the tokens of each chunk are remembered: running text repeats itself.
    """

    name = "words"

    def __init__(
        self,
        conventions: Conventions | None = None,
        exceptions: Mapping[str, Sequence[str]] | None = None,
        *,
        compounds: bool = False,
    ) -> None:
        self.conventions = conventions or Conventions()
        self.compounds = compounds
        """Whether the corpus has words of several ideographs, which no rule finds in running text."""
        self.exceptions = {text: tuple(pieces) for text, pieces in (exceptions or {}).items()}
        self._known: dict[str, tuple[str, ...]] = {}
        self._easy = _native.EasyWords()
        for word in {*CONTRACTIONS, *ABBREVIATIONS, *self.exceptions}:
            self._easy.exclude(word.lower().encode("utf-8", "backslashreplace"))

    def split(self, text: str) -> list[str]:
        if self.compounds and not text.isascii() and COMPOUND.search(text):
            warn(_TAKEN_APART)
        tokens = self._easy.split(text, self._known, self.pieces)
        if tokens is not None:
            return tokens
        return [token for chunk in text.split() for token in self.pieces(chunk)]

    def pieces(self, chunk: str) -> tuple[str, ...]:
        """The tokens of a text without white space, by the rules."""
        pieces = self._pieces(chunk)
        firsts = self._ascii_firsts if chunk.isascii() else self._firsts
        tokens = tuple(pieces if firsts.isdisjoint(pieces) else self._corrected(pieces, firsts))
        if len(chunk) <= _LONGEST_CHUNK:
            if len(self._known) >= _MOST_CHUNKS:
                self._known.clear()
            self._known[chunk] = tokens
        return tokens

    def _pieces(self, chunk: str) -> list[str]:
        """The tokens before the exceptions."""
        return pattern(self.conventions, chunk.isascii()).findall(chunk)

    @cached
    def _firsts(self) -> set[str]:
        """The first pieces of all exceptions."""
        return {self._pieces(text)[0] for text in self.exceptions}

    @cached
    def _ascii_firsts(self) -> set[str]:
        """First pieces of the exceptions that are ASCII; the pattern of other texts is slow to make."""
        return {self._pieces(text)[0] for text in self.exceptions if text.isascii()}

    def _corrected(self, pieces: list[str], firsts: set[str]) -> list[str]:
        """The tokens after the exceptions: the longest runs of pieces that spell one are replaced by it."""
        corrected, i = list[str](), 0
        while i < len(pieces):
            ends = range(min(len(pieces), i + _LONGEST_EXCEPTION), i, -1) if pieces[i] in firsts else ()
            end = next((end for end in ends if "".join(pieces[i:end]) in self.exceptions), i)
            corrected += self.exceptions["".join(pieces[i:end])] if end > i else (pieces[i],)
            i = max(end, i + 1)
        return corrected

    def to_dict(self) -> dict[str, Any]:
        exceptions = [list(pieces) for pieces in self.exceptions.values()]
        return {
            "name": self.name,
            "conventions": dataclasses.asdict(self.conventions),
            "exceptions": exceptions,
            "compounds": self.compounds,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(WordSplitter, compounds=self.compounds), (self.conventions, self.exceptions)


def learned_words(sentences: Iterable[Sentence | Sequence[str]]) -> WordSplitter:
    """The splitter that agrees best with the tokens of these sentences."""
    conventions, exceptions, compounds = learn_conventions(sentences)
    return WordSplitter(conventions, exceptions, compounds=compounds)


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

    def sentence(self, text: str) -> Sentence:
        return sentence_at(text, self.offsets(text))

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "pattern": self._pattern.pattern}

    def offsets(self, text: str) -> list[Offsets]:
        seconds = _SECONDS + _SECONDS_PER_CHARACTER * len(text)
        try:
            return [match.span() for match in self._pattern.finditer(text, timeout=seconds) if match[0]]
        except TimeoutError:
            raise DataError(
                f"the tokenizer's pattern {self._pattern.pattern!r:.200} needs more than {seconds:.3g} seconds for a "
                f"text of {len(text):,} characters; write nested repeats possessively, (?:a++)++b"
            ) from None


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
        self.import_path = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', '?')}"

    def sentence(self, text: str) -> Sentence:
        tokens: list[Any] = list(self.function(text))
        if all(isinstance(token, str) for token in tokens):
            try:
                return sentence_in(text, tokens)
            except ValueError:
                problem = f"the tokenizer {self.import_path} returned tokens that the text does not have: {text!r:.80}"
                raise DataError(problem) from None
        return sentence_at(text, [(int(start), int(end)) for start, end in tokens])

    def to_dict(self) -> dict[str, Any]:
        if not getattr(self.function, _MARK, False) or "<" in self.import_path:
            raise ConfigError(
                f"the tokenizer {self.import_path} cannot be stored with a model: define it at the top of a module and "
                "mark it with @trellis.text.tokenizer"
            )
        return {"name": self.name, "function": self.import_path}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)


def imported_function(import_path: str) -> OwnTokenizer:
    """The function ``package.module:name``, as a user asks for it."""
    module, _, name = import_path.partition(":")
    try:
        function = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"the tokenizer {import_path!r} cannot be imported: {error}") from None
    if not callable(function):
        raise ConfigError(f"the tokenizer {import_path!r} is not a function")
    return function


def stored_function(import_path: str) -> OwnTokenizer:
    """The function that a model names. A file must not run code by itself: only marked functions are called.

    The module must have been imported, by the program or by a ``--tokenizer`` on the command line.
    """
    module, _, name = import_path.partition(":")
    function: Any = sys.modules.get(module)
    for part in name.split("."):
        function = getattr(function, part, None)
    if not callable(function) or not getattr(function, _MARK, False):
        raise ConfigError(
            f"the model splits raw text by the function {import_path}: import its module before you open the model, "
            "and mark the function with @trellis.text.tokenizer (on the command line: --tokenizer module:function)"
        )
    return function  # type: ignore[no-any-return]


class File(Splitter):
    """The words of a file of Hugging Face's `tokenizers`: what its pre-tokenizer gives, not the subwords of its model.

    Only the parts that find words are kept, without the vocabulary.
    """

    name = "file"
    covers = False

    def __init__(self, description: str) -> None:
        with required("a tokenizer file", "tokenizers"):
            from tokenizers import Tokenizer as Backend
        try:
            settings = parse_json(description)
            parts = {key: settings.get(key) for key in ("version", "normalizer", "pre_tokenizer")}
            if parts["pre_tokenizer"] is None:
                raise ConfigError("the tokenizer file has no pre_tokenizer, which is what finds words")
            unknown = {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}
            self._description = json.dumps({**parts, "added_tokens": [], "model": unknown}, ensure_ascii=False)
            self._backend = Backend.from_str(self._description)
        except (ConfigError, KeyboardInterrupt):
            raise
        except BaseException as error:  # the library raises bare exceptions, and panics that are not even those
            raise ConfigError(f"the tokenizer file cannot be read: {error}") from None

    def sentence(self, text: str) -> Sentence:
        """The words with their offsets, without the white space that some tokenizers take along."""
        try:
            offsets = self._backend.encode(text, add_special_tokens=False).offsets
            pieces = [(start, text[start:end]) for start, end in offsets]
        except BaseException as error:  # a panic of the library is not even an Exception: a pattern that takes too long
            if type(error).__name__ != "PanicException":
                raise
            raise DataError(f"the tokenizer file cannot split a text of {len(text):,} characters: {error}") from None
        words = [(start + len(part) - len(part.lstrip()), part.strip()) for start, part in pieces]
        return sentence_at(text, [(start, start + len(word)) for start, word in words if word])

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "description": self._description}


@lru_cache(maxsize=1)
def _english() -> WordSplitter:
    return WordSplitter()


def english(text: str) -> list[Offsets]:
    """Words as most annotated English has them: ``It 's``, ``do n't``, ``U.S.``, ``$ 5``, ``3.5 %``."""
    return _english().offsets(text)


TOKENIZERS: dict[str, Tokenizer] = {
    "words": words,
    "english": english,
    "characters": characters,
    "whitespace": whitespace,
}
_PLAIN = {name: Plain(name) for name in ("words", "characters", "whitespace")}


def tokenize(text: str, tokenizer: str | Tokenizer | Splitter = "words") -> Sentence:
    """The text as a sentence of tokens with offsets; see `splitter` for what `tokenizer` may be."""
    if callable(tokenizer):
        return sentence_at(text, tokenizer(text))
    return splitter(tokenizer).sentence(text)


def splitter(tokenizer: str | OwnTokenizer | Splitter) -> Splitter:
    """The splitter that a user means: one of ours by name, or an own one; see `Regex`, `Function` and `File`."""
    if isinstance(tokenizer, Splitter):
        return tokenizer
    if not isinstance(tokenizer, str):
        return Function(tokenizer)
    if tokenizer in TOKENIZERS:
        return _PLAIN.get(tokenizer) or _english()
    if tokenizer.startswith("regex:"):
        return Regex(tokenizer.removeprefix("regex:"))
    if tokenizer.endswith(".json"):
        try:
            return File(Path(tokenizer).read_text("utf-8"))
        except OSError as error:
            raise ConfigError(f"the tokenizer file {tokenizer} cannot be read: {error.strerror}") from None
    if ":" in tokenizer:
        return Function(imported_function(tokenizer))
    others = "regex:PATTERN, package.module:function or a tokenizers file (.json)"
    raise DataError(f"unknown tokenizer {tokenizer!r}: expected one of {', '.join(TOKENIZERS)}, {others}")


def splitter_from_dict(fields: Fields) -> Splitter:
    """The splitter that `Splitter.to_dict` described, in a file that anybody may have written."""
    kinds: dict[str, Callable[[Fields], Splitter]] = {
        "regex": lambda stored: Regex(stored.text("pattern")),
        "function": lambda stored: Function(stored_function(stored.text("function"))),
        "file": lambda stored: File(stored.text("description")),
    }
    name = fields.choice("name", [*_PLAIN, *kinds])
    if name in kinds:
        try:
            return kinds[name](fields)
        except ConfigError as error:
            raise fields.error(f"{fields.where}: {error}") from None
    if "conventions" not in fields:
        return _PLAIN[name]
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


def sentence_in(text: str, tokens: Sequence[str]) -> Sentence:
    """The sentence of these tokens of a text, each searched for behind the one before.

    Raises ValueError if one is not there.
    """
    return Sentence.in_text(tuple(tokens), text, _native.find_tokens(text, tokens))


def located(sentence: Sentence) -> Sentence:
    """A copy of the sentence with the offsets of its tokens in its text, if it has a text without them.

    Each token is searched for behind the one before. A `DataError` names the first that is not there.
    """
    if sentence.text is None or sentence.offsets is not None:
        return sentence
    try:
        return sentence._changed(offsets=_native.find_tokens(sentence.text, sentence.tokens))
    except ValueError:
        text, tokens, number, end = sentence.text, sentence.tokens, 0, 0
        while (start := text.find(tokens[number], end)) >= 0:
            end = start + len(tokens[number])
            number += 1
        raise DataError(
            f"expected the tokens in the text, one behind another, found no {shown(tokens[number])} (token {number}) "
            f"behind character {end} of {shown(text)}; leave out the text, or give its own tokens"
        ) from None


def sentence_at(text: str, offsets: Sequence[Offsets]) -> Sentence:
    """The sentence of the tokens at these offsets, which must not overlap."""
    end = 0
    for start, stop in offsets:
        if not end <= start <= stop <= len(text):
            raise DataError(
                f"a tokenizer gave the offsets ({start}, {stop}) after {end} in a text of {len(text)} characters"
            )
        end = stop
    return Sentence(tuple(text[start:stop] for start, stop in offsets), text=text, offsets=tuple(offsets))


_CLOSING = "\"'”’»)\\]}」』）】》〉"
_OPENING = "\"'“‘«([{「『（【《〈¿¡#@*-"
_CANDIDATE = re.compile(
    rf"(?P<wide>[。！？；]+[{_CLOSING}]*)"
    rf"|(?P<mark>[.!?…]+[{_CLOSING}]*)(?=\s+(?P<next>[{_OPENING}]*\w[\w'’]*)|\s*$)"
    rf"|\n[^\S\n]*\n\s*"
    rf"|(?<=[{UNSPACED}，、：])[^\S\n]*\n|\n(?=[^\S\n]*[{UNSPACED}])"
)
_WORD_BEFORE = re.compile(r"[\w.'’-]*$")
_TITLES = frozenset(
    word_list("Mr Mrs Ms Dr Prof Gen Col Sgt Capt Lt Sen Rep Gov Rev Hon Pres St Mt Ft vs cf e.g i.e approx")
)
_STARTERS = frozenset(
    word_list(
        "The A An In On At It He She They We I You This That These Those There But And Or So If When While As For From "
        "With After Before By To What Who Why How Where His Her Its Their My Our Your No Not Yes"
    )
)
_LONGEST_WORD = 40  # characters before a point that are looked at


def split_sentences(text: str) -> list[Offsets]:
    """The ``(start, end)`` of each sentence of a text, English or Chinese, without the white space around it.

    A sentence ends after ``.``, ``!``, ``?`` or ``…`` and closing quotes or brackets, if white space follows, unless
    the point belongs to a title, an initial or an abbreviation; after ``。``, ``！``, ``？`` and ``；`` always; and at
    a blank line. A line end alone ends a sentence only in Chinese: other texts may be wrapped.
    """
    ends = [match.end() for match in _CANDIDATE.finditer(text) if _is_end(text, match)]
    sentences, start = [], 0
    for end in [*ends, len(text)]:
        part = text[start:end]
        first, last = start + len(part) - len(part.lstrip()), start + len(part.rstrip())
        if first < last:
            sentences.append((first, last))
        start = end
    return sentences


def _is_end(text: str, match: re.Match[str]) -> bool:
    """Whether a sentence ends there: not after a title or an initial, nor where a quotation goes on in lower case."""
    mark, following = match["mark"], match["next"]
    if mark is None or following is None:
        return True
    begins = following.lstrip(_OPENING)
    if mark[-1] in _CLOSING and begins[0].islower():
        return False
    if not mark.startswith(".") or mark.startswith(".."):
        return not (mark.startswith(("..", "…")) and begins[0].islower())
    preceding = _WORD_BEFORE.search(text, max(0, match.start() - _LONGEST_WORD), match.start())
    word = preceding[0] if preceding else ""
    if word in _TITLES or (len(word) == 1 and word.isupper() and word != "I"):
        return False
    if word in ABBREVIATIONS or "." in word or word.lower() == "no":
        return begins in _STARTERS
    return True

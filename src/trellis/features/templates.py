"""Feature templates in CRF++'s syntax, with a few more functions.

    # the word, the word before, and both; # starts a comment
    U00:%x[0,0]
    U01:%x[-1,0]
    U02:%x[-1,0]/%x[0,0]
    # the last three characters, and the shape of the next word
    U03:%suffix3[0,0]
    U04:%shape[1,0]
    # a weight for each pair of neighbouring labels, and one for each of these pairs with each word
    B
    B01:%x[0,0]
    # what a U line and a B line would say
    *02:%lower[0,0]

``%x[row,column]`` is the cell ``row`` tokens away (0 is the token itself) in the given column: 0 is the token,
1 the first further column of the sentence, and so on. Beyond the sentence's edges a cell reads ``_B-1``, ``_B-2``
before the first token and ``_B+1``, ``_B+2`` after the last. At each token each U line becomes one feature, whose
name is the line with its cells filled in. A B line that looks at cells becomes one feature of the step into each token
but the first, about the token's label and the one before; cells are counted from the token. A line that starts with *
is both. In addition to ``x``, the same cells have these functions::

    lower        each character in lower case                     McDonald's -> mcdonald's
    shape        X upper case, x letter, d digit, others as is    McDonald's -> XxXxxxxx'x
    short        the shape with runs as one                       McDonald's -> XxXx'x
    prefix<n>    the first n characters, or all if fewer          %prefix2: McDonald's -> Mc
    suffix<n>    the last n characters, or all if fewer           %suffix2: McDonald's -> 's
    type         d digit, n Chinese numeral, l alphabetic letter, h other letter (ideographs), p the rest, m mixed
    cluster<n>   the first n steps of the word's path in a tree of word vectors, where a model has them; see
                 `trellis.features.clusters`
    lexicon<n>   how the token lies in a match of a lexicon with its nth label, where a model has one: B3 is the first
                 of three tokens, I inside, E last, S a match by itself, - none; see `trellis.lexicon.features`
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trellis import _native
from trellis.errors import TemplateError, did_you_mean, shown
from trellis.lazy import cached
from trellis.untrusted import is_unicode

_FUNCTIONS = {"x": 0, "lower": 1, "shape": 2, "short": 3, "prefix": 4, "suffix": 5, "type": 6}
_CLUSTER, _OF_CLUSTERS = "cluster", -2
"""A function of the word's cluster, and the column that stands for the one that clusters get."""
_LEXICON, _OF_LEXICON = "lexicon", -3
"""The same for the columns of lexicons, which come last."""
_TEXT_ONLY = -1
_MACRO = re.compile(r"%(?P<function>[A-Za-z]+)(?P<argument>\d*)\[(?P<row>[+-]?\d+),(?P<column>\d+)\]")
_STRAY = re.compile(r"[%％]|\w*[\[［]\s*[+-]?\d+\s*[,，]\s*\d+\s*[\]］]")
_FARTHEST = 100
# Templates come with model files, too. Memory grows with the columns and with the cells that each token looks at.
_MOST_COLUMNS, _MOST_CHARACTERS, _MOST_CELLS, _LONGEST_LINE = 1000, 1000, 4096, 10_000

Piece = tuple[str, int, int, int, int]
"""Fixed text, then a function with its argument of the cell (row, column); column -1: text only."""


@dataclass(frozen=True, slots=True)
class Template:
    """One line: where it stands and what it is made of."""

    line: int
    text: str
    pieces: tuple[Piece, ...]

    @property
    def columns(self) -> set[int]:
        """The columns it looks at."""
        return {column for *_, column in self.pieces if column >= 0}

    @property
    def looks(self) -> bool:
        """Whether it looks at cells."""
        return any(column != _TEXT_ONLY for *_, column in self.pieces)


@dataclass(frozen=True)
class Templates:
    """A template file: its templates for tokens and for steps, and whether pairs of labels have weights (a line B)."""

    name: str
    text: str
    lines: tuple[Template, ...]
    """Of tokens: lines that start with U or *."""
    transitions: bool
    edges: tuple[Template, ...] = ()
    """Of steps from one token to the next: lines that start with B or * and look at cells."""

    @classmethod
    def parse(cls, text: str, *, name: str = "template") -> Templates:
        """Read the text of a template file; `name` is for messages."""
        if not isinstance(text, str):
            raise TemplateError(f"{name} must be a string, got {shown(text)}")
        lines: list[Template] = []
        edges: list[Template] = []
        transitions = False
        for number, raw in enumerate(text.splitlines(), start=1):
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            if not is_unicode(line):
                raise TemplateError(f"{name}, line {number}: expected text that UTF-8 can write, got {line!r:.80}")
            template = _parse_line(line, number, f"{name}, line {number}")
            if line[0] in "U*":
                lines.append(template)
            if line[0] in "B*":
                transitions |= not template.looks
                edges += [template] * template.looks
        if not lines:
            raise TemplateError(f"{name} has no U line, so tokens would have no features: expected e.g. U00:%x[0,0]")
        cells = sum(len(template.pieces) for template in (*lines, *edges))
        if cells > _MOST_CELLS:
            raise TemplateError(f"{name} looks at {cells} cells of each token, at most {_MOST_CELLS} are possible")
        return cls(name, text, tuple(lines), transitions, tuple(edges))

    @classmethod
    def read(cls, path: str | Path) -> Templates:
        """Read a template file."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(f"template file {path} cannot be read: {error}") from None
        return cls.parse(text, name=str(path))

    @cached
    def num_columns(self) -> int:
        """How many columns a sentence needs, the tokens included."""
        return 1 + max((column for template in self.every for column in template.columns), default=0)

    @cached
    def uses_clusters(self) -> bool:
        """Whether it looks at clusters of words, which are the column after all others."""
        return any(column == _OF_CLUSTERS for template in self.every for *_, column in template.pieces)

    @cached
    def lexicon_columns(self) -> int:
        """How many columns of a lexicon it looks at."""
        pieces = (piece for template in self.every for piece in template.pieces)
        return max((argument for _, _, argument, _, column in pieces if column == _OF_LEXICON), default=0)

    @property
    def every(self) -> tuple[Template, ...]:
        """The templates of tokens and of steps; a line that is both is there twice."""
        return self.lines + self.edges

    @cached
    def native(self) -> _native.TemplateSet:
        """The form of `lines` that is evaluated."""
        return self._native(self.lines)

    @cached
    def native_edges(self) -> _native.TemplateSet:
        """The form of `edges` that is evaluated."""
        return self._native(self.edges)

    def _native(self, templates: tuple[Template, ...]) -> _native.TemplateSet:
        return _native.TemplateSet([[self._placed(piece) for piece in template.pieces] for template in templates])

    def _placed(self, piece: Piece) -> Piece:
        text, function, argument, row, column = piece
        if column == _OF_LEXICON:
            return text, function, 0, row, self.num_columns + self.uses_clusters + argument - 1
        return (text, function, argument, row, self.num_columns) if column == _OF_CLUSTERS else piece

    def check_columns(self, names: Sequence[str]) -> None:
        """Checks that the sentences have enough columns (the tokens are the first)."""
        if len(names) >= self.num_columns:
            return
        for template in self.every:
            missing = [column for column in template.columns if column >= len(names)]
            if missing:
                have = ", ".join(f"{i} ({name})" for i, name in enumerate(names))
                raise TemplateError(
                    f"{self.name}, line {template.line}: {template.text!r} looks at column {missing[0]}, "
                    f"but the sentences have only {have}"
                )


def _parse_line(line: str, number: int, where: str) -> Template:
    if line[0] not in "UB*":
        raise TemplateError(f"{where}: expected a line that starts with U, B, * or #, got {line!r:.200}")
    if len(line) > _LONGEST_LINE:
        raise TemplateError(f"{where} has {len(line)} characters, at most {_LONGEST_LINE} are possible")
    pieces: list[Piece] = []
    end = 0
    for match in _MACRO.finditer(line):
        text = line[end : match.start()]
        _refuse_stray(text, line, where)
        pieces.append((text, *_parse_macro(match, where)))
        end = match.end()
    _refuse_stray(line[end:], line, where)
    if line[end:] or not pieces:
        pieces.append((line[end:], 0, 0, 0, _TEXT_ONLY))
    return Template(number, line, tuple(pieces))


def _refuse_stray(text: str, line: str, where: str) -> None:
    """What looks like a cell and is none: as plain text it would be the same feature at every token."""
    stray = _STRAY.search(text)
    if stray is not None:
        broken = text[stray.start() :]
        raise TemplateError(f"{where}: cannot read {broken!r} in {line!r}: expected e.g. %x[-1,0] (row, column)")


def _parse_macro(match: re.Match[str], where: str) -> tuple[int, int, int, int]:
    function, argument = match["function"], match["argument"]
    if function not in (*_FUNCTIONS, _CLUSTER, _LEXICON):
        known = (*_FUNCTIONS, _CLUSTER, _LEXICON)
        hint = did_you_mean(function, known, show="%{}".format)
        raise TemplateError(f"{where}: unknown function %{function}: expected one of {', '.join(known)}{hint}")
    counts = function in ("prefix", "suffix", _CLUSTER, _LEXICON)
    macro = f"{where}: {shown(match[0])}"
    length = _number(argument or "0", _MOST_CHARACTERS, f"{macro} takes {argument:.12} characters")
    if counts != bool(argument) or (counts and not length):
        form = f"%{function}3[0,0]" if counts else f"%{function}[0,0]"
        raise TemplateError(f"{where}: got {shown(match[0])}, expected the form {form}")
    row = _number(match["row"], _FARTHEST, f"{macro} looks {match['row']:.12} tokens away")
    column = _number(match["column"], _MOST_COLUMNS - 1, f"{macro} looks at column {match['column']:.12}")
    if function in (_CLUSTER, _LEXICON):
        if column:
            what = "clusters" if function == _CLUSTER else "matches of a lexicon"
            raise TemplateError(f"{macro} looks at column {column}: only tokens, column 0, have {what}")
        return (
            (_FUNCTIONS["prefix"], length, row, _OF_CLUSTERS)
            if function == _CLUSTER
            else (_FUNCTIONS["x"], length, row, _OF_LEXICON)
        )
    return _FUNCTIONS[function], length, row, column


def _number(digits: str, most: int, problem: str) -> int:
    """The number, up to `most` in either direction; it may have more digits than Python would read."""
    if len(digits) > 9 or abs(int(digits)) > most:
        raise TemplateError(f"{problem}, at most {most} is possible")
    return int(digits)

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
    """Templates of tokens: lines that start with U or *."""
    transitions: bool
    edges: tuple[Template, ...] = ()
    """Templates of steps from one token to the next: lines that start with B or * and look at cells."""

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

    def words(self, feature: str) -> str:
        """What a feature says, in words: 'previous word is "to"' for U21:to; its name if it is of no template here.

        >>> ner = get_templates("ner")
        >>> ner.words("U21:to"), ner.words("U02:Xxxxx"), ner.words("U08:don"), ner.words("U30:_B-1/ada")
        ('previous word is "to"', 'shape Xxxxx', 'suffix -don', 'first word and word in lower case is "ada"')
        """
        noun = "character" if self.text.startswith(_SEG) else "word"
        for template, pattern in self._patterns:
            values = pattern.fullmatch(feature)
            if values is not None and template.looks:
                cells = zip(
                    (piece for piece in template.pieces if piece[-1] != _TEXT_ONLY), values.groups(), strict=True
                )
                return " and ".join(_words(value, noun, *piece[1:]) for piece, value in cells)
        return feature

    @cached
    def _patterns(self) -> list[tuple[Template, re.Pattern[str]]]:
        """The templates with the form of their features, in which the values of cells are groups."""
        forms = (
            (template, [(re.escape(p[0]), "(.*?)" * (p[-1] != _TEXT_ONLY)) for p in template.pieces])
            for template in self.every
        )
        return [(template, re.compile("".join(map("".join, form)), re.DOTALL)) for template, form in forms]

    def _native(self, templates: tuple[Template, ...]) -> _native.TemplateSet:
        """The templates with the numbers of the columns of clusters and lexicons, which come after all others."""

        def numbered(text: str, function: int, argument: int, row: int, column: int) -> Piece:
            if column == _OF_LEXICON:
                return text, function, 0, row, self.num_columns + self.uses_clusters + argument - 1
            return text, function, argument, row, self.num_columns if column == _OF_CLUSTERS else column

        return _native.TemplateSet([[numbered(*piece) for piece in template.pieces] for template in templates])

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse sentences with too few columns, of which the tokens are the first."""
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


_KINDS = {"d": "digit", "n": "Chinese numeral", "l": "letter", "h": "ideograph", "p": "punctuation", "m": "mixed"}
_FORMS = {number: name for name, number in _FUNCTIONS.items()}


def _words(value: str, noun: str, function: int, argument: int, row: int, column: int) -> str:
    """What the value of one cell says."""
    neighbours = {-1: f"previous {noun}", 0: noun, 1: f"next {noun}"}
    where = neighbours.get(row, f"{noun} {abs(row)} {'after' if row > 0 else 'before'}")
    if column > 0:
        where = f"column {column} of the {where}"
    if value[:3] in ("_B-", "_B+") and value[3:].isdecimal() and row:
        place = abs(int(value[2:]) - row)  # tokens between this one and the end
        if value[2] == "-":
            return f"{('first', 'second')[place]} {noun}" if place < 2 else f"{noun} {place + 1} of the sentence"
        return f"last {noun}{f' but {place}' if place else ''}"
    form = "cluster" if column == _OF_CLUSTERS else "lexicon" if column == _OF_LEXICON else _FORMS[function]
    if form in ("x", "lower"):
        return f'{where}{" in lower case" if form == "lower" and row == 0 else ""} is "{value}"'
    if form == "lexicon":
        return f"{where} in the lexicon ({argument}): {value}"
    texts = {"prefix": f"prefix {value}-", "suffix": f"suffix -{value}", "short": f"short shape {value}"}
    text = f"kind {_KINDS.get(value, value)}" if form == "type" else texts.get(form, f"{form} {value}")
    return text if row == 0 and column <= 0 else f"{where} has {text}"


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
    """Refuse text that looks like a cell but is not one: it would be the same feature at every token."""
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
    macro = f"{where}: {match[0]!r:.120}"
    length = _number(argument or "0", _MOST_CHARACTERS, f"{macro} takes {argument:.12} characters")
    if counts != bool(argument) or (counts and not length):
        form = f"%{function}3[0,0]" if counts else f"%{function}[0,0]"
        raise TemplateError(f"{where}: got {match[0]!r:.120}, expected the form {form}")
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


# The ready-made sets, one per task: texts to use or to start from.
_POS = """\
# the word, its form and its ends
U00:%x[0,0]
U01:%lower[0,0]
U02:%shape[0,0]
U03:%prefix1[0,0]
U04:%prefix2[0,0]
U05:%prefix3[0,0]
U06:%prefix4[0,0]
U07:%suffix1[0,0]
U08:%suffix2[0,0]
U09:%suffix3[0,0]
U10:%suffix4[0,0]
# its neighbours
U20:%lower[-2,0]
U21:%lower[-1,0]
U22:%lower[1,0]
U23:%lower[2,0]
U24:%suffix3[-1,0]
U25:%suffix3[1,0]
U26:%short[-1,0]
U27:%short[1,0]
U28:%lower[-1,0]/%lower[0,0]
U29:%lower[0,0]/%lower[1,0]
B
"""

_NER = """\
# the word, its form and its ends
U00:%x[0,0]
U01:%lower[0,0]
U02:%shape[0,0]
U03:%short[0,0]
U04:%prefix2[0,0]
U05:%prefix3[0,0]
U06:%prefix4[0,0]
U07:%suffix2[0,0]
U08:%suffix3[0,0]
U09:%suffix4[0,0]
U10:%prefix1[0,0]
U11:%suffix1[0,0]
U12:%prefix5[0,0]
U13:%suffix5[0,0]
# its neighbours
U20:%lower[-2,0]
U21:%lower[-1,0]
U22:%lower[1,0]
U23:%lower[2,0]
U24:%shape[-1,0]
U25:%shape[1,0]
U26:%short[-2,0]
U27:%short[2,0]
# pairs
U30:%lower[-1,0]/%lower[0,0]
U31:%lower[0,0]/%lower[1,0]
U32:%short[-1,0]/%short[0,0]
U33:%short[0,0]/%short[1,0]
U34:%short[-1,0]/%short[0,0]/%short[1,0]
U35:%lower[-1,0]/%short[0,0]
U36:%short[0,0]/%lower[1,0]
B
"""

_CHUNK = """\
# words
U00:%lower[-2,0]
U01:%lower[-1,0]
U02:%lower[0,0]
U03:%lower[1,0]
U04:%lower[2,0]
U05:%lower[-1,0]/%lower[0,0]
U06:%lower[0,0]/%lower[1,0]
U07:%suffix3[0,0]
U08:%short[0,0]
# parts of speech: column 1
U10:%x[-2,1]
U11:%x[-1,1]
U12:%x[0,1]
U13:%x[1,1]
U14:%x[2,1]
U15:%x[-2,1]/%x[-1,1]
U16:%x[-1,1]/%x[0,1]
U17:%x[0,1]/%x[1,1]
U18:%x[1,1]/%x[2,1]
U20:%x[-2,1]/%x[-1,1]/%x[0,1]
U21:%x[-1,1]/%x[0,1]/%x[1,1]
U22:%x[0,1]/%x[1,1]/%x[2,1]
B
"""

_SEG = """\
# characters
U00:%x[-2,0]
U01:%x[-1,0]
U02:%x[0,0]
U03:%x[1,0]
U04:%x[2,0]
# pairs
U10:%x[-2,0]/%x[-1,0]
U11:%x[-1,0]/%x[0,0]
U12:%x[0,0]/%x[1,0]
U13:%x[1,0]/%x[2,0]
U14:%x[-1,0]/%x[1,0]
# three in a row
U15:%x[-1,0]/%x[0,0]/%x[1,0]
# kinds of characters
U20:%type[0,0]
U21:%type[-1,0]/%type[0,0]
U22:%type[0,0]/%type[1,0]
U23:%type[-1,0]/%type[0,0]/%type[1,0]
B
"""

_CLUSTER_SET = """\
# classes of words, coarse to fine
U40:%cluster4[-1,0]
U41:%cluster4[0,0]
U42:%cluster4[1,0]
U43:%cluster6[-1,0]
U44:%cluster6[0,0]
U45:%cluster6[1,0]
U46:%cluster8[-1,0]
U47:%cluster8[0,0]
U48:%cluster8[1,0]
U49:%cluster10[-1,0]
U50:%cluster10[0,0]
U51:%cluster10[1,0]
U52:%cluster12[-1,0]
U53:%cluster12[0,0]
U54:%cluster12[1,0]
U55:%cluster14[-1,0]
U56:%cluster14[0,0]
U57:%cluster14[1,0]
# classes side by side, with the next word, and with how the word is written
U60:%cluster6[-1,0]/%cluster6[0,0]
U61:%cluster6[0,0]/%cluster6[1,0]
U62:%cluster8[-1,0]/%cluster8[0,0]
U63:%cluster8[0,0]/%cluster8[1,0]
U64:%cluster4[-1,0]/%cluster4[0,0]/%cluster4[1,0]
U65:%lower[-1,0]/%cluster6[0,0]
U66:%cluster6[0,0]/%lower[1,0]
U67:%cluster8[0,0]/%short[0,0]
U68:%cluster10[0,0]/%short[0,0]
"""

TEMPLATE_SETS = {"ner": _NER, "pos": _POS, "chunk": _CHUNK, "seg": _SEG}

_LEXICON_SET = """\
# how the token and its neighbours lie in matches of the lexicon with label {n}
U6{n}a:%lexicon{n}[-1,0]
U6{n}b:%lexicon{n}[0,0]
U6{n}c:%lexicon{n}[1,0]
U6{n}d:%lexicon{n}[-1,0]/%lexicon{n}[0,0]
U6{n}e:%lexicon{n}[0,0]/%lexicon{n}[1,0]
U6{n}f:%lexicon{n}[0,0]/%short[0,0]
"""


def get_templates(features: str | Path, *, clusters: bool = False, lexicon: int = 0) -> Templates:
    """The ready-made set of that name, or the template file of that path.

    The ready-made ones can have features of word clusters, and of this many columns of a lexicon.
    """
    if isinstance(features, str) and features in TEMPLATE_SETS:
        text = TEMPLATE_SETS[features] + (_CLUSTER_SET if clusters else "")
        text += "".join(_LEXICON_SET.format(n=n) for n in range(1, lexicon + 1))
        return Templates.parse(text, name=f"features {features!r}")
    if Path(features).is_file():
        return Templates.read(features)
    raise TemplateError(
        f"features {str(features)!r} is neither a ready-made set ({', '.join(TEMPLATE_SETS)}) "
        f"nor an existing template file{did_you_mean(features, TEMPLATE_SETS)}"
    )

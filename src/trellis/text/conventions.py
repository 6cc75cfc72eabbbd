"""Words of raw text as annotated corpora split them: clitics, abbreviations, numbers, addresses, emoticons.

Corpora differ: is ``don't`` two tokens, is ``well-known`` three, is ``#tag`` one? `Conventions` has one switch for each
such question, and `pattern` makes one regular expression of them.

The conventions of a corpus are found from its tokens. Each switch of `Conventions` is set to the value with which more
tokens of the corpus come out right, and strings that the rules get wrong again and again become exceptions. If a corpus
has raw text, its tokens are compared with that text. Without it, a text is made: tokens are joined by spaces, except
those that are known to be written together.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, islice, pairwise

from trellis.lazy import cached
from trellis.text.sentence import Sentence

UNSPACED = "々-〇ぁ-ゟ㐀-䶿一-鿿豈-\ufaff\U00020000-\U0003ffff"
"""Ideographs and hiragana, which are written without spaces, as the inside of a character class."""
_ZWJ = "\u200d"


class Patterns:
    """Patterns that are compiled when they are first asked for, and the parts that other patterns are made of."""

    def __init__(self, extend: str) -> None:
        pair = "[\U0001f1e6-\U0001f1ff]{2}|[\ud800-\udbff][\udc00-\udfff]"
        letter = rf"[^\W{UNSPACED}]"
        self.extend = extend
        # Possessive repeats (*+) never backtrack: others keep a record of each round, at 180 bytes.
        self.visible = rf"(?:{pair}|\S)[{extend}]*+(?:{_ZWJ}(?:(?:{pair}|\S)[{extend}]*+)?+)*+"
        """Source of one character as a reader sees it, white space excluded."""
        self.run = f"{letter}++(?:[{extend}{_ZWJ}]++{letter}*+)*+"
        """Source of letters, digits and underscores with their marks."""

    @cached
    def special(self) -> re.Pattern[str]:
        """Finds what may join characters: in a text without it, each code point is one character."""
        return re.compile(f"[{self.extend}{_ZWJ}\ud800-\udfff\U0001f1e6-\U0001f1ff]")

    @cached
    def character(self) -> re.Pattern[str]:
        """One character as a reader sees it, white space excluded."""
        return re.compile(self.visible)

    @cached
    def grapheme(self) -> re.Pattern[str]:
        """One character as a reader sees it."""
        return re.compile(rf"{self.visible}|\s[{self.extend}]*+")

    @cached
    def word(self) -> re.Pattern[str]:
        """One word, number or other character."""
        inner = rf"(?:(?<=\d)[.,](?=\d)|['’](?=[^\W\d_{UNSPACED}]))"
        return re.compile(f"{self.run}(?:{inner}{self.run})*+|{self.visible}")


@lru_cache(maxsize=1)
def patterns() -> Patterns:
    """The patterns, made on first use since they need the list of all combining marks."""
    # Ideographs and Hangul syllables, among which there are no combining marks (category M), are passed over.
    ranges = range(0x300, 0x3400), range(0xA000, 0xAC00), range(0xD7B0, 0x20000), range(0xE0100, 0xE01F0)
    marks = [code for code in chain(*ranges) if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me")]
    starts = [code for code, previous in zip(marks, [-1, *marks], strict=False) if code != previous + 1]
    ends = [code for code, following in zip(marks, [*marks[1:], -1], strict=True) if code != following - 1]
    mark = "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))
    # Extenders: marks (variation selectors among them), ZWNJ, skin tones, and the tag characters of flags.
    return Patterns(f"{mark}\u200c\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f")


COMPOUND = re.compile(f"[{UNSPACED}]{{2}}")
"""Ideographs or hiragana side by side, of which rules make one token each."""
_LETTER = rf"[^\W\d_{UNSPACED}]"

_CLITIC = "(?i:s|m|re|ve|ll|d)"
# Eyes, perhaps a nose, and a mouth; hearts; and the same turned round. None of it next to a letter or digit.
_EMOTICON = (
    r"[:;=8xX]['’]?[-o^]?[)(\]\[DPpOoSs|\\/}{@*3]+(?!\w)|[(][-^;:oO._]{1,3}[)]|<3+(?!\w)|[)(\]\[][-o]?[:;=](?!\w)"
    r"|\^[_.-]*\^|[oO]_[oO](?!\w)|[-=]_[-=]"
)
_DOMAINS = "com|org|net|edu|gov|mil|info|biz|io|co|uk|us|de|fr|ca|au|cn|jp|in|eu|tv|me|ly"
_FILES = "docx?|xlsx?|pptx?|pdf|txt|csv|rtf|html?|xml|json|jpe?g|png|gif|mp3|mp4|avi|zip|gz|exe|py"


def word_list(words: str) -> list[str]:
    return words.split()


ABBREVIATIONS = frozenset(
    word_list(
        "Mr Mrs Ms Dr Prof Sr Jr St Mt Ft Gen Col Sgt Capt Lt Sen Rep Reps Gov Rev Hon Pres Inc Corp Co Ltd Bros Attn "
        "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun Ave Blvd Rd vs "
        "etc al cf approx dept est Ph.D e.g i.e a.m p.m"
    )
)
"""Words that are written with a point, which does not end a sentence."""
_PREFIXES = word_list(
    "anti bi co counter cross de e ex extra inter intra macro mega micro mid mini multi neo non over post pre pro "
    "pseudo quasi re semi sub super trans tri ultra un under vice"
)
CONTRACTIONS = frozenset(word_list("cannot gonna wanna gotta gimme lemme"))
_CONTRACTIONS = r"can(?=not(?!\w))|(?:gon|wan)(?=na(?!\w))|got(?=ta(?!\w))|(?:gim|lem)(?=me(?!\w))"


@dataclass(frozen=True)
class Conventions:
    """How a corpus splits words, one switch per question; the defaults are those of most annotated English."""

    clitics: bool = True
    """``don't`` is ``do n't``, ``it's`` is ``it 's``."""
    contractions: bool = True
    """``cannot`` is ``can not``, ``gonna`` is ``gon na``."""
    hyphens: bool = False
    """``well-known`` is ``well - known``."""
    prefixes: bool = False
    """``non-human`` is ``non - human``; only matters if hyphens split."""
    slashes: bool = True
    """``and/or`` is ``and / or``."""
    dots: bool = False
    """``end.Next`` is ``end . Next``."""
    ranges: bool = False
    """``10-15`` is ``10 - 15``."""
    units: bool = False
    """``5pm`` is ``5 pm``."""
    percent: bool = True
    """``3.5%`` is ``3.5 %``."""
    money: bool = True
    """``$5`` is ``$ 5``."""
    handles: bool = False
    """``@user`` is ``@ user``."""
    hashtags: bool = False
    """``#tag`` is ``# tag``."""
    runs: bool = False
    """``!!!`` is ``! ! !``."""
    initials: bool = False
    """``J.`` is ``J .``."""
    abbreviations: bool = False
    """``Mr.`` is ``Mr .``."""
    emoticons: bool = False
    """``:)`` is ``: )``."""


@lru_cache(maxsize=128)
def pattern(conventions: Conventions, ascii_only: bool) -> re.Pattern[str]:
    """The pattern whose matches, one after another, are the tokens of a text.

    For text that is only ASCII there is a pattern that is quick to make and to use, with the same matches.
    """
    run, visible = (r"\w++", r"\S") if ascii_only else (patterns().run, patterns().visible)
    c = conventions
    # The kinds of tokens, the most specific first.
    kinds = [*_addresses(c), *_numbers(c), *_abbreviations(c), *_words(c, run), r"\.\.+", "…+", "''|``|’’|‘‘"]
    if not c.runs:
        kinds.append(r"!!+|\?\?+|\*\*+|==+|~~+|--+|__+|\+\++|\#\#+|<<+|>>+|\^\^+|[!?]{2,}|,,+|;;+|::+|//+|\\\\+|\|\|+")
    return re.compile("|".join([*kinds, visible]), re.ASCII if ascii_only else re.NOFLAG)


def _addresses(c: Conventions) -> list[str]:
    """Addresses of the web, of mail and of people, names of files, emoticons."""
    address = r"[^\s<>\"()\[\]{}]*[^\s<>\"()\[\]{}.,;:!?'’*]"
    # Repeats have bounds: what looks like the beginning of an address again and again must not be read to its end.
    kinds = [
        rf"(?i:https?|ftp)://{address}",
        rf"(?i:www)\.{address}",
        r"\w[\w.+-]{0,63}+@\w[\w-]{0,63}(?:\.\w[\w-]{0,63}){1,8}",
        rf"(?:\w[\w-]{{0,63}}+\.){{1,8}}(?i:{_DOMAINS})(?![\w@])(?:/{address})?",
        rf"(?:\w[\w\#-]{{0,63}}+)?\.(?i:{_FILES})(?!\w)",
    ]
    kinds += [] if c.emoticons else [rf"(?<![\w:;=/])(?:{_EMOTICON})"]
    kinds += [] if c.handles else [r"@(?!\d)\w+"]
    kinds += [] if c.hashtags else [rf"\#\w*{_LETTER}\w*"]
    return kinds


def _numbers(c: Conventions) -> list[str]:
    """Numbers with their inner points, dates, times, telephone numbers, and what is written onto numbers."""
    number = r"\d++(?:[.,:]\d++)*+"
    kinds = [] if c.money else [rf"[$£€¥]{number}%?"]
    kinds += [rf"{number}(?:[-/]{number}){{2,8}}+(?!\w)", r"\d{3,}-\d{4,}(?!\w)", r"\d+/\d+(?!\w)"]
    kinds += [] if c.ranges else [rf"{number}-{number}(?![\w/-])"]
    kinds += [] if c.percent else [rf"{number}%"]
    # A unit is a few letters after a number; an ordinal (4th) or a decade (1990s) has none.
    kinds += [rf"{number}(?=(?!(?:st|nd|rd|th|s)(?!\w)){_LETTER}{{1,4}}(?!\w))"] if c.units else []
    return [*kinds, rf"{number}(?!\w)", r"(?<![\w.])\.\d+(?!\w)"]


def _abbreviations(c: Conventions) -> list[str]:
    """Abbreviations and initials, whose points do not end a sentence, and letters joined by an ampersand."""
    kinds = [rf"(?:{_LETTER}\.){{2,}}(?:{_LETTER}(?!\w))?", r"[A-Z]+(?:&[A-Z]+)+(?!\w)"]
    kinds += [] if c.initials else [r"(?<![\w'’])[A-Z]\.(?!\w)"]
    if not c.abbreviations:
        kinds.append(rf"(?:{'|'.join(map(re.escape, sorted(ABBREVIATIONS)))})\.(?!\w)")
    return kinds


def _words(c: Conventions, run: str) -> list[str]:
    """Runs of letters with what joins them, up to a clitic, and the clitics."""
    clitic = rf"['’]{_CLITIC}(?!\w)"
    inner = [rf"(?!{clitic})['’]" if c.clitics else "['’]", r"(?<=\d)[.,:](?=\d)"]
    inner += [] if c.hyphens else ["[-‐‑]"]
    inner += [] if c.slashes else ["/"]
    inner += [] if c.dots else [r"\."]
    prefix = "" if c.prefixes or not c.hyphens else rf"(?:(?i:{'|'.join(_PREFIXES)})-(?=\w))?"
    word = rf"{prefix}{run}(?:(?:{'|'.join(inner)}){run})*+"
    # No ideographs before n't: each is a token, and from each the search would go to the end of their run.
    kinds = [r"(?i:n['’]t)(?!\w)", clitic, rf"[^\W_{UNSPACED}]+?(?=(?i:n['’]t)(?!\w))"] if c.clitics else []
    kinds += [rf"(?<!\w)(?i:{_CONTRACTIONS})"] if c.contractions else []
    return [*kinds, word]


Chunk = tuple[str, tuple[str, ...]]  # what stands between white space, and its tokens
_MOST_SENTENCES = 20_000  # that are looked at
_MOST_CHUNKS = 20_000  # different ones, the most frequent
_MOST_EXCEPTIONS = 2_000
# Of the tokens with ideographs: a segmented corpus has far more, one of characters has some names at most.
_COMMON = 0.2
_LEAST_COUNT = 2  # of an exception

# What a chunk must contain for a switch to matter to it.
_SIGNS = {
    switch: re.compile(sign)
    for switch, sign in {
        "clitics": "['’]",
        "contractions": "(?i:cannot|gonna|wanna|gotta|gimme|lemme)",
        "hyphens": r"\w[-‐‑]\w",
        "prefixes": r"\w-\w",
        "slashes": r"\w/\w",
        "dots": r"\w\.\w",
        "ranges": r"\d-\d",
        "units": r"\d[^\W\d]",
        "percent": "%",
        "money": "[$£€¥]",
        "handles": "@",
        "hashtags": "#",
        "runs": r"([^\w\s])\1|[!?]{2}",
        "initials": r"\b[A-Z]\.",
        "abbreviations": r"[^\W\d]\.",
        "emoticons": r"[:;=8xX)(\]\[<^_]",
    }.items()
}
_SINGLE = re.compile(f"[{UNSPACED}]")
_OBVIOUS = re.compile(r"[^\W\d_]+")
# What is written together with the token before it, and with the token after it, if only the tokens are known.
_JOINS_LEFT = re.compile(r"n['’]t|['’](?:s|m|re|ve|ll|d)?|%|[.,;:!?)\]}]+|-|/|…", re.IGNORECASE)
_JOINS_RIGHT = re.compile(r"[$£€¥#@(\[{/-]")
_HALVES = {"can": "not", "gon": "na", "wan": "na", "got": "ta", "gim": "me", "lem": "me"}


def learn_conventions(
    sentences: Iterable[Sentence | Sequence[str]],
) -> tuple[Conventions, dict[str, tuple[str, ...]], bool]:
    """Conventions and exceptions that agree best with the tokens, and whether words have several ideographs."""
    counts = Counter(chunk for sentence in islice(sentences, _MOST_SENTENCES) for chunk in _chunks(sentence))
    # One word of letters is split in the same way by all conventions.
    hard = [
        ((chunk, tokens), count)
        for (chunk, tokens), count in counts.items()
        if len(tokens) > 1 or not _OBVIOUS.fullmatch(chunk) or _SIGNS["contractions"].search(chunk)
    ]
    sample = sorted(hard, key=lambda item: -item[1])[:_MOST_CHUNKS]
    # Each switch in turn at the value that leaves fewer tokens wrong, or at its default if both are equally good.
    best = Conventions()
    for switch, sign in _SIGNS.items():
        concerned = [item for item in sample if sign.search(item[0][0])]
        other = dataclasses.replace(best, **{switch: not getattr(best, switch)})
        if concerned and _wrong(other, concerned) < _wrong(best, concerned):
            best = other
    several = single = 0
    for (_, tokens), count in counts.items():
        several += count * sum(COMPOUND.search(token) is not None for token in tokens)
        single += count * sum(_SINGLE.fullmatch(token) is not None for token in tokens)
    return best, _exceptions(best, sample, counts), several > _COMMON * (several + single)


def _chunks(sentence: Sentence | Sequence[str]) -> Iterator[Chunk]:
    """The parts of a sentence between white space, each with its tokens."""
    tokens = sentence.tokens if isinstance(sentence, Sentence) else sentence
    if isinstance(sentence, Sentence) and sentence.offsets:
        touching = [left[1] == right[0] for left, right in pairwise(sentence.offsets)]
    else:
        touching = [_touch(str(left), str(right)) for left, right in pairwise(tokens)]
    begin = 0
    for i, joined in enumerate([*touching, False], 1):
        if not joined:
            part = tuple(tokens[begin:i])
            chunk = "".join(map(str, part))
            if part and not any(character.isspace() for character in chunk):
                yield chunk, part
            begin = i


def _touch(left: str, right: str) -> bool:
    """Whether two tokens whose text is lost are written together, as far as their looks tell."""
    if _JOINS_LEFT.fullmatch(right):
        return left[-1:].isalnum() or (left[-1:] == right[:1] and not right.isalnum())
    if _JOINS_RIGHT.fullmatch(left):
        return right[:1].isalnum()
    return _HALVES.get(left.lower()) == right.lower()


def _wrong(conventions: Conventions, sample: list[tuple[Chunk, int]]) -> int:
    wrong = 0
    for (chunk, tokens), count in sample:
        split = tuple(pattern(conventions, chunk.isascii()).findall(chunk))
        if split != tokens:
            wrong += count * len(_edges(split) ^ _edges(tokens))
    return wrong


def _edges(tokens: Sequence[str]) -> set[tuple[int, int]]:
    """Where each token of a chunk begins and ends."""
    return set(pairwise(accumulate(map(len, tokens), initial=0)))


def _exceptions(
    conventions: Conventions, sample: list[tuple[Chunk, int]], counts: Counter[Chunk]
) -> dict[str, tuple[str, ...]]:
    """Strings that the rules split wrongly more often than rightly, and at least twice."""
    right, wrong = Counter[str](), Counter[Chunk]()
    for (chunk, tokens), count in sample:
        split = pattern(conventions, chunk.isascii()).findall(chunk)
        for one, other in _segments(split, tokens):
            if one == other:
                right["".join(one)] += count
            else:
                wrong["".join(other), other] += count
    chosen: dict[str, tuple[str, ...]] = {}
    for (text, tokens), count in wrong.most_common(_MOST_EXCEPTIONS):
        if count >= _LEAST_COUNT and count > right[text] + counts[text, (text,)] * (len(tokens) > 1):
            chosen.setdefault(text, tokens)
    return chosen


def _segments(split: Sequence[str], tokens: Sequence[str]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Two ways of splitting one text, cut at the boundaries that both have."""
    i = j = 0
    while i < len(split) and j < len(tokens):
        first, second = i + 1, j + 1
        left, right = len(split[i]), len(tokens[j])
        while left != right:
            if left < right:
                left, first = left + len(split[first]), first + 1
            else:
                right, second = right + len(tokens[second]), second + 1
        yield tuple(split[i:first]), tuple(tokens[j:second])
        i, j = first, second

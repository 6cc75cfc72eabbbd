"""Words of raw text as annotated corpora split them: clitics, abbreviations, numbers, addresses, emoticons.

Corpora differ: is ``don't`` two tokens, is ``well-known`` three, is ``#tag`` one? `Conventions` has one switch for each
such question, and `pattern` makes one regular expression of them. `trellis.text.learning` finds the conventions of a
corpus from its tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from trellis.text.patterns import UNSPACED, patterns

_LETTER = rf"[^\W\d_{UNSPACED}]"

_CLITIC = "(?i:s|m|re|ve|ll|d)"
_DOMAINS = "com|org|net|edu|gov|mil|info|biz|io|co|uk|us|de|fr|ca|au|cn|jp|in|eu|tv|me|ly"
_FILES = "docx?|xlsx?|pptx?|pdf|txt|csv|rtf|html?|xml|json|jpe?g|png|gif|mp3|mp4|avi|zip|gz|exe|py"


def word_list(words: str) -> list[str]:
    """The words of a string."""
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
    kinds = _alternatives(conventions, run, visible)
    return re.compile("|".join(kinds), re.ASCII if ascii_only else re.NOFLAG)


def _alternatives(c: Conventions, run: str, visible: str) -> list[str]:
    """The kinds of tokens, the most specific first."""
    kinds = [*_addresses(c), *_numbers(c), *_abbreviations(c), *_words(c, run), r"\.\.+", "…+", "''|``|’’|‘‘"]
    if not c.runs:
        kinds.append(r"!!+|\?\?+|\*\*+|==+|~~+|--+|__+|\+\++|\#\#+|<<+|>>+|\^\^+|[!?]{2,}|,,+|;;+|::+|//+|\\\\+|\|\|+")
    return [*kinds, visible]


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
    kinds += [] if c.emoticons else [_emoticon()]
    kinds += [] if c.handles else [r"@(?!\d)\w+"]
    kinds += [] if c.hashtags else [rf"\#\w*{_LETTER}\w*"]
    return kinds


def _emoticon() -> str:
    """Eyes, perhaps a nose, and a mouth; hearts; and the same turned round. None of it next to a letter or digit."""
    western = r"[:;=8xX]['’]?[-o^]?[)(\]\[DPpOoSs|\\/}{@*3]+(?!\w)"
    other = r"[(][-^;:oO._]{1,3}[)]|<3+(?!\w)|[)(\]\[][-o]?[:;=](?!\w)|\^[_.-]*\^|[oO]_[oO](?!\w)|[-=]_[-=]"
    return rf"(?<![\w:;=/])(?:{western}|{other})"


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
    """What ends with a point that does not end a sentence, and letters joined by an ampersand."""
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

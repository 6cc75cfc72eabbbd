"""The built-in template sets, one per task: ordinary ``Templates`` texts, to use or to start from."""

from __future__ import annotations

from pathlib import Path

from trellis.errors import TemplateError, did_you_mean
from trellis.features.templates import Templates

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

_CLUSTERS = """\
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
_FORMER_NAMES = {"segment": "seg"}


_LEXICON = """\
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
    features = _FORMER_NAMES.get(str(features), features)
    if isinstance(features, str) and features in TEMPLATE_SETS:
        text = TEMPLATE_SETS[features] + (_CLUSTERS if clusters else "")
        text += "".join(_LEXICON.format(n=n) for n in range(1, lexicon + 1))
        return Templates.parse(text, name=f"features {features!r}")
    if Path(features).is_file():
        return Templates.read(features)
    raise TemplateError(
        f"features {str(features)!r} is neither a ready-made set ({', '.join(TEMPLATE_SETS)}) "
        f"nor an existing template file{did_you_mean(features, TEMPLATE_SETS)}"
    )

"""Lexicons: what a person knows about words and names, as part of a tagger's distribution.

    lexicon = Lexicon.read("words.txt")                  words, jieba's user dictionaries, TSV or JSON Lines
    tagger.tag(sentences, lexicon=lexicon)               see `trellis.models.tagger`

A lexicon restricts a distribution (must), re-weights it (prefer), or was learned from (feature); it never changes
answers afterwards. So tags stay legal, probabilities exact, and a word that is added cuts no other word to pieces.

    lexicon        the entries, read from files and written to them
    match          where entries occur in sentences
    chains         `apply_lexicons`: a chain with what lexicons say, made of bonuses (`bonus`) and of spans that must be
    features       occurrences as columns of sentences, which models learn from
    report         what came of each entry
"""

from __future__ import annotations

from trellis.lexicon.lexicon import FORMATS, PREFER, Entry, Lexicon, Reading, Strength, parse_strength, read_entries
from trellis.lexicon.match import Matches

__all__ = ["FORMATS", "PREFER", "Entry", "Lexicon", "Matches", "Reading", "Strength", "parse_strength", "read_entries"]

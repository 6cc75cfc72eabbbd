"""Lexicons: what a person knows about words and names, as part of a tagger's distribution.

    lexicon = Lexicon.read("words.txt")                  words, jieba's user dictionaries, TSV or JSON Lines
    tagger.tag(sentences, lexicon=lexicon)               see `trellis.models.tagger`

A lexicon restricts a distribution (must), re-weights it (prefer), or was learned from (feature); it never changes
answers afterwards. So tags stay legal, probabilities exact, and a word that is added cuts no other word to pieces.
"""

from __future__ import annotations

from trellis.lexicon.entries import PREFER, Entry, Lexicon, Strength, parse_strength
from trellis.lexicon.matching import Matches
from trellis.lexicon.reading import FORMATS, Reading, read_entries

__all__ = ["FORMATS", "PREFER", "Entry", "Lexicon", "Matches", "Reading", "Strength", "parse_strength", "read_entries"]

"""Sentences and the tokenizers that make them from raw text.

A tokenizer is a function from a text to the ``(start, end)`` offsets of its tokens, in order and without
overlap, so that ``text[start:end]`` is always the token. Four are built in:

    whitespace   "It's 3.5 km."  ->  It's | 3.5 | km.
    words        "It's 3.5 km."  ->  It's | 3.5 | km | .          (ideographs and hiragana one by one)
    english      "It's 3.5 km."  ->  It | 's | 3.5 | km | .       (as in most annotated English)
    characters   "café 👍🏽"       ->  c | a | f | é | 👍🏽           (what a reader sees as one character)

A `Splitter` is a tokenizer that can be stored with a model. `learned_words` finds the one that splits text like the
tokens of a corpus; `splitter` makes one of a name, a regular expression, a function or a tokenizers file.
"""

from trellis.text.conventions import Conventions
from trellis.text.sentence import FOLDED_POINTS, Offsets, Sentence, fold_tokens, fold_width, hue
from trellis.text.tokenizers import (
    TOKENIZERS,
    OwnTokenizer,
    Splitter,
    Tokenizer,
    WordSplitter,
    characters,
    english,
    graphemes,
    learned_words,
    located,
    sentence_in,
    split_sentences,
    splitter,
    splitter_from_dict,
    tokenize,
    tokenizer,
    whitespace,
    words,
)

__all__ = [
    "FOLDED_POINTS",
    "TOKENIZERS",
    "Conventions",
    "Offsets",
    "OwnTokenizer",
    "Sentence",
    "Splitter",
    "Tokenizer",
    "WordSplitter",
    "characters",
    "english",
    "fold_tokens",
    "fold_width",
    "graphemes",
    "hue",
    "learned_words",
    "located",
    "sentence_in",
    "split_sentences",
    "splitter",
    "splitter_from_dict",
    "tokenize",
    "tokenizer",
    "whitespace",
    "words",
]

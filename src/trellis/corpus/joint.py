"""Words with tags as characters with tags, and back: word segmentation and tagging as one labelling.

    我们/PRON 爱/VERB 北京/PROPN    <->    我/B-PRON 们/E-PRON 爱/S-VERB 北/B-PROPN 京/E-PROPN

One model over such labels decides where words end and what they are at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trellis.corpus._errors import refuse, refuse_illegal
from trellis.corpus.segmented import sentence_from_words
from trellis.tags import Scheme, Span, Style, spans_from_tags
from trellis.text import Sentence


def to_characters(sentence: Sentence, *, scheme: Scheme = Scheme.BMES) -> Sentence:
    """The characters of a sentence of tagged words, each with its place in its word and the tag of the word."""
    if sentence.tags is None:
        refuse(sentence, "its words have no tags, which joint segmentation and tagging learns")
    return sentence_from_words(
        sentence.tokens, sentence.tags, scheme=scheme, path=sentence.path, line=sentence.line_of(0)
    )


def to_words(sentence: Sentence, *, scheme: Scheme = Scheme.BMES, style: Style = Style.PREFIX) -> Sentence:
    """The words that tagged characters spell: with their tags if the characters have types, and with their offsets.

    A character outside all words is a word by itself, tagged O if the others have tags.
    """
    if sentence.tags is None:
        refuse(sentence, "a sentence without tags has no words")
    refuse_illegal(sentence, scheme, style)
    return words_of_spans(sentence, spans_from_tags(sentence.tags, scheme, style=style))


def words_of_spans(sentence: Sentence, found: Sequence[Span]) -> Sentence:
    """The words that spans of characters are; see `to_words`."""
    spans = _covering(found, len(sentence))
    tags = [span.label for span in spans] if any(span.label for span in spans) else None
    if sentence.text is None or sentence.offsets is None:
        words = ["".join(sentence.tokens[span.start : span.end]) for span in spans]
        return Sentence(words, tags, path=sentence.path, lines=tuple(sentence.lines)[:1])
    text, places = sentence.text, sentence.offsets
    offsets = [(places[span.start][0], places[span.end - 1][1]) for span in spans]
    words = [text[start:end] for start, end in offsets]
    return Sentence(words, tags, text, offsets, path=sentence.path, lines=tuple(sentence.lines)[:1])


def _covering(spans: Sequence[Span], length: int) -> list[Span]:
    """The spans, and one of one token for each that lies outside of them, O if the spans have types."""
    outside = "O" if any(span.label for span in spans) else ""
    edges = [0, *(place for span in spans for place in span[:2]), length]
    gaps = [Span(i, i + 1, outside) for a, b in [*pairwise(edges)][::2] for i in range(a, b)]
    return sorted([*spans, *gaps])

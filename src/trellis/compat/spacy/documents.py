"""spaCy's documents as inputs of taggers, and where their probabilities are found again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trellis.corpus.spacy import sentence_of, sentences_of
from trellis.extras import needed
from trellis.models import Tagged

PARTS_OF_SPEECH = frozenset(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()  # noqa: SIM905
)
_EXTENSION = "probability"


def pieces(doc: Any, *, characters: bool) -> Iterator[tuple[int, Sequence[int], Any]]:
    """The sentences of a document: where each begins, the places of its tokens, and what a tagger gets.

    That is the tokens but those of white space, with what spaCy knows of them; or, for taggers of characters, the text.
    """
    annotated = any(map(doc.has_annotation, ("TAG", "POS", "LEMMA")))
    for span in sentences_of(doc):
        # Places rather than tokens are kept: so many objects of a batch would keep the garbage collector busy.
        words = [token.text for token in span]
        places = [place for place, word in enumerate(words, span[0].i) if not word.isspace()] if words else []
        if not places:
            continue
        begin, last = doc[places[0]].idx, doc[places[-1]]
        if characters:
            yield begin, (), doc.text[begin : last.idx + len(last)]
        elif annotated:
            yield begin, places, sentence_of([doc[place] for place in places], doc.text)
        else:
            yield begin, places, words if len(words) == len(places) else [w for w in words if not w.isspace()]


def span_places(doc: Any, begin: int, places: Sequence[int], tagged: Tagged) -> Iterator[tuple[int, int, str, float]]:
    """The spans of a sentence by the tokens of its document: first, one after the last, label and probability."""
    if places:
        for (first, end, label), probability in tagged.token_spans:
            yield places[first], places[end - 1] + 1, label, probability
        return
    for one in tagged.spans:
        span = doc.char_span(begin + one.start, begin + one.end, alignment_mode="expand")
        yield span.start, span.end, one.label, one.probability


def words_and_spaces(text: str, words: Sequence[str]) -> tuple[list[str], list[bool]]:
    """The words of a document that has this text, white space included."""
    words, spaces = needed("spacy", "spacy", "trellis_segmenter").util.get_words_and_spaces(words, text)
    return list(words), list(spaces)


def add_extensions() -> None:
    """``span._.probability`` and ``token._.probability``, unless somebody else has such names."""
    tokens = needed("spacy", "spacy", "trellis.compat.spacy").tokens
    for kind, getter in ((tokens.Span, _of_span), (tokens.Token, _of_token)):
        if not kind.has_extension(_EXTENSION):
            kind.set_extension(_EXTENSION, getter=getter)


def span_name(start: int, end: int, label: str) -> str:
    """Under which the probability of a span is kept with its document."""
    return f"{start} {end} {label}"


def _of_span(span: Any) -> float | None:
    known: dict[str, float] = span.doc.user_data.get("trellis_spans", {})
    return known.get(span_name(span.start, span.end, span.label_))


def _of_token(token: Any) -> float | None:
    known: Sequence[float | None] = token.doc.user_data.get("trellis_tags", ())
    return known[token.i] if token.i < len(known) else None

"""What spaCy calls to make a component. It reads the types of arguments, so they are not strings here."""

from collections.abc import Callable
from functools import cache
from typing import Any

from trellis.extras import needed


@cache
def registered() -> dict[str, Callable[..., Any]]:
    """The functions behind the entry points; factories are made known to spaCy."""
    language = needed("spacy", "spacy", "trellis.compat.spacy").Language
    factories: dict[str, tuple[Callable[..., Any], dict[str, Any], list[str]]] = {
        "trellis_ner": (make_ner, {"model": None, "spans_key": "trellis"}, ["doc.ents", "doc.spans"]),
        "trellis_tagger": (make_tagger, {"model": None, "attribute": None}, ["token.tag", "token.pos"]),
        "trellis_segmenter": (make_segmenter, {"model": None}, []),
    }
    for name, (make, settings, assigns) in factories.items():
        language.factory(name, default_config=settings, assigns=assigns, func=make)
    return {name: make for name, (make, _, _) in factories.items()} | {"segmenting_tokenizer": segmenting_tokenizer}


def make_ner(nlp: Any, name: str, model: str | None, spans_key: str) -> Any:
    """Entities; with their probabilities also the group `spans_key` of ``doc.spans``."""
    from trellis.compat.spacy.components import EntityComponent

    return EntityComponent(nlp, name, model, spans_key)


def make_tagger(nlp: Any, name: str, model: str | None, attribute: str | None) -> Any:
    """Tags as "tag" or "pos"; by default "pos" if all labels are parts of speech of Universal Dependencies."""
    from trellis.compat.spacy.components import TagComponent

    return TagComponent(nlp, name, model, attribute)


def make_segmenter(nlp: Any, name: str, model: str | None) -> Any:
    """Words from tokens that are smaller, such as the characters of spaCy's Chinese."""
    from trellis.compat.spacy.components import WordComponent

    return WordComponent(nlp, name, model)


def segmenting_tokenizer(model: str | None = None) -> Callable[[Any], Any]:
    """A tokenizer that makes the words a segmenter finds."""
    from trellis.compat.spacy.components import SegmentingTokenizer

    def make(nlp: Any) -> Any:
        return SegmentingTokenizer(nlp, model)

    return make

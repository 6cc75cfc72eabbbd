"""How components learn from spaCy's examples. spaCy reads the types of `initialize`, so they are not strings here."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional

from trellis import config
from trellis.compat.spacy.opened import Opened
from trellis.corpus.spacy import sentences_of, tagged_sentence
from trellis.errors import ConfigError, DataError, number_of, warn
from trellis.models.registry import get_family, make_tagger
from trellis.text import Sentence


class Learning(Opened):
    """A component that ``spacy train`` trains: all of it in `initialize`, by the trainer of the family.

    spaCy's loop over batches has nothing left to do: there is no `update`, so that it passes the component over.
    """

    def __init__(self, name: str, model: str | None, train: dict[str, Any]) -> None:
        super().__init__(name, model)
        self.train = train
        untrained(name, train)

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Any]],
        *,
        nlp: Any = None,
        dev: Optional[str] = None,  # noqa: UP045
    ) -> None:
        """Learn from the examples' references, unless the setting `model` names a model; `dev` is held-out data."""
        if self.model is not None:
            return
        sentences = list(self._labelled(example.reference for example in get_examples()))
        held_out = None if dev is None else list(self._labelled(_documents(nlp, dev)))
        self.tagger = untrained(self.name, self.train).fit(sentences, dev=held_out)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the model; none if there is no model yet."""
        return () if self._tagger is None else tuple(self._tagger.labels_)

    def _labelled(self, docs: Iterable[Any]) -> Iterator[Sentence]:
        """The sentences of documents that have what is to be learned; those that lack it are counted."""
        found, missing = 0, 0
        for span in (span for doc in docs for span in sentences_of(doc) if span.text.strip()):
            sentence = self._taught(span)
            if sentence is None or sentence.tags is None:
                missing += 1
            else:
                found += 1
                yield sentence
        if not found:
            raise DataError(
                f"{self.name}: there is nothing to learn from: {number_of(missing, 'sentence')}, none annotated"
            )
        if missing:
            warn(f"{self.name}: left out since they are not annotated: {number_of(missing, 'sentence')}", UserWarning)

    def _taught(self, span: Any) -> Sentence | None:
        """A sentence with what is to be learned as its tags; without tags if it is not annotated."""
        return tagged_sentence(span, "ent")


def untrained(name: str, train: dict[str, Any]) -> Any:
    """A tagger with these settings, of which `family` names the kind."""
    settings = dict(train)
    try:
        family = get_family(str(settings.pop("family", "crf")))
        return make_tagger(family, config.changed(family.defaults(), settings))
    except ConfigError as error:
        raise ConfigError(f"{name}: train: {error}") from None


def _documents(nlp: Any, path: str) -> Iterable[Any]:
    """The documents of a file that spaCy stored."""
    from spacy.tokens import DocBin  # type: ignore[import-not-found, unused-ignore]

    found: Iterable[Any] = DocBin().from_disk(path).get_docs(nlp.vocab)
    return found

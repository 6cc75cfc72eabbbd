"""The pipeline for token classification of transformers, with any tagger in it.

A tagger labels words, so there are no subwords to bring together: the strategies ``simple``, ``first``, ``average`` and
``max`` give the same spans. The score of a span is its exact probability, that of a token the probability of its tag.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, overload

from trellis.compat.transformers.hub import from_pretrained
from trellis.errors import ConfigError, DataError, did_you_mean, shown
from trellis.models import Tagged, Tagger
from trellis.text import Sentence

Entity = dict[str, Any]

STRATEGIES = ("none", "simple", "first", "average", "max")
_TASKS = ("token-classification", "ner")


class TokenClassificationPipeline:
    """Texts in, dicts out.

    Args:
        model: the tagger.
        aggregation_strategy: "none" for one dict per token, all others for one per span.
        ignore_labels: tags, or with spans their labels, that are left out.
        batch_size: texts that are tagged at a time where they come from an iterator.

    """

    def __init__(
        self,
        model: Tagger[Any],
        *,
        aggregation_strategy: str = "none",
        ignore_labels: Collection[str] = ("O",),
        batch_size: int = 256,
    ) -> None:
        if isinstance(ignore_labels, str):
            raise ConfigError(f"ignore_labels must be a list of labels, got the text {ignore_labels!r}")
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, got {batch_size}")
        self.model = model
        self.aggregation_strategy = _checked(aggregation_strategy, STRATEGIES, "aggregation_strategy")
        self.ignore_labels = frozenset(ignore_labels)
        self.batch_size = batch_size

    @overload
    def __call__(self, inputs: str | Sentence, *, aggregation_strategy: str | None = None) -> list[Entity]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, inputs: list[Any] | tuple[Any, ...], *, aggregation_strategy: str | None = None
    ) -> list[list[Entity]]: ...
    @overload
    def __call__(self, inputs: Iterable[Any], *, aggregation_strategy: str | None = None) -> Iterator[list[Entity]]: ...
    def __call__(
        self, inputs: Any, *, aggregation_strategy: str | None = None
    ) -> list[Entity] | list[list[Entity]] | Iterator[list[Entity]]:
        """A list of dicts for a text or a `Sentence`; a list of those for a list; an iterator for an iterable."""
        how = self.aggregation_strategy
        if aggregation_strategy is not None:
            how = _checked(aggregation_strategy, STRATEGIES, "aggregation_strategy")
        if isinstance(inputs, str | Sentence):
            return self._entities(self.model(inputs), how)
        if isinstance(inputs, list | tuple):
            return [self._entities(one, how) for one in self.model.annotate(inputs)]
        if not isinstance(inputs, Iterable) or isinstance(inputs, bytes | Mapping):
            raise DataError(f"expected a text, or texts in a list or another iterable, got {shown(inputs)}")
        return self._stream(iter(inputs), how)

    def _stream(self, inputs: Iterator[Any], how: str) -> Iterator[list[Entity]]:
        while batch := list(islice(inputs, self.batch_size)):
            for one in self.model.annotate(batch):
                yield self._entities(one, how)

    def _entities(self, tagged: Tagged, how: str) -> list[Entity]:
        found = _tokens(tagged) if how == "none" else _spans(tagged)
        label = "entity" if how == "none" else "entity_group"
        return [entity for entity in found if entity[label] not in self.ignore_labels]


def pipeline(
    task: str,
    model: str | Path | Tagger[Any],
    *,
    aggregation_strategy: str = "none",
    ignore_labels: Collection[str] = ("O",),
    batch_size: int = 256,
) -> TokenClassificationPipeline:
    """The pipeline of a tagger, of a model file or folder, or of a model of the Hub by its name."""
    _checked(task, _TASKS, "task")
    tagger = model if isinstance(model, Tagger) else from_pretrained(model)
    return TokenClassificationPipeline(
        tagger, aggregation_strategy=aggregation_strategy, ignore_labels=ignore_labels, batch_size=batch_size
    )


def _tokens(tagged: Tagged) -> Iterator[Entity]:
    """One dict per token; they are counted from 1, since transformers counts a special token before them."""
    rows = zip(tagged.tags, tagged.probabilities, tagged.tokens, tagged.sentence.offsets or (), strict=True)
    for index, (tag, probability, word, (start, end)) in enumerate(rows, 1):
        yield {"entity": tag, "score": probability, "index": index, "word": word, "start": start, "end": end}


def _spans(tagged: Tagged) -> Iterator[Entity]:
    for start, end, label, text, probability in tagged.spans:
        yield {"entity_group": label, "score": probability, "word": text, "start": start, "end": end}


def _checked(value: str, known: tuple[str, ...], name: str) -> str:
    if value not in known:
        raise ConfigError(f"{name} must be one of {', '.join(known)}, got {value!r}{did_you_mean(value, known)}")
    return value

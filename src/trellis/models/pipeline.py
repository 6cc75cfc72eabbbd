"""Taggers one after another: the words of a segmenter are the tokens of the next, and offsets stay those of the text.

    pipeline = Pipeline([load("seg"), load("pos"), load("ner")])     or Pipeline({"seg": ..., "pos": ..., "ner": ...})
    tagged = pipeline("我们爱北京")                                    what the last one says, in the raw text
    tagged.sentence.columns["pos"]                                   the tags of those before it

A tagger that makes no words leaves the tokens as they are. Its tags, like those of a joint segmenter and tagger, become
a column of the sentence, which the taggers after it may use and every output keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

from trellis.corpus import to_words
from trellis.errors import ModelError
from trellis.models.answers import Tagged, documents
from trellis.models.data import listed, segments
from trellis.models.folder import MODEL, load
from trellis.models.tagger import Tagger
from trellis.text import Sentence, splitter

_RESERVED = ("text", "tokens", "offsets", "tags", "probabilities", "spans")


@dataclass(frozen=True)
class _Stage:
    name: str
    tagger: Tagger[Any]

    def hand_on(self, sentences: Sequence[Sentence], raw: Sequence[bool] | None) -> list[Sentence]:
        """The sentences as the next tagger gets them: in words, with these tags as a column."""
        best = (tags for block in self.tagger._posteriors(sentences, None, raw) for tags in block.best())
        tagged = (sentence.with_tags(tags) for sentence, tags in zip(sentences, best, strict=True))
        return [self._untagged(sentence) for sentence in tagged]

    def _untagged(self, sentence: Sentence) -> Sentence:
        own = self.tagger.tagset_
        if self.tagger.makes_words:
            sentence = to_words(sentence, scheme=own.scheme, style=own.style)
        columns = sentence.columns if segments(own) else {**sentence.columns, self.name: sentence.tags or ()}
        return replace(sentence, tags=None, columns=columns)


class Pipeline:
    """Taggers that answer one after another; see the module for how to use it.

    Args:
        taggers: at least two fitted taggers or paths of saved ones. Those of a mapping have names; otherwise they are
            called like the folder they come from, or ``tagger 1``, ``tagger 2`` and so on.

    """

    def __init__(self, taggers: Sequence[Tagger[Any] | str | Path] | Mapping[str, Tagger[Any] | str | Path]) -> None:
        self._stages = [_Stage(name, _opened(item)) for name, item in _named(taggers)]
        if len(self._stages) < 2:
            raise ModelError(f"a pipeline needs at least two taggers, got {len(self._stages)}")
        for number, stage in enumerate(self._stages):
            _check(number, stage)

    @property
    def names(self) -> tuple[str, ...]:
        """What the taggers are called: the names of their columns."""
        return tuple(stage.name for stage in self._stages)

    @property
    def taggers(self) -> tuple[Tagger[Any], ...]:
        """The taggers in their order."""
        return tuple(stage.tagger for stage in self._stages)

    def words(self, sentences: Iterable[str | Sentence | Sequence[str]], *, raw: bool = False) -> list[Sentence]:
        """The tokens that the last tagger sees, with offsets, and the tags of the other ones as columns.

        With `raw`, sentences were split from raw text: words of a segmenter then end at white space.
        """
        given, first = listed(sentences), self._stages[0].tagger
        items = [first._sentence(item) for item in given]
        if first.makes_words:
            items = [item.with_text(splitter(first.tokenizer_).separator) for item in items]
        from_text: list[bool] | None = [raw or isinstance(item, str) for item in given]
        for stage in self._stages[:-1]:
            items, from_text = stage.hand_on(items, from_text), None
        return items

    def tag(self, sentences: Iterable[Sentence | Sequence[str]]) -> list[Sentence]:
        """The sentences in words, with the tags of the last tagger; those of the others are columns."""
        return self._stages[-1].tagger.tag(self.words(sentences))

    def annotate(self, texts: Iterable[str | Sentence | Sequence[str]], *, sentences: bool = False) -> list[Tagged]:
        """What the last tagger says about raw texts, sentences or token lists, with offsets in the raw text.

        With `sentences`, each raw text is split into sentences, and the answer is about the whole text. A text as a
        whole has no columns.
        """
        given = listed(texts)
        if sentences:
            return documents(given, self.annotate)
        words = self.words(given)
        return self._stages[-1].tagger.annotate(words)

    @overload
    def __call__(self, texts: str | Sentence, *, sentences: bool = False) -> Tagged: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, texts: Iterable[str | Sentence | Sequence[str]], *, sentences: bool = False) -> list[Tagged]: ...
    def __call__(
        self, texts: str | Sentence | Iterable[str | Sentence | Sequence[str]], *, sentences: bool = False
    ) -> Tagged | list[Tagged]:
        """Tag a raw text, or each of a list of raw texts; see `annotate`."""
        if isinstance(texts, str | Sentence):
            return self.annotate([texts], sentences=sentences)[0]
        return self.annotate(texts, sentences=sentences)

    def __repr__(self) -> str:
        """The taggers by name."""
        return f"Pipeline({', '.join(f'{stage.name}: {type(stage.tagger).__name__}' for stage in self._stages)})"


def _opened(item: Tagger[Any] | str | Path) -> Tagger[Any]:
    if isinstance(item, str | Path):
        return load(item)
    if not isinstance(item, Tagger):
        raise ModelError(f"a pipeline is made of taggers or their paths, got a {type(item).__name__}")
    return item


def _named(
    taggers: Sequence[Tagger[Any] | str | Path] | Mapping[str, Tagger[Any] | str | Path],
) -> list[tuple[str, Tagger[Any] | str | Path]]:
    if isinstance(taggers, Mapping):
        return list(taggers.items())
    if isinstance(taggers, str | Path | Tagger):
        raise ModelError("a pipeline needs a list of taggers, got one")
    names: list[str] = []
    for number, item in enumerate(taggers, 1):
        name = _folder(Path(item)) if isinstance(item, str | Path) else f"tagger {number}"
        names.append(f"{name} {number}" if name in names else name)
    return list(zip(names, taggers, strict=True))


def _folder(path: Path) -> str:
    """The name of a model's folder, or that of its file without the ending."""
    place = path.resolve()
    return place.parent.name if place.name == MODEL else place.name.removesuffix(".safetensors")


def _check(number: int, stage: _Stage) -> None:
    """Refuse a tagger that cannot read what those before it give."""
    stage.tagger._fitted_tags()
    if stage.name in _RESERVED:
        raise ModelError(
            f"a tagger of a pipeline cannot be called {stage.name!r}: its answers have a field of that name"
        )
    how = splitter(stage.tagger.tokenizer_)
    if number and how.name == "characters":
        kind = "makes words of characters" if stage.tagger.makes_words else "reads characters"
        raise ModelError(
            f"tagger {number + 1} of the pipeline, {stage.name}, {kind}, and those before it give it words: "
            "such a tagger can only be the first"
        )

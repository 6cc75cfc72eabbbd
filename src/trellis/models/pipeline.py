"""Taggers one after another: the words of a segmenter are the tokens of the next, and offsets stay those of the text.

    pipeline = Pipeline([load("seg"), load("pos"), load("ner")])     or Pipeline({"seg": ..., "pos": ..., "ner": ...})
    tagged = pipeline("我们爱北京")                                    what the last one says, in the raw text
    tagged.sentence.columns["pos"]                                   the tags of those before it

A tagger that makes no words leaves the tokens as they are. Its tags, like those of a joint segmenter and tagger, become
a column of the sentence, which the taggers after it may use and every output keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
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


class _Stage:
    """A tagger and its name."""

    def __init__(self, name: str, tagger: Tagger[Any] | str | Path) -> None:
        self.name, self.tagger = name, load(tagger) if isinstance(tagger, str | Path) else tagger
        if not isinstance(self.tagger, Tagger):
            raise ModelError(f"a pipeline is made of taggers or their paths, got a {type(tagger).__name__}")
        self.tagger._fitted_tags()
        if name in _RESERVED:
            raise ModelError(f"a tagger of a pipeline cannot be called {name!r}: its answers have a field of that name")

    def hand_on(self, sentences: Sequence[Sentence], raw: Sequence[bool] | None) -> list[Sentence]:
        """The sentences as the next tagger gets them: in words, with these tags as a column."""
        tags, result = self.tagger.tagset_, []
        best = (labels for block in self.tagger._posteriors(sentences, None, raw) for labels in block.best())
        for sentence, labels in zip(sentences, best, strict=True):
            tagged = sentence.with_tags(labels)
            if self.tagger.makes_words:
                tagged = to_words(tagged, scheme=tags.scheme, style=tags.style)
            columns = tagged.columns if segments(tags) else {**tagged.columns, self.name: tagged.tags or ()}
            result.append(replace(tagged, tags=None, columns=columns))
        return result


class Pipeline:
    """Taggers that answer one after another; see the module for how to use it.

    Args:
        taggers: at least two fitted taggers or paths of saved ones. Those of a mapping have names; otherwise they are
            called like the folder they come from, or ``tagger 1``, ``tagger 2`` and so on.

    """

    def __init__(self, taggers: Sequence[Tagger[Any] | str | Path] | Mapping[str, Tagger[Any] | str | Path]) -> None:
        if isinstance(taggers, str | Path | Tagger):
            raise ModelError("a pipeline needs a list of taggers, got one")
        if not isinstance(taggers, Mapping):
            named: dict[str, Tagger[Any] | str | Path] = {}
            for number, item in enumerate(taggers, 1):
                name = _name_of_folder(Path(item)) if isinstance(item, str | Path) else f"tagger {number}"
                named[f"{name} {number}" if name in named else name] = item
            taggers = named
        self._stages = [_Stage(name, item) for name, item in taggers.items()]
        if len(self._stages) < 2:
            raise ModelError(f"a pipeline needs at least two taggers, got {len(self._stages)}")
        for stage in self._stages[1:]:
            if splitter(stage.tagger.tokenizer_).name == "characters":
                kind = "makes words of characters" if stage.tagger.makes_words else "reads characters"
                raise ModelError(
                    f"tagger {self._stages.index(stage) + 1} of the pipeline, {stage.name}, {kind}, and those before "
                    "it give it words: such a tagger can only be the first"
                )

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


def _name_of_folder(path: Path) -> str:
    """The name of a model's folder, or that of its file without the ending."""
    full = path.resolve()
    return full.parent.name if full.name == MODEL else full.name.removesuffix(".safetensors")

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
from trellis.models.tagger import Tagger, Text
from trellis.text import Sentence, splitter

_RESERVED = ("text", "tokens", "offsets", "tags", "probabilities", "spans")


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
                name = f"tagger {number}"
                if isinstance(item, str | Path):  # of a model's folder, or of its file without the ending
                    path = Path(item).resolve()
                    name = path.parent.name if path.name == MODEL else path.name.removesuffix(".safetensors")
                named[f"{name} {number}" if name in named else name] = item
            taggers = named
        self._taggers: dict[str, Tagger[Any]] = {}
        for name, item in taggers.items():
            tagger = load(item) if isinstance(item, str | Path) else item
            if not isinstance(tagger, Tagger):
                raise ModelError(f"a pipeline is made of taggers or their paths, got a {type(item).__name__}")
            if name in _RESERVED:
                raise ModelError(
                    f"a tagger of a pipeline cannot be called {name!r}: its answers have a field of that name"
                )
            tagger._fitted_tags()
            self._taggers[name] = tagger
        if len(self._taggers) < 2:
            raise ModelError(f"a pipeline needs at least two taggers, got {len(self._taggers)}")
        for number, (name, tagger) in enumerate(list(self._taggers.items())[1:], 2):
            if splitter(tagger.tokenizer_).name == "characters":
                kind = "makes words of characters" if tagger.makes_words else "reads characters"
                raise ModelError(
                    f"tagger {number} of the pipeline, {name}, {kind}, and those before it give it words: such a "
                    "tagger can only be the first"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the taggers, which are those of their columns."""
        return tuple(self._taggers)

    @property
    def taggers(self) -> tuple[Tagger[Any], ...]:
        """The taggers in their order."""
        return tuple(self._taggers.values())

    def words(self, sentences: Iterable[Text], *, raw: bool = False) -> list[Sentence]:
        """The tokens that the last tagger sees, with offsets, and the tags of the other ones as columns.

        With `raw`, sentences were split from raw text: words of a segmenter then end at white space.
        """
        given, (first, *_) = listed(sentences), self.taggers
        items = [first._sentence(item) for item in given]
        if first.makes_words:
            items = [item.with_text(splitter(first.tokenizer_).separator) for item in items]
        from_text: list[bool] | None = [raw or isinstance(item, str) for item in given]
        for name, tagger in list(self._taggers.items())[:-1]:
            tags = tagger.tagset_
            best = [labels for block in tagger._posteriors(items, None, from_text) for labels in block.best()]
            tagged = [item.with_tags(labels) for item, labels in zip(items, best, strict=True)]
            if tagger.makes_words:
                tagged = [to_words(item, scheme=tags.scheme, style=tags.style) for item in tagged]
            items = []
            for item in tagged:
                columns = item.columns if segments(tags) else {**item.columns, name: item.tags or ()}
                items.append(replace(item, tags=None, columns=columns))
            from_text = None  # words of a later tagger do not end at white space
        return items

    def tag(self, sentences: Iterable[Sentence | Sequence[str]]) -> list[Sentence]:
        """The sentences in words, with the tags of the last tagger; those of the others are columns."""
        return self.taggers[-1].tag(self.words(sentences))

    def annotate(self, texts: Iterable[Text], *, sentences: bool = False) -> list[Tagged]:
        """Tags and spans of the last tagger for raw texts, sentences or token lists, with offsets in the raw text.

        With `sentences`, each raw text is split into sentences, and the answer is about the whole text. A text as a
        whole has no columns.
        """
        given = listed(texts)
        if sentences:
            return documents(given, self.annotate)
        return self.taggers[-1].annotate(self.words(given))

    @overload
    def __call__(self, texts: str | Sentence, *, sentences: bool = False) -> Tagged: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, texts: Iterable[Text], *, sentences: bool = False) -> list[Tagged]: ...
    def __call__(self, texts: str | Sentence | Iterable[Text], *, sentences: bool = False) -> Tagged | list[Tagged]:
        """Tag a raw text, or each of a list of raw texts; see `annotate`."""
        if isinstance(texts, str | Sentence):
            return self.annotate([texts], sentences=sentences)[0]
        return self.annotate(texts, sentences=sentences)

    def __repr__(self) -> str:
        return f"Pipeline({', '.join(f'{name}: {type(tagger).__name__}' for name, tagger in self._taggers.items())})"

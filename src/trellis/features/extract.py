"""From sentences to compiled features, in one native pass: no Python string is created for a feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from trellis import _native
from trellis.arrays import Arrays, FloatArray, IntArray
from trellis.errors import DataError, StoreError, TemplateError
from trellis.features.clusters import Clusters
from trellis.features.templates import Templates
from trellis.store import Stored, narrowed
from trellis.text import Sentence

Tokens = Sequence[str]
Compiled = _native.Dataset


class AttributeIndex:
    """Attributes with numbers, in the order in which they first occurred.

    An index grows while a training corpus is compiled. An attribute of templates is the form of a line and the values
    in it; its name is made of them when it is asked for. What is saved with a model is used directly: the tables to
    find attributes by are made when they are first needed.
    """

    def __init__(self, native: _native.Attributes | None = None) -> None:
        self.native = _native.Attributes() if native is None else native

    @classmethod
    def from_stored(
        cls, stored: Stored, prefix: str = "", templates: _native.TemplateSet | None = None
    ) -> AttributeIndex:
        """The index whose `arrays` were stored, of attributes of these templates if they come from any."""

        def strings(name: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
            texts = stored.array(f"{prefix}{name}", np.uint8, (None,))
            ends = stored.lengths(f"{prefix}{name}.lengths", len(texts)).view(np.uint64)
            if len(ends) > np.iinfo(np.int32).max:
                raise stored.refused(f"{prefix}{name}.lengths", f"must be fewer than 2**31, got {len(ends)}")
            return texts, ends

        keys = strings("attributes")
        if templates is None:
            return cls(_native.Attributes(*keys))
        counts = stored.array(f"{prefix}values.counts", np.int64, (None,), 0).tolist()
        try:
            return cls(_native.Attributes(*keys, templates, *strings("values"), counts))
        except ValueError as error:
            raise stored.refused(f"{prefix}attributes", str(error)) from None

    def arrays(self, prefix: str = "") -> Arrays:
        """The input of `from_stored`; the prefix tells the indexes of one file apart."""

        def strings(name: str, texts: npt.NDArray[np.uint8], lengths: npt.NDArray[np.uint64]) -> Arrays:
            return {f"{prefix}{name}": texts, f"{prefix}{name}.lengths": narrowed(lengths)}

        keys, ends = self.native.keys()
        arrays, values = strings("attributes", keys, np.diff(ends, prepend=np.uint64(0))), self.native.values()
        if values is not None:
            lengths = [np.diff(ends, prepend=np.uint64(0)) for _, ends in values]
            texts = np.concatenate([np.empty(0, dtype=np.uint8), *(texts for texts, _ in values)])
            arrays |= strings("values", texts, np.concatenate([np.empty(0, dtype=np.uint64), *lengths]))
            arrays[f"{prefix}values.counts"] = np.array(list(map(len, lengths)), dtype=np.int64)
        return arrays

    def __len__(self) -> int:
        """The number of attributes."""
        return len(self.native)

    def select(self, numbers: IntArray | None = None) -> AttributeIndex:
        """An index of the attributes with these numbers, or of all, numbered anew; it can grow."""
        return AttributeIndex(self.native.select(np.arange(len(self)) if numbers is None else numbers))

    def like(self, arrays: Arrays) -> AttributeIndex:
        """Attributes of the same templates, if these have any, from the `arrays` of another process."""
        return AttributeIndex.from_stored(Stored.of("a process", "attributes", {}, arrays), "", self.native.templates)

    def name(self, number: int) -> str:
        """The name of the attribute with this number."""
        if not 0 <= number < len(self):
            raise IndexError(f"attribute {number} of {len(self)}")
        try:
            return self.native.name(number).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise StoreError(f"the name of attribute {number} of the saved model is not UTF-8") from None

    def names(self) -> list[str]:
        """All names, in order."""
        return [self.name(number) for number in range(len(self))]


class Extractor(Protocol):
    """Turns the sentences it is given into numbered features."""

    @property
    def token_templates(self) -> _native.TemplateSet | None:
        """The templates of tokens, if features come from templates."""

    @property
    def step_templates(self) -> _native.TemplateSet | None:
        """The templates of the step into each token, if there are any."""

    def compile(self, sentences: Sequence[Any], index: AttributeIndex, *, grow: bool) -> Compiled:
        """Features of all sentences; `grow` numbers new ones, otherwise they are skipped."""

    def compile_edges(self, sentences: Sequence[Any], index: AttributeIndex, *, grow: bool) -> Compiled | None:
        """Features of the step into each token of all sentences; None if there are no such features."""

    def strings(self, sentence: Any) -> list[list[str]] | None:
        """The names of the features of each token, if they come from templates."""


class TemplateExtractor:
    """Templates evaluated on tokens and further columns; accepts token lists or `Sentence` objects."""

    def __init__(self, templates: Templates, clusters: Clusters | None = None, lexicon: Sequence[str] = ()) -> None:
        """`lexicon` names the columns of the sentences that hold matches of a lexicon."""
        self.templates, self.clusters, self.lexicon = templates, clusters, tuple(lexicon)
        if templates.lexicon_columns > len(self.lexicon):
            raise TemplateError(
                f"{templates.name} looks at %lexicon{templates.lexicon_columns}, and there is a lexicon with "
                f"{len(self.lexicon)} labels of features: give one with lexicon="
            )

    @property
    def token_templates(self) -> _native.TemplateSet:
        """The templates of tokens."""
        return self.templates.native

    @property
    def step_templates(self) -> _native.TemplateSet | None:
        """The templates of steps."""
        return self.templates.native_edges if self.templates.edges else None

    def compile(self, sentences: Sequence[Tokens | Sentence], index: AttributeIndex, *, grow: bool) -> Compiled:
        """Features of all sentences."""
        return self._compile(self.templates.native, sentences, index, grow=grow)

    def compile_edges(
        self, sentences: Sequence[Tokens | Sentence], index: AttributeIndex, *, grow: bool
    ) -> Compiled | None:
        """Features of the steps into tokens; those of a first token, which no step leads to, are to be ignored."""
        templates = self.step_templates
        return None if templates is None else self._compile(templates, sentences, index, grow=grow)

    def _compile(
        self,
        templates: _native.TemplateSet,
        sentences: Sequence[Tokens | Sentence],
        index: AttributeIndex,
        *,
        grow: bool,
    ) -> Compiled:
        columns, names = self._columns(sentences)
        try:
            return _native.compile_tokens(templates, columns, names, index.native, grow)
        except ValueError as error:
            raise DataError(str(error)) from None

    def score(self, sentences: Sequence[Tokens | Sentence], scorer: _native.TokenScorer) -> tuple[FloatArray, IntArray]:
        """Emissions of all tokens and the offsets of the sentences, without compiling anything in between."""
        columns, names = self._columns(sentences)
        try:
            return scorer.score(columns, names)
        except ValueError as error:
            raise DataError(str(error)) from None

    def best(
        self, sentences: Sequence[Tokens | Sentence], scorer: _native.TokenScorer, labeller: _native.Labeller
    ) -> list[list[str]] | None:
        """The best labels of each sentence; None if there is a problem, which the scores of `score` will show."""
        columns, names = self._columns(sentences)
        try:
            return scorer.best(columns, names, labeller)
        except ValueError as error:
            raise DataError(str(error)) from None

    def strings(self, sentence: Tokens | Sentence) -> list[list[str]]:
        """The feature names of each token, line by line of the template; those of the step into it come last."""
        columns, names = self._columns([sentence])
        features = _native.feature_strings(self.templates.native, columns, names)
        steps = _native.feature_strings(self.templates.native_edges, columns, names) if self.templates.edges else []
        for of_token, of_step in zip(features[1:], steps[1:], strict=False):
            of_token += of_step
        return [[name.decode("utf-8", "surrogatepass") for name in of_token] for of_token in features]

    def _columns(self, sentences: Sequence[Tokens | Sentence]) -> tuple[list[list[Tokens]], list[str]]:
        """The cells that the templates look at, column by column, and the columns' names."""
        tokens: list[Tokens] = sentences if type(sentences) is list else list(sentences)  # type: ignore[arg-type]
        names = ["token"]
        if any(issubclass(kind, Sentence) for kind in set(map(type, sentences))):
            tokens = [item.tokens if isinstance(item, Sentence) else item for item in sentences]
            first = next(item for item in sentences if isinstance(item, Sentence))
            names += [name for name in first.columns if name not in self.lexicon]
        self.templates.check_columns(names)
        names = names[: self.templates.num_columns]
        columns = [tokens, *([_column(item, name) for item in sentences] for name in names[1:])]
        if self.templates.uses_clusters:
            if self.clusters is None:
                raise TemplateError(
                    f"{self.templates.name} looks at clusters of words: set vectors to a file of vectors"
                )
            columns.append([self.clusters.column(of_sentence) for of_sentence in tokens])
            names = [*names, "cluster"]
        matched = self.lexicon[: self.templates.lexicon_columns]
        columns += [[_column(item, name) for item in sentences] for name in matched]
        return columns, [*names, *matched]


def _column(sentence: Tokens | Sentence, name: str) -> Tokens:
    if isinstance(sentence, Sentence) and name in sentence.columns:
        return sentence.columns[name]
    where = f"{sentence.where}: " if isinstance(sentence, Sentence) and sentence.where else ""
    text = " ".join((sentence.tokens if isinstance(sentence, Sentence) else sentence)[:8])
    problem = f"has no column {name!r}, which other sentences have and the templates need"
    raise DataError(f"{where}the sentence {text!r} {problem}")


class GivenExtractor:
    """Features that were made elsewhere: for each token a list of strings, or a dict as in sklearn-crfsuite."""

    token_templates = step_templates = None

    def compile(self, sentences: Sequence[Sequence[Any]], index: AttributeIndex, *, grow: bool) -> Compiled:
        """Features of all sentences."""
        try:
            return _native.compile_features(sentences, index.native, grow)
        except ValueError as error:
            raise DataError(str(error)) from None

    def compile_edges(self, sentences: Sequence[Sequence[Any]], index: AttributeIndex, *, grow: bool) -> None:
        """Ready-made features are those of tokens."""

    def strings(self, sentence: Sequence[Any]) -> None:
        """Ready-made features have no template lines."""

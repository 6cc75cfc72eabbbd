"""How every tagger learns: data checked and mended, shared by processes, in memory or from a stream."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from trellis.corpus import Shards
from trellis.errors import ModelError
from trellis.lexicon import Lexicon
from trellis.lexicon.columns import with_columns
from trellis.lexicon.learning import spans_with_surfaces
from trellis.models.data import Label, Labelled, Supervised
from trellis.models.estimator import C
from trellis.models.fitting import FitOptions, check_weights, identify, labelled, opened
from trellis.models.folder import ModelFolder
from trellis.models.learned_tags import mended
from trellis.models.raw_text import tokenizer_for
from trellis.models.storable import Storable
from trellis.models.streams.once import LabelledStream
from trellis.tags import OnBadTags
from trellis.text import OwnTokenizer, Splitter
from trellis.training import Progress, undisturbed
from trellis.training.processes import Team, current


class Trainable(Storable[C], ABC):
    """`fit`, and what it does before and after a family learns."""

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[Label]] | None = None,
        *,
        dev: Supervised | None = None,
        sentence_weights: Sequence[float] | None = None,
        warm_start: bool = False,
        progress: Progress | None = None,
        folder: str | Path | ModelFolder | None = None,
        tokenizer: Splitter | str | OwnTokenizer | None = None,
        on_bad_tags: OnBadTags = "error",
        lexicon: Lexicon | None = None,
    ) -> Self:
        """Learn from sentences with tags, or from inputs and their labels.

        Args:
            X: sentences with tags, or inputs of any kind that the model accepts; `trellis.corpus.Shards` are a corpus
                on disk, which neural taggers and feature CRFs never hold in memory.
            y: the labels of each input; a partly known label is a set of labels, an unknown one None.
            dev: held-out data like `X`, or a pair ``(X, y)``: its score is watched, and the best model kept.
            sentence_weights: how much each sentence counts; default: 1.
            warm_start: start from what this model learned before; labels and features may be new.
            progress: called after each iteration.
            folder: where the model is written when it is trained, with its settings and its history.
            tokenizer: how raw text will be split, instead of the setting of that name; may be a function.
            on_bad_tags: what to do about labels that the scheme forbids or cannot read: "error" refuses them, "repair"
                reads them as seqeval does, "drop" leaves their sentences out; what was done is a `DataWarning`.
            lexicon: becomes the model's own (`lexicon_`); matches of its entries of strength feature are learned from.

        """
        options = FitOptions(warm_start, progress, tokenizer=tokenizer, on_bad_tags=on_bad_tags, lexicon=lexicon)
        with opened(folder, self.kind) as place:
            self._fit(X, y, dev, sentence_weights, options, place, keep=place is not folder)
        return self

    def _fit(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[Label]] | None,
        dev: Supervised | None,
        sentence_weights: Sequence[float] | None,
        options: FitOptions,
        place: ModelFolder | None,
        *,
        keep: bool,
    ) -> None:
        """Learn, and leave the model in its place if it is to be kept there."""
        options = replace(options, team=self._team(), folder=None if place is None else place.training)
        if self._is_streamed(X):
            self._fit_stream(LabelledStream(X, y, sentence_weights), dev, options)
        else:
            self._fit_in_memory(X, y, dev, sentence_weights, options)
        if place is not None and keep:
            undisturbed(lambda: place.save(self))

    def _is_streamed(self, X: Iterable[Any]) -> bool:
        """Whether sentences are read once, and not kept: by the setting `out_of_core`, or since they are in shards."""
        asked: bool | None = getattr(self.config, "out_of_core", None)
        return asked is not None and (asked or isinstance(X, Shards))

    def _fit_in_memory(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[Label]] | None,
        dev: Supervised | None,
        sentence_weights: Sequence[float] | None,
        options: FitOptions,
    ) -> None:
        """Check the data and learn."""
        given = (Labelled.of(X, y) if options.stream is None else options.stream.sample).shared_by(options.team)
        weights = check_weights(sentence_weights, len(given.inputs))
        data, kept = mended(given, self._scheme_asked, options.on_bad_tags)
        data = data.shared_by(options.team)
        weights = None if weights is None else weights[kept]
        if not data.inputs:
            raise ModelError("there is nothing to learn from: the corpus has no sentence")
        held_out = None if dev is None else self._held_out(labelled(dev), data, options.on_bad_tags)
        options = replace(options, sentence_weights=weights)
        how = self._begin(data, held_out, data.inputs, options)
        self._take_lexicon(options)
        self._learn(self._seen(data, learn=True), None if held_out is None else self._seen(held_out), options)
        self.tokenizer_ = how

    def _fit_stream(self, stream: LabelledStream, dev: Supervised | None, options: FitOptions) -> None:
        """Learn from sentences that are read once, and not kept in memory."""
        if options.on_bad_tags != "error":
            raise ModelError(
                f"on_bad_tags={options.on_bad_tags!r} looks at all sentences at once, and out_of_core reads them one "
                "by one: mend them first (trellis.corpus.mend_tags)"
            )
        self._take_lexicon(options)
        if self.lexical_:
            raise ModelError("out_of_core does not learn from a lexicon: give its entries the strength prefer or must")
        held_out = None if dev is None else labelled(dev)
        splitters: list[Splitter] = []

        def begin(read: str) -> None:
            splitters.append(self._begin(read, held_out, stream.sample, options))

        stream.prepare = self._seen
        self._learn_stream(stream, None if held_out is None else self._seen(held_out), options, begin)
        self.tokenizer_ = splitters[0]

    def _begin(
        self, data: Labelled | str, held_out: Labelled | None, inputs: Sequence[Any], options: FitOptions
    ) -> Splitter:
        """Tell the folder which training this is; the tokenizer of the model, by its settings or like these inputs."""
        before = self._state()[1] if options.folder is not None and self._goes_on(options) else None
        shares = self.shares_sentences
        identify(options, self.config, self.free_settings, data, held_out, before, shares=shares)
        how = tokenizer_for(options.tokenizer or getattr(self.config, "tokenizer", None), inputs)
        if options.folder is not None:
            how.to_dict()  # what cannot be stored is refused before the training, not after it
        return how

    def _team(self) -> Team:
        """The processes that train this model together."""
        if not self.shares_sentences and current().count > 1:
            raise ModelError(
                f"a {type(self).__name__} is not trained by processes with sentences of their own (together)"
            )
        return current()

    def _held_out(self, dev: Labelled, data: Labelled, on_bad_tags: OnBadTags) -> Labelled:
        """Held-out data, whose tags are read by the scheme of the training data."""
        if on_bad_tags == "error":
            return dev
        return mended(dev, data.detect(self._scheme_asked).scheme.value, on_bad_tags)[0]

    def _seen(self, data: Labelled, *, learn: bool = False) -> Labelled:
        if not self.lexical_:
            return replace(data, inputs=self._folded(data.inputs))
        gold = None
        if learn and not data.partial:
            gold = spans_with_surfaces(data.inputs, data.strings(), data.detect(self._scheme_asked))
        seen = with_columns(self._folded(data.inputs), data.inputs, self._lexicons("own"), self.lexical_, gold)
        return replace(data, inputs=seen)

    def _take_lexicon(self, options: FitOptions) -> None:
        """Make the lexicon that is given, or that the settings name, the model's own."""
        path = getattr(self.config, "lexicon", None)
        given = options.lexicon
        if given is None and path is not None:
            given = Lexicon.read(path, strength="feature")
        if given is None and not self._goes_on(options):
            self.lexicon_, self.lexical_ = None, ()
        if given is None:
            return
        labels = given.feature_labels
        if labels and not self.learns_lexicons:
            raise ModelError(
                f"a {type(self).__name__} with these settings does not learn from a lexicon: give its entries the "
                "strength prefer or must"
            )
        if self._goes_on(options) and labels != self.lexical_:
            raise ModelError("a model that learns on needs a lexicon with the labels of its first one")
        self.lexicon_, self.lexical_ = given, labels

    def _goes_on(self, options: FitOptions) -> bool:
        """Whether learning starts from what was learned before."""
        return options.warm_start and self.__sklearn_is_fitted__()

"""The Tagger contract: what every family of models promises, and one test suite checks.

    fit(sentences) or fit(X, y)      learn; `dev` stops early
    tag(sentences)                   the sentences with tags; predict(X) gives bare label lists
    tagger("raw text"), annotate     tags, spans by character, and the probability of each
    marginals, kbest, span_probabilities, sequence_probabilities
                                     exact probabilities from forward-backward
    evaluate(sentences)              the scores that fit the scheme: spans, or accuracy for plain tags
    save(path), load(path)           one file, no pickle, same answers
    get_params, set_params           scikit-learn's conventions, where X is a list of token lists

A family says where the scores come from (`_scores`), how it learns (`_learn`), and what it stores (`_state`,
`_restore`); one whose chain has states finer than labels also says which label each of them stands for
(`_state_labels`), one whose transitions depend on their place how many scores a token has (`_cells`), and one that
folds full-width forms natively that it does (`_folds_itself`). It overrides nothing else here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np

from trellis import chain, config, store
from trellis.arrays import Arrays, BoolArray, FloatArray, IntArray
from trellis.errors import ConfigError, ModelError, NotFittedError, StoreError, TagError
from trellis.lexicon import Lexicon
from trellis.lexicon.columns import with_columns
from trellis.lexicon.learning import spans_with_surfaces
from trellis.lexicon.storage import from_stored, to_stored
from trellis.lexicon.tracks import Gaps
from trellis.models.data import Label, Labelled, Supervised, listed, mended
from trellis.models.estimator import C, Estimator
from trellis.models.fitting import FitOptions, check_weights, identify, labelled, opened
from trellis.models.folder import ModelFolder
from trellis.models.lattice_view import LatticeView
from trellis.models.lexical import ScoredInputs, find
from trellis.models.musts import applied
from trellis.models.posterior import Known, Posterior
from trellis.models.raw_text import cuts_words, documents, folded, gaps_of, inputs_of, kept_apart, tokenizer_for
from trellis.models.scoring import Scores, compare, headline
from trellis.models.tagged import Labelling, ScoredSpan, Tagged
from trellis.models.transforming import Transforming
from trellis.tags import OnBadTags, Scheme, Span, Style, TagSet
from trellis.text import OwnTokenizer, Sentence, Splitter, splitter, splitter_from_dict
from trellis.training import History, Progress, undisturbed
from trellis.training.processes import Team, current
from trellis.untrusted import shown

LexiconOption = Lexicon | Literal["own"] | None
_LEARNED = ("tagset_", "tokenizer_", "settings_", "history_", "lexicon_", "lexical_")
_BLOCK = 16384  # sentences that are answered at a time
_TRACKS = 8  # how much wider a chain with a lexicon may well be


class Tagger(Estimator[C], Transforming, ABC):
    """Base of all taggers; `config` holds the settings, names that end in ``_`` exist once it has learned."""

    kind: ClassVar[str]
    free_settings: ClassVar[frozenset[str] | None] = None
    """What may be changed when training is resumed, by dotted names; None if it learns in one go."""
    shares_sentences: ClassVar[bool] = False
    """Whether processes with sentences of their own can train it together; see `trellis.training.processes`."""
    tagset_: TagSet
    settings_: C
    """What it was trained with: `config` with a value for everything that was left unset."""
    tokenizer_: Splitter | str | OwnTokenizer
    """How raw text is split: as the setting `tokenizer` says, or like the training data; may be changed."""
    history_: History
    """The training; it does not exist for a model that was opened from a file."""
    lexicon_: Lexicon | None = None
    """What the model knows about words and names, saved with it; may be set to another one, or to None."""
    lexical_: tuple[str | None, ...] = ()
    """The labels of the lexicon whose matches are features of the model, None for entries without a label."""

    @abstractmethod
    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        """Learn from checked data; sets `tagset_`, `settings_`, `history_` and what `_scores` needs."""

    @abstractmethod
    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        """Scores of the inputs, by a fitted model."""

    def _state_labels(self) -> IntArray | None:
        """The label of each state of a fitted model's chain; None if the states are the labels."""
        return None

    def _folds_itself(self) -> bool:
        """Whether `_scores` takes inputs as they are given, and folds full-width forms on its own."""
        return False

    def _cells(self) -> int:
        """How many scores a token of a fitted model's chain has: with more of them, fewer sentences make a block."""
        finer = self._state_labels()
        return len(self._fitted_tags()) if finer is None else len(finer)

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], Arrays]:
        """Manifest entries and arrays, from which `_restore` makes the model again."""

    @abstractmethod
    def _restore(self, stored: store.Stored) -> None:
        """The inverse of `_state`, for a file that may contain anything; `tagset_` and `settings_` exist already."""

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
            X: sentences with tags, or inputs of any kind that the model accepts.
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
        """Check the data, learn, and leave the model in its place if it is to be kept there."""
        options = replace(options, team=self._team())
        given = Labelled.of(X, y).shared_by(options.team)
        weights = check_weights(sentence_weights, len(given.inputs))
        data, kept = mended(given, self._scheme_asked, options.on_bad_tags)
        data = data.shared_by(options.team)
        weights = None if weights is None else weights[kept]
        if not data.inputs:
            raise ModelError("there is nothing to learn from: the corpus has no sentence")
        held_out = None if dev is None else self._held_out(labelled(dev), data, options.on_bad_tags)
        options = replace(options, sentence_weights=weights, folder=None if place is None else place.training)
        before = self._state()[1] if place is not None and self._goes_on(options) else None
        shares = self.shares_sentences
        identify(options, self.config, self.free_settings, data, held_out, before, shares=shares)
        how = tokenizer_for(options.tokenizer or getattr(self.config, "tokenizer", None), data.inputs)
        if place is not None:
            how.to_dict()  # what cannot be stored is refused before the training, not after it
        self._take_lexicon(options)
        self._learn(self._seen(data, learn=True), None if held_out is None else self._seen(held_out), options)
        self.tokenizer_ = how
        if place is not None and keep:
            undisturbed(lambda: place.save(self))

    @property
    def learns_lexicons(self) -> bool:
        """Whether matches of a lexicon can be features."""
        return False

    def _team(self) -> Team:
        """The processes that train this model together."""
        if not self.shares_sentences and current().count > 1:
            raise ModelError(
                f"a {type(self).__name__} is not trained by processes with sentences of their own (together)"
            )
        return current()

    @property
    def _scheme_asked(self) -> str | None:
        return getattr(self.config, "scheme", None)

    def _held_out(self, dev: Labelled, data: Labelled, on_bad_tags: OnBadTags) -> Labelled:
        """Held-out data, whose tags are read by the scheme of the training data."""
        if on_bad_tags == "error":
            return dev
        return mended(dev, data.detect(self._scheme_asked).scheme.value, on_bad_tags)[0]

    def posterior(
        self, X: Iterable[Any], *, known: Known | None = None, raw: bool = False, lexicon: LexiconOption = "own"
    ) -> Posterior:
        """The distribution over labellings of all inputs, from which every answer is read; the encoder runs once.

        With `known` labels, given like the labels of `fit` (a label, a set of labels one of which is right, or None),
        it is the distribution over the labellings that agree with them. With `raw`, the inputs are sentences split
        from raw text: words of a segmenter then end at white space.

        A `lexicon` re-weights and restricts it: a bonus for spans that it prefers, a condition for those that must be;
        `Posterior.lexicon_report` says what came of them. It comes on top of the model's own lexicon (`lexicon_`), if
        there is one; None switches that off.
        """
        inputs = listed(X)
        given = None if known is None else Labelled.of(inputs, known)
        return self._posterior(inputs, given, 0, [raw] * len(inputs), lexicon)

    def chain_scores(self, X: Iterable[Any]) -> chain.ChainScores:
        """The scores behind every answer."""
        return self.posterior(X).scores

    def predict(
        self, X: Iterable[Any], *, known: Known | None = None, lexicon: LexiconOption = "own"
    ) -> list[list[str]]:
        """The best labels of each input, with `known` labels and a `lexicon` the best with these (see `posterior`)."""
        return [own for block in self._posteriors(X, known, lexicon=lexicon) for own in block.best()]

    def tag(
        self,
        sentences: Iterable[Sentence | Sequence[str]],
        *,
        known: Known | None = None,
        lexicon: LexiconOption = "own",
    ) -> list[Sentence]:
        """The sentences with the best tags; token lists become sentences."""
        items = [item if isinstance(item, Sentence) else Sentence(item) for item in listed(sentences)]
        best = self.predict(items, known=known, lexicon=lexicon)
        return [item.with_tags(tags) for item, tags in zip(items, best, strict=True)]

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, texts: str | Sentence, *, sentences: bool = False, lexicon: LexiconOption = "own"
    ) -> Tagged: ...
    @overload
    def __call__(
        self,
        texts: Iterable[str | Sentence | Sequence[str]],
        *,
        sentences: bool = False,
        lexicon: LexiconOption = "own",
    ) -> list[Tagged]: ...
    def __call__(
        self,
        texts: str | Sentence | Iterable[str | Sentence | Sequence[str]],
        *,
        sentences: bool = False,
        lexicon: LexiconOption = "own",
    ) -> Tagged | list[Tagged]:
        """Tag a raw text, or each of a list of raw texts, split by `tokenizer_`; see `annotate`."""
        if isinstance(texts, str | Sentence):
            return self.annotate([texts], sentences=sentences, lexicon=lexicon)[0]
        return self.annotate(texts, sentences=sentences, lexicon=lexicon)

    def annotate(
        self,
        texts: Iterable[str | Sentence | Sequence[str]],
        *,
        known: Known | None = None,
        sentences: bool = False,
        lexicon: LexiconOption = "own",
    ) -> list[Tagged]:
        """Tags, their probabilities and the spans by character of raw texts, sentences or token lists.

        `known` and `lexicon` are as in `posterior`. With `sentences`, each raw text is split into sentences, which are
        tagged one by one; the answer is about the whole text, with offsets in it.
        """
        given = listed(texts)
        if sentences:
            if known is not None:
                raise ModelError("known labels belong to the tokens of one sentence: leave out sentences=True")
            return documents(given, partial(self.annotate, lexicon=lexicon))
        how = splitter(self.tokenizer_)
        items, raw = inputs_of(given, how, with_gaps=cuts_words(self._fitted_tags(), how))
        blocks = self._posteriors(items, known, [isinstance(item, str) for item in given], lexicon)
        return [one for b in blocks for one in b.annotate(raw[b.first : b.first + len(b)], separator=how.separator)]

    def trellis(self, sentence: str | Sentence | Sequence[str], *, k: int = 3) -> LatticeView:
        """All labels of all tokens with their probabilities, and the `k` best paths, to be drawn."""
        return self.posterior([self._sentence(sentence)]).trellis(k=k)

    def marginals(
        self, X: Iterable[Any], *, known: Known | None = None, lexicon: LexiconOption = "own"
    ) -> list[FloatArray]:
        """For each input ``(T, L)``: the exact probability of each label (in the order of `labels_`) at each token."""
        return [own for block in self._posteriors(X, known, lexicon=lexicon) for own in block.marginals()]

    def kbest(
        self, X: Iterable[Any], k: int, *, known: Known | None = None, lexicon: LexiconOption = "own"
    ) -> list[list[Labelling]]:
        """The k most probable labellings of each input, best first; fewer if fewer exist."""
        return [own for block in self._posteriors(X, known, lexicon=lexicon) for own in block.kbest(k)]

    def sequence_probabilities(self, X: Iterable[Any], y: Iterable[Sequence[str]] | None = None) -> FloatArray:
        """The probability of the given labels of each input, taken as a whole."""
        data = Labelled.of(X, y)
        labels = data.strings()
        found = [block.probabilities(labels[block.first :][: len(block)]) for block in self._posteriors(data.inputs)]
        return np.concatenate([np.empty(0), *found])

    def span_probabilities(
        self, X: Iterable[Any], spans: Sequence[Sequence[Span]] | None = None
    ) -> list[list[ScoredSpan]]:
        """Exact probabilities of the spans that are given for each input, or of those that are predicted."""
        inputs = listed(X)
        if spans is None:
            return [own for block in self._posteriors(inputs) for own in block.spans()]
        if len(spans) != len(inputs):
            raise ModelError(f"spans are given for {len(spans)} sentences, but there are {len(inputs)}")
        parts = ((block, spans[block.first :][: len(block)]) for block in self._posteriors(inputs))
        return [own for block, part in parts for own in block.span_probabilities(part)]

    def evaluate(
        self, X: Iterable[Any], y: Iterable[Sequence[str]] | None = None, *, lexicon: LexiconOption = "own"
    ) -> Scores:
        """Scores of the predicted labels against the true ones."""
        data = Labelled.of(X, y)
        return compare(data.strings(), self.predict(data.inputs, lexicon=lexicon), self._fitted_tags())

    def score(self, X: Iterable[Any], y: Iterable[Sequence[str]] | None = None) -> float:
        """One number for model selection: F1 of spans, or accuracy for plain tags."""
        return headline(self.evaluate(X, y))

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        tags = self._fitted_tags()
        manifest, arrays = self._state()
        manifest |= {"config": config.to_dict(self.settings_), "labels": list(tags.labels)}
        manifest |= {"scheme": tags.scheme.value, "style": tags.style.value}
        manifest["tokenizer"] = splitter(self.tokenizer_).to_dict()
        if self.lexicon_ is not None:
            manifest["lexicon"], own = to_stored(self.lexicon_)
            arrays |= own
        if self.lexical_:
            manifest["lexical"] = list(self.lexical_)
        store.save(path, self.kind, manifest, arrays)

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> Self:
        """Open a saved model; `verify` compares checksums."""
        return cls.from_stored(store.load(path, cls.kind, verify=verify))

    @classmethod
    def from_stored(cls, stored: store.Stored) -> Self:
        """The model in a file."""
        fields = stored.manifest
        try:
            # Models of versions that did not fold forms have learned without.
            settings = config.from_dict(cls.config_class, _unfolded(cls.config_class) | fields.table("config").values)
        except ConfigError as error:
            problem = "the saved model has settings that this version of Trellis does not know"
            raise StoreError(f"{stored.where}: {problem}: {error}") from None
        model = cls(settings)
        model.settings_ = settings
        model.tagset_ = _stored_tags(stored)
        model.tokenizer_ = _stored_tokenizer(stored)
        model.lexicon_ = from_stored(stored) if "lexicon" in fields else None
        model.lexical_ = tuple(fields.items("lexical", str, type(None))) if "lexical" in fields else ()
        model._restore(stored)
        return model

    @property
    def labels_(self) -> tuple[str, ...]:
        """The labels, in the order of their ids."""
        return self._fitted_tags().labels

    @property
    def makes_words(self) -> bool:
        """Whether its tokens are characters, and its labels say which of them are words, and maybe what these are."""
        return cuts_words(self._fitted_tags(), splitter(self.tokenizer_))

    @property
    def classes_(self) -> list[str]:
        """The labels, as scikit-learn calls them."""
        return list(self.labels_)

    def __getstate__(self) -> dict[str, Any]:
        """Plain values and arrays, for copies between processes; files are written by `save`."""
        kept: dict[str, Any] = {"config": self.config}
        if hasattr(self, "_sklearn_output_config"):
            kept["output"] = self._sklearn_output_config
        if not self.__sklearn_is_fitted__():
            return kept
        learned = {name: self.__dict__[name] for name in _LEARNED if name in self.__dict__}
        return {**kept, "learned": learned, "state": self._state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The inverse of `__getstate__`."""
        self.__init__(state["config"])  # type: ignore[misc]
        self.set_output(**state.get("output", {}))
        if "learned" in state:
            self.__dict__.update(state["learned"])
            self._restore(store.Stored.of("the pickled model", self.kind, *state["state"]))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is anything to predict with."""
        return hasattr(self, "tagset_")

    def _posteriors(
        self,
        X: Iterable[Any],
        known: Known | None = None,
        raw: Sequence[bool] | None = None,
        lexicon: LexiconOption = "own",
    ) -> Iterator[Posterior]:
        """Block by block, so that memory does not grow with the input."""
        labels = len(self._fitted_tags())
        cells = self._cells() * (_TRACKS if self._lexicons(lexicon) else 1)
        inputs, size = listed(X), sentences_at_once(labels, cells)
        given = None if known is None else Labelled.of(inputs, known)
        for i in range(0, len(inputs), size):
            own = None if given is None else given.part(i, i + size)
            yield self._posterior(inputs[i : i + size], own, i, None if raw is None else raw[i : i + size], lexicon)

    def _lexicons(self, lexicon: LexiconOption) -> list[Lexicon]:
        """The lexicons that count: the model's own, and the one that is given."""
        if lexicon is not None and lexicon != "own" and not isinstance(lexicon, Lexicon):
            raise ModelError(f"lexicon must be a Lexicon, 'own' or None, got {shown(lexicon)}")
        own = [] if lexicon is None or self.lexicon_ is None else [self.lexicon_]
        return [*own, lexicon] if isinstance(lexicon, Lexicon) else own

    def _posterior(
        self,
        inputs: Sequence[Any],
        known: Labelled | None,
        first: int,
        raw: Sequence[bool] | None = None,
        lexicon: LexiconOption = "own",
    ) -> Posterior:
        tags, finer = self._fitted_tags(), self._state_labels()
        lexicons = self._lexicons(lexicon)
        as_given = self._folds_itself() and not self.lexical_
        scores = self._scores(inputs if as_given else self._prepared(inputs, lexicons))
        found = find(inputs, lexicons, tags) if lexicons else None
        choices = None if known is None else known.allowed(tags)
        scores = _restricted(scores, choices, finer)
        gaps = gaps_of(inputs, raw) if raw is not None and any(raw) and self.makes_words else np.empty(0, np.int64)
        alone = _restricted(scores, kept_apart(gaps, len(scores.emissions), tags), finer)
        if found is None:
            return Posterior(alone, tags, finer, inputs, first)
        bridged = np.isin(gaps, found.joined(scores.lengths))  # a lexicon has words with white space there
        open_ = _restricted(scores, kept_apart(gaps[~bridged], len(scores.emissions), tags), finer)
        across = Gaps.of(gaps[bridged], scores.lengths)
        parts, found = applied(ScoredInputs(open_, tags, finer, inputs, first, choices, across), found)
        return Posterior(alone, tags, finer, inputs, first, parts, found)

    def _folded(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The inputs as the model sees them."""
        return folded(inputs) if getattr(self.config, "fold_width", False) else inputs

    def _prepared(self, inputs: Sequence[Any], lexicons: Sequence[Lexicon]) -> Sequence[Any]:
        """The inputs as the model sees them, with the matches of lexicons if it has learned from these."""
        seen = self._folded(inputs)
        return with_columns(seen, inputs, lexicons, self.lexical_) if self.lexical_ else seen

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

    def _sentence(self, item: str | Sentence | Sequence[str]) -> Sentence:
        if isinstance(item, str):
            return splitter(self.tokenizer_).sentence(item)
        return item if isinstance(item, Sentence) else Sentence(item)

    def _goes_on(self, options: FitOptions) -> bool:
        """Whether learning starts from what was learned before."""
        return options.warm_start and self.__sklearn_is_fitted__()

    def _fitted_tags(self) -> TagSet:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit or load first")
        return self.tagset_


def sentences_at_once(labels: int, cells: int) -> int:
    """Sentences that are answered at a time: the fewer, the more scores a token has than labels."""
    return max(1, _BLOCK * labels // cells)


def _unfolded(config_class: type[Any]) -> dict[str, Any]:
    return {"fold_width": False} if any(item.name == "fold_width" for item in fields_of(config_class)) else {}


def _stored_tokenizer(stored: store.Stored) -> Splitter:
    """The tokenizer of a file; older versions stored a name."""
    fields = stored.manifest
    if "tokenizer" not in fields:
        return splitter("words")
    if isinstance(fields.value("tokenizer", str, dict), str):
        return splitter(fields.choice("tokenizer", ("words", "characters", "whitespace")))
    return splitter_from_dict(fields.table("tokenizer"))


def _stored_tags(stored: store.Stored) -> TagSet:
    fields = stored.manifest
    labels = fields.texts("labels")
    scheme = Scheme(fields.choice("scheme", [scheme.value for scheme in Scheme]))
    style = Style(fields.choice("style", [style.value for style in Style]))
    if not labels:
        raise StoreError(f"{stored.where}: the saved model has no labels")
    try:
        return TagSet(labels, scheme, style)
    except TagError as error:
        raise StoreError(f"{stored.where}: the saved labels do not fit their scheme: {error}") from None


def _restricted(scores: chain.ChainScores, allowed: BoolArray | None, finer: IntArray | None) -> chain.ChainScores:
    """The scores with these labels alone; all if there is no mask."""
    return scores if allowed is None else scores.restricted(allowed if finer is None else allowed[:, finer])

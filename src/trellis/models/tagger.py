"""The tagger: what every family of models does, and what a family provides for it.

    fit(sentences) or fit(X, y)      learn; `dev` stops early
    tag(sentences)                   the sentences with tags; predict(X) gives bare label lists
    tagger("raw text"), annotate     tags, spans by character, and the probability of each
    marginals, kbest, span_probabilities, sequence_probabilities
                                     exact probabilities from forward-backward
    evaluate(sentences)              the scores that fit the scheme: spans, or accuracy for plain tags
    save(path), load(path)           one file, no pickle, same answers
    get_params, set_params           scikit-learn's conventions, where X is a list of token lists

Every answer is read from a `Posterior`. A family names the dataclass of its settings (`config_class`) and the kind of
its files (`kind`), and implements `_learn`, `_scores`, `_state` and `_restore`; the other methods under "What a family
may override" have defaults.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, overload

import numpy as np

from trellis import _native, chain, config, store
from trellis.arrays import AnyArray, Arrays, FloatArray, IntArray, plain_array
from trellis.corpus import OnBadTags
from trellis.errors import (
    ConfigError,
    DataError,
    ModelError,
    NotFittedError,
    StoreError,
    TagError,
    number_of,
    required,
    shown,
    some_of,
    warn,
)
from trellis.lexicon import Lexicon
from trellis.lexicon.bonus import cut_at_gaps
from trellis.lexicon.chains import apply_lexicons
from trellis.lexicon.features import with_columns
from trellis.lexicon.lexicon import spans_with_surfaces
from trellis.models.answers import Answers, Labelling, LatticeView, Tagged, TransitionTable, documents
from trellis.models.data import (
    Label,
    Labelled,
    Scores,
    Supervised,
    check_sentence_weights,
    cuts_words,
    folded,
    gaps_of,
    headline,
    inputs_of,
    label_scores,
    listed,
    mended,
    name_of,
    segments,
    tokenizer_for,
)
from trellis.models.folder import ModelFolder, training, training_fingerprints
from trellis.models.posterior import Known, Posterior
from trellis.tags import Scheme, Span, Style, TagSet
from trellis.tags.spans import ScoredSpan
from trellis.text import OwnTokenizer, Sentence, Splitter, splitter, splitter_from_dict
from trellis.training import History, Progress, retry_on_interrupt
from trellis.training.checkpoint import TrainingFolder
from trellis.training.history import reporting
from trellis.training.process_group import SINGLE, ProcessGroup, current_group

if TYPE_CHECKING:
    from trellis.models.posterior import Explanation

C = TypeVar("C")
Text = str | Sentence | Sequence[str]
"""A raw text, a sentence, or a list of tokens."""
LexiconOption = Lexicon | Literal["own"] | None

_BLOCK = 16384  # sentences that are answered at a time
_TRACKS = 8  # how much wider a lexicon is assumed to make a chain, for the size of blocks
_LEARNED = ("tagset_", "tokenizer_", "learned_from_", "settings_", "history_", "lexicon_", "lexical_")


@dataclass(frozen=True, slots=True)
class FitOptions:
    """The options of one call of `fit`."""

    warm_start: bool = False
    progress: Progress | None = None
    sentence_weights: FloatArray | None = None
    folder: TrainingFolder | None = None
    """The folder for checkpoints."""
    on_bad_tags: OnBadTags = "error"
    tokenizer: Splitter | str | OwnTokenizer | None = None
    """How raw text will be split, instead of the setting of that name."""
    lexicon: Lexicon | None = None
    stream: Any = None
    """The corpus that `Tagger._stream` opened, if the sentences are not in memory."""
    group: ProcessGroup = SINGLE
    """The processes that train together, each with its own sentences."""


class Tagger(Generic[C], ABC):
    """Base of all taggers; `config` holds the settings, names that end in ``_`` exist once it has learned."""

    kind: ClassVar[str]
    config_class: ClassVar[type[Any]]
    main_settings: ClassVar[tuple[str, ...]] = ()
    """The settings that ``help()`` shows first, by dotted names."""
    free_settings: ClassVar[frozenset[str] | None] = None
    """The settings that may change when training is resumed, by dotted names; None if it learns in one go."""
    shares_sentences: ClassVar[bool] = False
    """Whether processes with sentences of their own can train it together; see `trellis.training.process_group`."""
    tagset_: TagSet
    settings_: C
    """The settings it was trained with: `config` with a value for everything that was left unset."""
    tokenizer_: Splitter | str | OwnTokenizer
    """How raw text is split: as the setting `tokenizer` says, or like the training data; may be changed."""
    history_: History
    """The training; it does not exist for a model that was opened from a file."""
    lexicon_: Lexicon | None = None
    """What the model knows about words and names, saved with it; may be set to another one, or to None."""
    lexical_: tuple[str | None, ...] = ()
    """The labels of the lexicon whose matches are features of the model, None for entries without a label."""
    learned_from_: tuple[int, int] | None = None
    """The sentences and tokens that it learned from."""
    _sklearn_output_config: dict[str, str]
    """The name that scikit-learn's `clone` copies; it exists once `set_output` was called."""

    # Settings

    def __init__(self, settings: C | None = None, /, **options: Any) -> None:
        """Take a configuration, single settings by name, or both: names override the configuration."""
        base = self.config_class() if settings is None else settings
        if not isinstance(base, self.config_class):
            wanted = self.config_class.__name__
            raise ConfigError(f"settings are given by name, or as a {wanted}, got {shown(settings)}")
        self.config: C = config.with_options(base, options)

    def __init_subclass__(cls, **options: Any) -> None:
        """Give a family the signature and the help text that its settings make, for completion and ``help()``."""
        super().__init_subclass__(**options)
        if "config_class" in cls.__dict__:
            parameters = [inspect.Parameter("settings", inspect.Parameter.POSITIONAL_ONLY, default=None)]
            for name, default in config.parameters(cls.config_class()).items():
                parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default))
            cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
            cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n\n{config.described(cls.config_class, cls.main_settings)}\n"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name; `deep` adds those inside sections, as ``section__name``."""
        return config.parameters(self.config, deep=deep)

    def set_params(self, **options: Any) -> Self:
        """Change settings by name; ``section__name`` changes one inside a section."""
        self.config = config.with_options(self.config, options)
        return self

    def __repr__(self) -> str:
        """The settings that are not the defaults, as the constructor takes them, and what was learned."""
        changed = config.differences(self.config, self.config_class())
        call = f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"
        if not self.__sklearn_is_fitted__():
            return call
        tags = self.tagset_
        kinds = list(dict.fromkeys(kind for _, kind in tags.parsed if kind))
        spans = tags.scheme is not Scheme.PLAIN and kinds
        facts = [f"{tags.scheme.value} spans: {some_of(kinds)}" if spans else f"labels: {some_of(tags.labels)}"]
        facts.append(self._extent())
        if self.learned_from_ is not None:
            sentences, tokens = self.learned_from_
            facts.append(f"learned from {number_of(sentences, 'sentence')}, {number_of(tokens, 'token')}")
        return f"<{call}; {'; '.join(filter(None, facts))}>"

    # Learning

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[Label]] | None = None,
        *,
        dev: Supervised | None = None,
        sentence_weights: Sequence[float] | None = None,
        warm_start: bool = False,
        progress: Progress | bool | None = None,
        folder: str | Path | ModelFolder | None = None,
        resume: bool = False,
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
            progress: called after each iteration; by default, a training of more than two seconds shows a line in a
                terminal or a notebook. True shows one always, False never.
            folder: where the model is written when it is trained, with its settings and its history, and checkpoints
                until then.
            resume: continue a training in the folder that was killed or interrupted from its last checkpoint, if there
                is one, to the same model as if nothing had happened.
            tokenizer: how raw text will be split, instead of the setting of that name; may be a function.
            on_bad_tags: what to do about labels that the scheme forbids or cannot read: "error" refuses them, "repair"
                reads them as seqeval does, "drop" leaves their sentences out; what was done is a `DataWarning`.
            lexicon: becomes the model's own (`lexicon_`); matches of its entries of strength feature are learned from.

        """
        if resume and folder is None:
            raise ModelError("resume needs the folder of the training that is to be continued, got none")
        if not self.shares_sentences and current_group().count > 1:
            raise ModelError(
                f"a {type(self).__name__} is not trained by processes with sentences of their own (together)"
            )
        if folder is None or isinstance(folder, ModelFolder):  # the caller who has locked the folder saves the model
            opened: AbstractContextManager[ModelFolder | None] = nullcontext(folder)
        else:
            opened = training(folder, self.kind, self.kind, resume=resume)
        with opened as model_folder, reporting(progress if current_group().rank == 0 else False) as told:
            options = FitOptions(
                warm_start,
                told,
                folder=None if model_folder is None else model_folder.training,
                on_bad_tags=on_bad_tags,
                tokenizer=tokenizer,
                lexicon=lexicon,
                group=current_group(),
            )
            unchanged = dict(self.__dict__)
            try:
                self._fit(X, y, dev, sentence_weights, options)
            except BaseException:  # a failed fit leaves the tagger as it was
                self.__dict__ = unchanged
                raise
            if model_folder is not None and model_folder is not folder:
                retry_on_interrupt(lambda: model_folder.save(self))
        return self

    def _fit(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[Label]] | None,
        dev: Supervised | None,
        sentence_weights: Sequence[float] | None,
        options: FitOptions,
    ) -> None:
        """Check the data and learn; of a corpus that is not in memory, the data here are a sample."""
        stream = self._stream(X, y, sentence_weights, options)
        if stream is not None:
            data = stream.sample
        else:
            corpus = Labelled.of(X, y).shared_by(options.group)
            data, remaining = mended(corpus, self._scheme_asked, options.on_bad_tags)
            data = data.shared_by(options.group)
            if sentence_weights is not None:
                weights = plain_array(sentence_weights, np.float64)
                check_sentence_weights(weights, len(corpus.inputs))
                options = replace(options, sentence_weights=weights[remaining])
        if not data.inputs:
            raise ModelError("there is nothing to learn from: the corpus has no sentence")
        held_out = None
        if dev is not None:
            is_pair = isinstance(dev, tuple) and len(dev) == 2 and not isinstance(dev[0], Sentence)
            held_out = Labelled.of(*dev) if is_pair else Labelled.of(dev)
        if held_out is not None and options.on_bad_tags != "error":  # read by the scheme of the training data
            held_out, _ = mended(held_out, data.detect(self._scheme_asked).scheme.value, options.on_bad_tags)
        options = replace(options, stream=stream)
        tokenizer = tokenizer_for(options.tokenizer or getattr(self.config, "tokenizer", None), data.inputs)
        if options.folder is not None:
            tokenizer.to_dict()  # what cannot be stored is refused before the training, not after it
            # The folder is told which training this is, so that no other one continues it.
            if self.free_settings is None:  # it learns in one go
                options.folder.identify()
            else:
                start = self._state()[1] if self._goes_on(options) else None
                options.folder.identify(
                    settings={k: v for k, v in config.flat(self.config).items() if k not in self.free_settings},
                    data=training_fingerprints(data, held_out, options, start, ordered=not self.shares_sentences),
                )
        self._take_lexicon(options)
        self._learn(self._seen(data, learn=True), None if held_out is None else self._seen(held_out), options)
        self.tokenizer_ = tokenizer
        sizes = options.group.gather((len(data.inputs), int(data.lengths.sum()))) if stream is None else [stream.size]
        self.learned_from_ = sum(one for one, _ in sizes), sum(one for _, one in sizes)

    def _take_lexicon(self, options: FitOptions) -> None:
        """Make the lexicon that is given, or that the settings name, the model's own."""
        path = getattr(self.config, "lexicon", None)
        lexicon, goes_on = options.lexicon, self._goes_on(options)
        if lexicon is None and path is not None:
            lexicon = Lexicon.read(path, strength="feature")
        if lexicon is None and goes_on:
            return
        labels = () if lexicon is None else lexicon.feature_labels
        if labels and not self.learns_lexicons:
            raise ModelError(
                f"a {type(self).__name__} with these settings does not learn from a lexicon: give its entries the "
                "strength prefer or must"
            )
        if goes_on and labels != self.lexical_:
            raise ModelError("a model that learns on needs a lexicon with the labels of its first one")
        self.lexicon_, self.lexical_ = lexicon, labels

    def _goes_on(self, options: FitOptions) -> bool:
        """Whether learning starts from what was learned before."""
        return options.warm_start and self.__sklearn_is_fitted__()

    def _seen(self, data: Labelled, *, learn: bool = False) -> Labelled:
        """The data as the model sees them, to `learn` from or not: matches of names depend on it."""
        gold = None
        if self.lexical_ and learn and not data.partial:
            gold = spans_with_surfaces(data.inputs, data.strings(), data.detect(self._scheme_asked))
        return replace(data, inputs=self._prepared(data.inputs, self._lexicons("own"), self.config, gold))

    def _prepared(
        self,
        inputs: Sequence[Any],
        lexicons: Sequence[Lexicon],
        settings: C | None = None,
        gold: Sequence[Sequence[Any]] | None = None,
    ) -> Sequence[Any]:
        """The inputs as the model sees them, with the matches of lexicons if it has learned from these.

        `settings` are those of a training that has just begun; None: those that a fitted model was trained with.
        """
        seen = folded(inputs) if getattr(settings or self.settings_, "fold_width", False) else inputs
        return with_columns(seen, inputs, lexicons, self.lexical_, gold) if self.lexical_ else seen

    @property
    def _scheme_asked(self) -> str | None:
        return getattr(self.config, "scheme", None)

    # What a family provides

    @abstractmethod
    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        """Learn from checked data; sets `tagset_`, `settings_`, `history_` and what `_scores` needs."""

    @abstractmethod
    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        """Scores of the inputs, by a fitted model."""

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], Arrays]:
        """Manifest entries and arrays, from which `_restore` makes the model again."""

    @abstractmethod
    def _restore(self, stored: store.Stored) -> None:
        """The inverse of `_state`, for a file that may contain anything; `tagset_` and `settings_` exist already."""

    # What a family may override

    def _extent(self) -> str:
        """How much a fitted model consists of, for people."""
        return ""

    def _state_labels(self) -> IntArray | None:
        """The label of each state of a fitted model's chain; None if the states are the labels."""
        return None

    def _scores_per_token(self) -> int:
        """How many scores a token of a fitted model's chain has: with more of them, fewer sentences make a block."""
        state_labels = self._state_labels()
        return len(self._fitted_tags() if state_labels is None else state_labels)

    def _folds_itself(self) -> bool:
        """Whether `_scores` takes inputs as they are given, and folds full-width forms on its own."""
        return False

    def _decoded(self, inputs: Sequence[Any]) -> list[list[str]] | None:
        """The best labels of inputs as they are given, found faster than by a posterior; None if it must be asked."""
        return None

    @property
    def learns_lexicons(self) -> bool:
        """Whether matches of a lexicon can be features."""
        return False

    def _stream(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[Label]] | None,
        sentence_weights: Sequence[float] | None,
        options: FitOptions,
    ) -> Any:
        """A stream for `_learn`, if `X` is a corpus that is never in memory as a whole; None otherwise.

        Of a stream, `sample` are some sentences with the label facts of all; it has a `fingerprint`, and a `size` in
        sentences and tokens.
        """
        return None

    # Answers

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
        labels: list[list[str]] = []
        plain = known is None and not self._lexicons(lexicon)
        for inputs, given, first in self._blocks(X, known, lexicon):
            best = self._decoded(inputs) if plain else None
            labels += self._posterior(inputs, given, first, lexicon=lexicon).best() if best is None else best
        return labels

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
        self, texts: Iterable[Text], *, sentences: bool = False, lexicon: LexiconOption = "own"
    ) -> list[Tagged]: ...
    def __call__(
        self, texts: str | Sentence | Iterable[Text], *, sentences: bool = False, lexicon: LexiconOption = "own"
    ) -> Tagged | list[Tagged]:
        """Tag a raw text, or each of a list of raw texts, split by `tokenizer_`; see `annotate`."""
        if isinstance(texts, str | Sentence):
            return self.annotate([texts], sentences=sentences, lexicon=lexicon)[0]
        return self.annotate(texts, sentences=sentences, lexicon=lexicon)

    def annotate(
        self,
        texts: Iterable[Text],
        *,
        known: Known | None = None,
        sentences: bool = False,
        lexicon: LexiconOption = "own",
    ) -> list[Tagged]:
        """Tags, their probabilities and the spans by character of raw texts, sentences or token lists.

        `known` and `lexicon` are as in `posterior`. With `sentences`, each raw text is split into sentences, which are
        tagged one by one; the answer is about the whole text, with offsets in it.
        """
        items = listed(texts)
        how = splitter(self.tokenizer_)
        if len(items) > 1 and how.separator and all(isinstance(one, str) and len(one.split()) == 1 for one in items):
            warn(
                f"these are {len(items)} texts of one word each, {some_of(items)}: if they are the words of one "
                "sentence, call predict([words]) or annotate([words])"
            )
        if sentences:
            if known is not None:
                raise ModelError("known labels belong to the tokens of one sentence: leave out sentences=True")
            return documents(items, partial(self.annotate, lexicon=lexicon))
        inputs, raw = inputs_of(items, how, with_gaps=cuts_words(self._fitted_tags(), how))
        blocks = self._posteriors(inputs, known, [isinstance(item, str) for item in items], lexicon)
        return [one for b in blocks for one in b.annotate(raw[b.first : b.first + len(b)], separator=how.separator)]

    @overload
    def cut(  # type: ignore[overload-overlap]
        self, texts: str, *, tags: Literal[False] = ..., lexicon: LexiconOption = ...
    ) -> list[str]: ...
    @overload
    def cut(  # type: ignore[overload-overlap]
        self, texts: str, *, tags: Literal[True], lexicon: LexiconOption = ...
    ) -> list[tuple[str, str]]: ...
    @overload
    def cut(
        self, texts: Iterable[str], *, tags: Literal[False] = ..., lexicon: LexiconOption = ...
    ) -> list[list[str]]: ...
    @overload
    def cut(
        self, texts: Iterable[str], *, tags: Literal[True], lexicon: LexiconOption = ...
    ) -> list[list[tuple[str, str]]]: ...
    def cut(self, texts: str | Iterable[str], *, tags: bool = False, lexicon: LexiconOption = "own") -> list[Any]:
        """The words of a raw text, or of each of a list of raw texts, by a model that segments characters.

        White space is no part of any word. With `tags`, each word is a pair with its tag, if the model finds both.
        """
        labels, how = self._fitted_tags(), splitter(self.tokenizer_)
        if not self.makes_words:
            raise ModelError(
                "cut needs a model that makes words of characters, with labels such as B, M, E, S for each of them: "
                f"this one has {some_of(labels.labels)}, and tagger(text) gives its spans"
            )
        if tags and segments(labels):
            raise ModelError("the labels of this model only say where words begin and end: it has no tags of words")
        given = [texts] if isinstance(texts, str) else listed(texts)
        for number, text in enumerate(given if {*map(type, given)} - {str} else ()):
            if not isinstance(text, str):
                raise DataError(f"text {number} must be a string, got {shown(text)}")
        if not how.covers:  # what lies between its tokens may be part of a word
            tagged = self(given, lexicon=lexicon)
            found = [[(span.text, span.label) if tags else span.text for span in one] for one in tagged]
            return found[0] if isinstance(texts, str) else found
        tokens = [how.split(text) for text in given]
        # Words end at white space inside a text, which only a posterior knows; `predict` is faster for other texts.
        pairs = enumerate(zip(given, tokens, strict=True))
        gapped = {i for i, (text, own) in pairs if len(own) != len(text) and len(text.split(None, 1)) > 1}
        best = self.predict([own for i, own in enumerate(tokens) if i not in gapped], lexicon=lexicon)
        numbers = sorted(gapped)
        blocks = self._posteriors([how.sentence(given[i]) for i in numbers], None, [True] * len(numbers), lexicon)
        for i, path in zip(numbers, (path for block in blocks for path in block.best()), strict=True):
            best.insert(i, path)
        numbered = {label: number for number, label in enumerate(labels.labels)}
        kinds = [kind for _, kind in labels.parsed] if tags else None
        words = _native.cut_words(given, tokens, best, numbered, labels.span_steps()[0], kinds)
        return words[0] if isinstance(texts, str) else words

    def answers(
        self,
        X: Iterable[Any],
        *,
        known: Known | None = None,
        lexicon: LexiconOption = "own",
        token_probabilities: bool = True,
    ) -> Answers:
        """Tags, probabilities and spans of sentences or token lists as arrays over all of them; see `annotate`.

        If only spans are of interest, `token_probabilities=False` leaves those of tokens empty, and is faster.
        """
        posteriors = self._posteriors(X, known, lexicon=lexicon)
        blocks = [block.answers(token_probabilities=token_probabilities) for block in posteriors]
        return Answers.joined(blocks or [self.posterior([]).answers()])

    def transitions(self) -> TransitionTable:
        """How the model scores a label (across) after another one (down); it is a heat map in notebooks."""
        scores = self.chain_scores([]).transitions
        states = self.__dict__.get("states_")
        names = self.labels_ if states is None else states.names
        if len(names) != len(scores):
            raise ModelError("the states of this model are not its labels, so its transitions have no names")
        return TransitionTable(names, tuple(map(tuple, scores.tolist())))

    def explain(self, sentence: Text, position: int) -> Explanation:
        """Why the token at `position` got its label: the scores that spoke for it and for the runner-up.

        The runner-up is the best labelling of the sentence with another label there; the differences of all scores
        add up to the difference of the two labellings.
        """
        return self.posterior([self._sentence(sentence)]).explain(0, position)

    def trellis(self, sentence: Text, *, k: int = 3) -> LatticeView:
        """All labels of all tokens with their probabilities, and the `k` best paths, to be drawn."""
        return self.posterior([self._sentence(sentence)]).trellis(k=k)

    def marginals(
        self, X: Iterable[Any], *, known: Known | None = None, lexicon: LexiconOption = "own"
    ) -> list[FloatArray]:
        """For each input ``(T, L)``: the exact probability of each label (in the order of `labels_`) at each token."""
        return [answer for block in self._posteriors(X, known, lexicon=lexicon) for answer in block.marginals()]

    def kbest(
        self, X: Iterable[Any], k: int, *, known: Known | None = None, lexicon: LexiconOption = "own"
    ) -> list[list[Labelling]]:
        """The k most probable labellings of each input, best first; fewer if fewer exist."""
        return [answer for block in self._posteriors(X, known, lexicon=lexicon) for answer in block.kbest(k)]

    def sequence_probabilities(self, X: Iterable[Any], y: Iterable[Sequence[str]] | None = None) -> FloatArray:
        """The probability of the given labels of each input, taken as a whole."""
        data = Labelled.of(X, y)
        labels = data.strings()
        blocks = self._posteriors(data.inputs)
        parts = [block.probabilities(labels[block.first : block.first + len(block)]) for block in blocks]
        return np.concatenate([np.empty(0), *parts])

    def span_probabilities(
        self, X: Iterable[Any], spans: Sequence[Sequence[Span]] | None = None
    ) -> list[list[ScoredSpan]]:
        """Exact probabilities of the spans that are given for each input, or of those that are predicted."""
        inputs = listed(X)
        if spans is None:
            return [answer for block in self._posteriors(inputs) for answer in block.spans()]
        if len(spans) != len(inputs):
            raise ModelError(f"spans are given for {number_of(len(spans), 'sentence')}, but there are {len(inputs)}")
        parts = ((block, spans[block.first :][: len(block)]) for block in self._posteriors(inputs))
        return [answer for block, part in parts for answer in block.span_probabilities(part)]

    def evaluate(
        self, X: Iterable[Any], y: Iterable[Sequence[str]] | None = None, *, lexicon: LexiconOption = "own"
    ) -> Scores:
        """Scores of the predicted labels against the true ones."""
        data = Labelled.of(X, y)
        return label_scores(data.strings(), self.predict(data.inputs, lexicon=lexicon), self._fitted_tags())

    def score(self, X: Iterable[Any], y: Iterable[Sequence[str]] | None = None) -> float:
        """One number for model selection: F1 of spans, or accuracy for plain tags."""
        return headline(self.evaluate(X, y))

    @property
    def makes_words(self) -> bool:
        """Whether its tokens are characters, and its labels say which of them are words, and maybe what these are."""
        return cuts_words(self._fitted_tags(), splitter(self.tokenizer_))

    @property
    def labels_(self) -> tuple[str, ...]:
        """The labels, in the order of their ids."""
        return self._fitted_tags().labels

    def _fitted_tags(self) -> TagSet:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit or load first")
        return self.tagset_

    def _lexicons(self, lexicon: LexiconOption) -> list[Lexicon]:
        """The lexicons that count: the model's own, and the one that is given."""
        if lexicon is not None and lexicon != "own" and not isinstance(lexicon, Lexicon):
            raise ModelError(f"lexicon must be a Lexicon, 'own' or None, got {shown(lexicon)}")
        candidates = (None if lexicon is None else self.lexicon_, lexicon)
        return [one for one in candidates if isinstance(one, Lexicon)]

    def _posteriors(
        self,
        X: Iterable[Any],
        known: Known | None = None,
        raw: Sequence[bool] | None = None,
        lexicon: LexiconOption = "own",
    ) -> Iterator[Posterior]:
        """The posteriors of the inputs, block by block."""
        for inputs, given, first in self._blocks(X, known, lexicon):
            is_raw = None if raw is None else raw[first : first + len(inputs)]
            yield self._posterior(inputs, given, first, is_raw, lexicon)

    def _blocks(
        self, X: Iterable[Any], known: Known | None, lexicon: LexiconOption
    ) -> Iterator[tuple[Sequence[Any], Labelled | None, int]]:
        """Blocks, so that memory does not grow with the inputs: inputs, known labels, and the number of the first."""
        labels = len(self._fitted_tags())
        cells = self._scores_per_token() * (_TRACKS if self._lexicons(lexicon) else 1)
        inputs, size = listed(X), sentences_at_once(labels, cells)
        given = None if known is None else Labelled.of(inputs, known)
        for i in range(0, len(inputs), size):
            yield inputs[i : i + size], None if given is None else given.part(i, i + size), i

    def _posterior(
        self,
        inputs: Sequence[Any],
        known: Labelled | None,
        first: int,
        raw: Sequence[bool] | None = None,
        lexicon: LexiconOption = "own",
    ) -> Posterior:
        """The scores of the family, restricted by known labels and by white space, with what lexicons say."""
        tags, states, lexicons = self._fitted_tags(), self._state_labels(), self._lexicons(lexicon)
        scores = self._scores(self._for_scores(inputs, lexicons))
        allowed = None if known is None else known.allowed(tags)
        if allowed is not None:
            scores = scores.restricted(allowed if states is None else allowed[:, states])
        gaps = gaps_of(inputs, raw) if raw is not None and any(raw) and self.makes_words else None
        alone = scores if gaps is None else cut_at_gaps(scores, gaps, tags, states)
        if not lexicons:
            return Posterior(alone, tags, states, inputs, first)

        def name(b: int) -> str:
            return name_of(first + b, inputs[b])

        chains = apply_lexicons(lexicons, inputs, scores, tags, states, known=allowed, gaps=gaps, name=name)
        return Posterior(alone, tags, states, inputs, first, *chains)

    def _for_scores(self, inputs: Sequence[Any], lexicons: Sequence[Lexicon]) -> Sequence[Any]:
        """The inputs as `_scores` takes them."""
        return inputs if self._folds_itself() and not self.lexical_ else self._prepared(inputs, lexicons)

    def _sentence(self, item: Text) -> Sentence:
        if isinstance(item, str):
            return splitter(self.tokenizer_).sentence(item)
        return item if isinstance(item, Sentence) else Sentence(item)

    # Files and copies

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        tags = self._fitted_tags()
        manifest, arrays = self._state()
        manifest |= {"config": config.to_dict(self.settings_), "labels": list(tags.labels)}
        manifest |= {"scheme": tags.scheme.value, "style": tags.style.value}
        manifest["tokenizer"] = splitter(self.tokenizer_).to_dict()
        if self.lexicon_ is not None:
            manifest["lexicon"], lexicon_arrays = self.lexicon_.to_stored()
            arrays |= lexicon_arrays
        if self.lexical_:
            manifest["lexical"] = list(self.lexical_)
        if self.learned_from_ is not None:
            manifest["learned_from"] = list(self.learned_from_)
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
            settings = config.from_dict(cls.config_class, fields.table("config").values)
        except ConfigError as error:
            problem = "the saved model has settings that this version of Trellis does not know"
            raise StoreError(f"{stored.where}: {problem}: {error}") from None
        labels = fields.texts("labels")
        scheme = Scheme(fields.choice("scheme", [scheme.value for scheme in Scheme]))
        style = Style(fields.choice("style", [style.value for style in Style]))
        if not labels:
            raise StoreError(f"{stored.where}: the saved model has no labels")
        model = cls(settings)
        model.settings_ = settings
        try:
            model.tagset_ = TagSet(labels, scheme, style)
        except TagError as error:
            raise StoreError(f"{stored.where}: the saved labels do not fit their scheme: {error}") from None
        model.tokenizer_ = splitter_from_dict(fields.table("tokenizer"))
        model.lexicon_ = Lexicon.from_stored(stored) if "lexicon" in fields else None
        model.lexical_ = tuple(fields.items("lexical", str, type(None))) if "lexical" in fields else ()
        if "learned_from" in fields:
            counts = fields.items("learned_from", int)
            model.learned_from_ = (counts[0], counts[-1]) if counts else None
        model._restore(stored)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Plain values and arrays, for copies between processes; files are written by `save`."""
        state: dict[str, Any] = {"config": self.config}
        if hasattr(self, "_sklearn_output_config"):
            state["output"] = self._sklearn_output_config
        if not self.__sklearn_is_fitted__():
            return state
        learned = {name: self.__dict__[name] for name in _LEARNED if name in self.__dict__}
        return {**state, "learned": learned, "state": self._state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The inverse of `__getstate__`."""
        self.__init__(state["config"])  # type: ignore[misc]
        self.set_output(**state.get("output", {}))
        if "learned" in state:
            self.__dict__.update(state["learned"])
            self._restore(store.Stored.of("the pickled model", self.kind, *state["state"]))

    # What scikit-learn asks for

    def transform(self, X: Iterable[Any]) -> Any:
        """The exact probability of each label at each token, as features for another model.

        One array ``(T, L)`` per sentence; after ``set_output(transform="pandas")`` one frame with a row per token,
        whose index is (sentence, position) and whose columns are the labels.
        """
        probabilities = self.marginals(X)
        if getattr(self, "_sklearn_output_config", {}).get("transform", "default") == "default":
            return probabilities
        with required("set_output(transform='pandas')", "pandas", instead="'default' gives arrays"):
            import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]

        lengths = [len(rows) for rows in probabilities]
        sentences = np.repeat(np.arange(len(lengths)), lengths)
        positions = np.concatenate([[], *map(np.arange, lengths)]).astype(int)
        index = pandas.MultiIndex.from_arrays([sentences, positions], names=["sentence", "position"])
        rows = np.concatenate([np.empty((0, len(self.labels_))), *probabilities])
        return pandas.DataFrame(rows, index=index, columns=list(self.labels_))

    def get_feature_names_out(self, input_features: object = None) -> AnyArray:
        """The labels: what the columns of `transform` are; `input_features` is ignored."""
        return np.array(self.labels_, dtype=object)

    def set_output(self, *, transform: Literal["default", "pandas"] | None = None) -> Self:
        """Choose what `transform` gives: "default" arrays, or a "pandas" frame; None changes nothing."""
        if transform is not None:
            if transform not in ("default", "pandas"):
                raise ConfigError(f"set_output: transform must be one of default, pandas, got {shown(transform)}")
            self._sklearn_output_config = {"transform": transform}
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is anything to predict with."""
        return hasattr(self, "tagset_")

    def __sklearn_tags__(self) -> Any:
        """The tags that scikit-learn's pipelines and searches read: it learns from labels, and takes token lists."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        # No kind of estimator: "classifier" would split the data by label, and a label here is a whole sequence.
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True, one_d_labels=False),
            input_tags=InputTags(two_d_array=False, string=True),
            transformer_tags=TransformerTags(),
        )

    @property
    def classes_(self) -> list[str]:
        """The labels, as scikit-learn calls them."""
        return list(self.labels_)


def sentences_at_once(labels: int, cells: int) -> int:
    """Sentences that are answered at a time: the fewer, the more scores a token has than labels."""
    return max(1, _BLOCK * labels // cells)

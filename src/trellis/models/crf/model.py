"""The classical linear-chain CRF: state and transition features with weights, trained on the CPU.

    model = CRF(features="ner", c2=0.1).fit(sentences)
    model.tag([["She", "lives", "in", "Paris"]])
    print(model.explain(["She", "lives", "in", "Paris"], 3).to_markdown())

Features come from templates (``features="ner" | "pos" | "chunk" | "seg"``, or a template file), or are given
for each token (``features="given"``) as lists of strings or as the dicts that sklearn-crfsuite takes. Objective,
defaults and stopping tests are CRFsuite's; scheme constraints, on by default, are what it does not have.

An attribute of a token has weights for labels. An attribute of the step into a token, made by a template that starts
with B or *, has weights for pairs of labels: that of the token before and its own. A pair (i, j) of L labels is written
as one number, i * L + j, so that both are the same kind of table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt

from trellis import _native, chain
from trellis.arrays import Arrays, BoolArray, FloatArray, IntArray, plain_array
from trellis.config import Rule, check, setting
from trellis.corpus import Shards
from trellis.errors import ConfigError, ModelError, StoreError, TemplateError, number_of
from trellis.features import (
    AttributeIndex,
    Clusters,
    Compiled,
    Extractor,
    GivenExtractor,
    TemplateExtractor,
    Templates,
    get_templates,
)
from trellis.lazy import cached
from trellis.lexicon.features import name_of_column
from trellis.models.answers import TransitionTable
from trellis.models.data import (
    MOST_PAIRS,
    TOKENIZER,
    Label,
    Labelled,
    history_chain,
    labels_of_histories,
    learned_states,
    learned_tag_set,
    stored_pairs,
    stored_states,
    tokens_of,
)
from trellis.models.posterior import Explanation, Part, Step, explain
from trellis.models.tagger import FitOptions, Tagger
from trellis.ragged import check_lengths
from trellis.results import Grid, Report
from trellis.store import Stored, narrowed
from trellis.tags import StateMap
from trellis.text import FOLDED_POINTS
from trellis.training.process_group import ProcessGroup

if TYPE_CHECKING:
    from trellis.models.crf.out_of_core import CompiledCorpus
    from trellis.models.crf.training import FeatureSelection


SUMMED = ("lbfgs", "owlqn")
"""Algorithms that only ask for the loss and the gradient of all sentences."""
MISTAKE_DRIVEN = ("ap", "pa", "arow")
"""Algorithms that learn from mistakes only: they have no regularisation, and no probabilities to weight tokens by."""
_LARGE = 50_000  # tokens
_PRUNED = 1e-3  # of the largest weight: see docs/performance.md for what it changes


_RULES: list[Rule] = [
    ("c1 c2 min_freq epsilon delta checkpoint_seconds", "a finite number >= 0", lambda x: x >= 0),
    ("learning_rate aggressiveness variance gamma", "a finite number > 0", lambda x: x > 0),
    ("prune", "at least 0 and below 1", lambda x: 0 <= x < 1),
    ("pairs", f"at most {MOST_PAIRS}", lambda x: x <= MOST_PAIRS),
    ("pa_type", "0, 1 or 2", lambda x: x in (0, 1, 2)),
    ("pairs period max_iterations", "at least 0", lambda x: x >= 0),
    ("patience memory max_linesearch batch_size", "at least 1", lambda x: x >= 1),
]


@dataclass(frozen=True)
class CRFConfig:
    """Settings of a feature CRF; the defaults are those of CRFsuite if it has the setting."""

    features: str = setting(
        "ner", "ner, pos, chunk, seg, the path of a template file, or given: the inputs are features"
    )
    vectors: str | None = setting(
        None, "file of word vectors (GloVe, word2vec or fastText); clusters of words become features (%cluster)"
    )
    lexicon: str | None = setting(None, "file of a lexicon: matches of its words and names become features")
    algorithm: Literal["lbfgs", "owlqn", "sgd", "ap", "pa", "arow"] = setting(
        "lbfgs", "lbfgs (L2), owlqn (L1 and L2), sgd, ap (averaged perceptron), pa (passive-aggressive), or arow"
    )
    c1: float = setting(0.0, "coefficient of |w|_1; above 0, lbfgs becomes owlqn")
    c2: float = setting(1.0, "coefficient of |w|^2; ap, pa and arow have none")
    max_iterations: int | None = setting(
        None, "at most this many; default: no limit for lbfgs and owlqn, 50 for sgd, 20 for the others"
    )
    epsilon: float = setting(1e-5, "lbfgs, owlqn: stop when |gradient| < epsilon * max(1, |w|)")
    delta: float | None = setting(
        None,
        "lbfgs, owlqn, sgd: stop when the loss fell by less than this share over `period` iterations;\n"
        "default: 1e-5, for sgd 1e-3",
    )
    period: int | None = setting(None, "see delta; default: 10, for sgd 5")
    memory: int = setting(6, "lbfgs, owlqn: steps remembered")
    max_linesearch: int = setting(20, "lbfgs, owlqn: trials of a step length")
    batch_size: int = setting(8, "sgd: sentences per step")
    learning_rate: float | None = setting(None, "sgd: first step length; default: found on a sample")
    pa_type: int = setting(1, "pa: 0 without slack, 1 with slack that costs its size, 2 its square")
    aggressiveness: float = setting(1.0, "pa of type 1 and 2: how far one sentence may move the weights")
    error_sensitive: bool = setting(True, "pa: the margin grows with the number of wrong labels")
    averaging: bool = setting(True, "pa: the mean of the weights over all sentences, as in ap")
    variance: float = setting(1.0, "arow: of each weight at first")
    gamma: float = setting(1.0, "arow: the larger, the smaller the steps")
    min_freq: float = setting(0.0, "features that occur less often get no weight")
    all_possible_states: bool = setting(False, "weights also for attributes with labels they never occur with")
    all_possible_transitions: bool = setting(False, "weights also for transitions that never occur")
    order: Literal[1, 2] = setting(1, "how many labels before it a label depends on")
    pairs: int = setting(
        300,
        "order 2: how many pairs of labels, the most common ones, have a state of their own instead of a shared one",
    )
    all_possible_edges: bool = setting(
        False, "B and * lines with %: weights also for pairs of labels that never occur with the attribute"
    )
    scheme: str | None = setting(None, "tag scheme, e.g. bio; default: the one that fits the labels best")
    learn_scheme: str | None = setting(
        None, "tag scheme to learn in, e.g. bio; data: that of the data; default: bioes, for words bmes"
    )
    constraints: bool = setting(True, "forbid what the scheme forbids, in training and in tagging")
    label_weights: Mapping[str, float] | None = setting(None, "how much tokens of a label count; 1 unless given")
    patience: int | None = setting(
        20, "stop after this many iterations without a better score on the held-out data, once there was one above 0"
    )
    precision: Literal["auto", "single", "double"] = setting(
        "auto",
        "lbfgs, owlqn: of scores and marginals (sums are always double); auto: single for large corpora unless\n"
        "epsilon or delta is below 1e-6",
    )
    prune: float | None = setting(
        None,
        "weights below this share of the largest are left out when training ends; default: 1e-3 for a model that is\n"
        "trained in single precision, whose weights are single too, else 0",
    )
    out_of_core: bool = setting(
        False,
        "lbfgs, owlqn: read the sentences once, block by block, and keep what training needs of them on disk;\n"
        "always so for Shards and --stream",
    )
    scratch: str | None = setting(
        None,
        "out_of_core: folder of the file for that; default: the folder of the model, else the one for temporary files",
    )
    checkpoint_seconds: float = setting(60.0, "in a folder: seconds between the states from which --resume continues")
    seed: int = setting(0, "of the shuffling of sgd, ap, pa and arow")
    fold_width: bool = setting(True, "full-width and half-width forms are the same to the model")
    tokenizer: str | None = setting(None, TOKENIZER)

    def __post_init__(self) -> None:
        check(self, _RULES)


# Tests by which an algorithm stops unless it is told otherwise.
_STOPPING: dict[str, dict[str, Any]] = {
    "lbfgs": {"delta": 1e-5, "period": 10},
    "owlqn": {"delta": 1e-5, "period": 10},
    "sgd": {"max_iterations": 50, "delta": 1e-3, "period": 5},
    "ap": {"max_iterations": 20},
    "pa": {"max_iterations": 20},
    "arow": {"max_iterations": 20},
}


def resolved(config: CRFConfig, states: StateMap, tokens: int) -> CRFConfig:
    """The settings that a training on this many tokens uses, with a value for everything that was left unset.

    Only the first step length of sgd is still unset if it was: it is found during the training.
    """
    algorithm = "owlqn" if config.algorithm == "lbfgs" and config.c1 else config.algorithm
    stopping = {name: value for name, value in _STOPPING[algorithm].items() if getattr(config, name) is None}
    scheme, learned = (one.value.lower() for one in (states.tags.scheme, states.scheme))
    config = replace(config, algorithm=algorithm, scheme=scheme, learn_scheme=learned, **stopping)
    single = config.precision == "single"
    if config.precision == "auto":
        # Single precision leaves the loss exact to about 1e-8, which is enough unless the stopping tests are finer.
        finest = config.epsilon if config.delta is None else min(config.epsilon, config.delta)
        single = tokens >= _LARGE and finest >= 1e-6
    prune = config.prune if config.prune is not None else _PRUNED if single else 0.0
    return replace(config, precision="single" if single else "double", prune=prune)


_WORDS = 100_000  # of a file of vectors, besides those of the training sentences


@dataclass(frozen=True, eq=False)
class AttributeWeights:
    """Weights of pairs (attribute, label), attribute by attribute."""

    index: AttributeIndex
    ends: IntArray  # [A] where the pairs of an attribute end
    labels: npt.NDArray[np.uint16]  # [pairs]
    weights: FloatArray | npt.NDArray[np.float32]  # [pairs]
    width: int  # how many labels there are

    @cached
    def ready(self) -> _native.Weights:
        """The weights of pairs as scoring looks them up; made when first asked for."""
        return _native.Weights(self.ends, self.labels, self.weights.astype(np.float64, copy=False), self.width)

    @property
    def owners(self) -> IntArray:
        """The attribute of each pair."""
        return owners_of(self.ends)

    def of(self, attribute: int) -> dict[int, float]:
        """The weights of one attribute by label."""
        pairs = slice(int(self.ends[attribute - 1]) if attribute else 0, int(self.ends[attribute]))
        return dict(zip(self.labels[pairs].tolist(), self.weights[pairs].tolist(), strict=True))

    def single(self) -> Self:
        """These weights rounded to single precision, in half the space."""
        return replace(self, weights=self.weights.astype(np.float32))

    def pruned(self, share: float = 0.0) -> Self:
        """The weights without those below this share of the largest, and without attributes that lose all of theirs."""
        sizes = np.abs(self.weights)
        large = (sizes > 0.0) & (sizes >= share * sizes.max(initial=0.0))
        if large.all() and (np.diff(self.ends, prepend=0) > 0).all():
            return self
        counts = np.bincount(self.owners[large], minlength=len(self.ends))
        used = np.flatnonzero(counts)
        ends, labels, weights = np.cumsum(counts[used]), self.labels[large], self.weights[large]
        return replace(self, index=self.index.select(used), ends=ends, labels=labels, weights=weights)


@dataclass(frozen=True, slots=True, eq=False)
class HistoryWeights:
    """Pairs of labels that have their own state, and the weights of the labels after them."""

    pairs: IntArray  # [P, 2]
    rows: FloatArray  # [P, L] 0 where there is no weight
    weighted: BoolArray  # [P, L]


@dataclass(frozen=True, eq=False)
class CRFWeights(AttributeWeights):
    """All weights of a CRF: of the attributes of tokens, of transitions and, as `edges`, of the attributes of steps."""

    transitions: FloatArray  # [L, L]; minus infinity is forbidden
    weighted: BoolArray  # [L, L] which transitions have a weight; the others score 0
    start: FloatArray  # [L] 0, or minus infinity if no sentence may begin so
    end: FloatArray  # [L]
    edges: AttributeWeights | None = None  # of pairs of labels
    histories: HistoryWeights | None = None  # with order 2

    @property
    def state_labels(self) -> IntArray | None:
        """``(S,)`` the label of each state of the chain, with order 2."""
        return None if self.histories is None else labels_of_histories(self.histories.pairs, self.width)

    def single(self) -> Self:
        return replace(super().single(), edges=None if self.edges is None else self.edges.single())

    def pruned(self, share: float = 0.0) -> Self:
        return replace(super().pruned(share), edges=None if self.edges is None else self.edges.pruned(share))


class Earlier(NamedTuple):
    """The weights and states of a model that learning continues from."""

    weights: CRFWeights
    states: StateMap


def scores_per_token(states: int, *, steps: bool) -> int:
    """The number of scores that a token of the chain has."""
    return states * (states + 1) if steps else states


def owners_of(ends: IntArray) -> IntArray:
    """The attribute of each pair, given where the pairs of an attribute end."""
    return np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))


@dataclass(frozen=True, eq=False, slots=True)
class Observed:
    """Sentences as numbered attributes of their tokens, and of the steps between them if there are such."""

    tokens: Compiled
    steps: Compiled | None = None

    @classmethod
    def of(
        cls,
        extractor: Extractor,
        inputs: Sequence[Any],
        index: AttributeIndex,
        edges: AttributeIndex | None,
        *,
        grow: bool = False,
    ) -> Observed:
        """Compile inputs with the numbers of `index` and, for steps, of `edges`; new attributes get one with `grow`."""
        tokens = extractor.compile(inputs, index, grow=grow)
        return cls(tokens, None if edges is None else extractor.compile_edges(inputs, edges, grow=grow))

    def scores(self, p: CRFWeights) -> chain.ChainScores:
        emissions = np.empty((self.tokens.tokens, p.width))
        _native.score_dataset(self.tokens, p.ready, emissions)
        return chained(emissions, check_lengths(np.diff(self.tokens.offsets)), p, self.steps)


def chained(emissions: FloatArray, lengths: IntArray, p: CRFWeights, steps: Compiled | None) -> chain.ChainScores:
    """The chain of these emissions with the transitions of the model, and the scores of steps if there are such."""
    if p.histories is not None:
        pairs, labels = p.histories.pairs, p.state_labels
        rows = p.transitions[pairs[:, 1]] + p.histories.rows
        start, transitions = history_chain(pairs, p.start, p.transitions, rows, -np.inf)
        return chain.ChainScores(emissions[:, labels], lengths, transitions, start, p.end[labels])
    edges = None
    if p.edges is not None and steps is not None:
        edges = np.empty((int(np.maximum(lengths - 1, 0).sum()), p.width, p.width))
        _native.score_edges(steps, p.edges.ready, edges)
    return chain.ChainScores(emissions, lengths, p.transitions, p.start, p.end, edges)


def to_stored(p: CRFWeights, extractor: Extractor, states: StateMap) -> tuple[dict[str, Any], Arrays]:
    """The manifest and the arrays of a model file."""
    templates = None
    if isinstance(extractor, TemplateExtractor):
        templates = {"name": extractor.templates.name, "text": extractor.templates.text}
    arrays: Arrays = {
        **_arrays(p),
        **({} if p.edges is None else _arrays(p.edges, "edge.")),
        "transitions": p.transitions,
        "weighted": p.weighted.view(np.uint8),
        "start": p.start,
        "end": p.end,
    }
    if p.histories is not None:
        arrays |= {"history.pairs": p.histories.pairs, "history.rows": p.histories.rows}
        arrays["history.weighted"] = p.histories.weighted.view(np.uint8)
    if isinstance(extractor, TemplateExtractor) and extractor.clusters is not None:
        arrays |= extractor.clusters.arrays()
    return {"templates": templates, "learn_scheme": states.scheme.value}, arrays


def from_stored(stored: Stored, L: int, lexicon: Sequence[str] = ()) -> tuple[CRFWeights, Extractor]:
    """The inverse of `to_stored`, for L states and these columns of a lexicon."""
    templates = stored.manifest.optional_table("templates")
    extractor: Extractor = GivenExtractor()
    if templates is not None:
        try:
            parsed = Templates.parse(templates.text("text"), name=templates.text("name"))
            extractor = TemplateExtractor(parsed, Clusters.from_stored(stored), lexicon)
        except TemplateError as error:
            raise StoreError(f"{stored.where}: the manifest: the field 'templates': {error}") from None
    forbidden, edges, histories = -np.inf, None, None
    if extractor.step_templates is not None:
        edges = AttributeWeights(*_stored_weights(stored, L * L, "edge.", extractor.step_templates))
    if "history.pairs" in stored:
        pairs = stored_pairs(stored, "history.pairs", L)
        rows = stored.array("history.rows", np.float64, (len(pairs), L))
        has_weight = stored.array("history.weighted", np.uint8, rows.shape, 0, 1).astype(np.bool_)
        histories = HistoryWeights(pairs, rows, has_weight)
    p = CRFWeights(
        *_stored_weights(stored, L, "", extractor.token_templates),
        stored.array("transitions", np.float64, (L, L), forbidden),
        stored.array("weighted", np.uint8, (L, L), 0, 1).astype(np.bool_),
        stored.array("start", np.float64, (L,), forbidden),
        stored.array("end", np.float64, (L,), forbidden),
        edges,
        histories,
    )
    return p, extractor


def _arrays(weights: AttributeWeights, prefix: str = "") -> Arrays:
    single = weights.weights.astype(np.float32)
    return {
        **weights.index.arrays(prefix),
        f"{prefix}pair_counts": narrowed(np.diff(weights.ends, prepend=0)),
        f"{prefix}pair_labels": narrowed(weights.labels),
        f"{prefix}pair_weights": single if np.array_equal(single, weights.weights) else weights.weights,
    }


def _stored_weights(
    stored: Stored, width: int, prefix: str, templates: _native.TemplateSet | None
) -> tuple[AttributeIndex, IntArray, npt.NDArray[np.uint16], FloatArray | npt.NDArray[np.float32], int]:
    """Read what `_arrays` wrote, as the fields of `AttributeWeights`; checked, since native code indexes by them."""
    index = AttributeIndex.from_stored(stored, prefix, templates)
    labels = stored.array(f"{prefix}pair_labels", (np.uint8, np.uint16), (None,), 0, width - 1)
    ends = stored.lengths(f"{prefix}pair_counts", len(labels), len(index))
    weights = stored.array(f"{prefix}pair_weights", (np.float64, np.float32), labels.shape)
    return index, ends, labels.astype(np.uint16, copy=False), weights, width


@dataclass(frozen=True)
class WeightedFeature:
    """One feature of a token, or, with a `previous` label, of the step into it."""

    name: str
    label: str
    weight: float
    words: str
    """The name in plain words: 'previous word is "to"' for U21:to."""
    previous: str | None = None

    @property
    def labels(self) -> str:
        """The label, after that of the token before if the feature is of a step."""
        return self.label if self.previous is None else f"{self.previous} -> {self.label}"


@dataclass(frozen=True)
class FeatureTable(Report):
    """Features, largest weight (by size) first."""

    features: tuple[WeightedFeature, ...]

    def grid(self) -> Grid:
        rows = tuple((f.words, f.labels, f"{f.weight:+.4f}") for f in self.features)
        return Grid("Features", ("feature", "label", "weight"), rows)


@final
class CRF(Tagger[CRFConfig]):
    """Linear-chain CRF over feature templates, or over features that are given, trained on the CPU.

    tagger = trellis.CRF(features="ner", c2=0.1).fit(sentences, dev=held_out)
    tagger("Ada Lovelace lives in London.")        the spans of a text, each with its probability
    tagger.predict([["Ada", "lives", "here"]])     the labels of lists of tokens
    print(tagger.evaluate(test))                   precision, recall and F1
    tagger.save("model.trellis")                   trellis.load opens it again
    print(tagger.explain("Ada lives here.", 0))    what spoke for a label
    """

    kind: ClassVar[str] = "crf"
    shares_sentences: ClassVar[bool] = True
    free_settings: ClassVar[frozenset[str] | None] = frozenset(
        {"max_iterations", "patience", "checkpoint_seconds", "out_of_core", "scratch"}
    )
    config_class: ClassVar[type[Any]] = CRFConfig
    main_settings: ClassVar[tuple[str, ...]] = (
        *(
            "features",
            "c1",
            "c2",
            "algorithm",
            "max_iterations",
            "min_freq",
            "order",
            "vectors",
            "lexicon",
            "tokenizer",
        ),
    )
    parameters_: CRFWeights
    states_: StateMap
    """The states that have weights: the labels, as the scheme that is learned tells them apart."""
    _cached: Extractor | None = None
    _scorer: tuple[CRFWeights, _native.TokenScorer] | None = None
    _labeller: tuple[CRFWeights, _native.Labeller] | None = None

    @property
    def learns_lexicons(self) -> bool:
        return self.config.features not in ("given", "ready")

    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        # Imported here, since tagging does not need it.
        from trellis.models.crf.training import CRFObjective, FeatureObjective, learn

        c, group, earlier, corpus = self.config, options.group, self._earlier(options), options.stream
        if corpus is None:
            extractor = self._extractor() if earlier is not None else self._clustered(data.inputs, group)
            index, edges = _growing(earlier and earlier.weights), _growing(earlier and earlier.weights.edges)
            known = len(index), len(edges)
            observed = Observed.of(extractor, data.inputs, index, edges, grow=True)
            if group.count > 1:
                from trellis.models.crf.out_of_core import renumbered

                index, edges = renumbered(group, observed, (index, edges), known)
                del observed  # before it is made again, with the numbers that all processes share
                observed = Observed.of(extractor, data.inputs, index, edges)
            tags = learned_tag_set(data, c.scheme, c.constraints, earlier and earlier.states.tags)
            tokens = sum(group.gather(observed.tokens.tokens))
        else:
            extractor, tokens = corpus.extractor, corpus.tokens
            tags = corpus.tag_set(c.scheme, c.constraints, earlier and earlier.states.tags)
        states = learned_states(tags, c.learn_scheme, c.constraints, earlier and earlier.states)
        settings = resolved(c, states, tokens)
        # The first process has the L2 term, so that a sum over processes has it once.
        shared: dict[str, Any] = {
            "c2": 0.0 if settings.algorithm in MISTAKE_DRIVEN or group.rank else settings.c2,
            "single": settings.precision == "single",
            "group": group,
        }
        objective: FeatureObjective
        if corpus is None:
            if settings.algorithm in SUMMED:
                observed.tokens.share_bundles()
            else:
                group.require_single(f"algorithm = {settings.algorithm!r}, which goes from sentence to sentence,")
            objective = CRFObjective(
                observed,
                index,
                data,
                states,
                self._selection(),
                edge_index=edges,
                sentence_weights=options.sentence_weights,
                token_weights=data.token_weights(tags, settings.label_weights),
                **shared,
            )
        else:
            from trellis.models.crf.out_of_core import DiskObjective

            objective = DiskObjective(corpus, states, self._selection(), settings.label_weights, **shared)
        learned = learn(objective, earlier, settings, extractor, dev, options)
        self.parameters_, self.history_, self.settings_ = learned
        self.states_, self.tagset_, self._cached = states, states.tags, extractor

    def _stream(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[Label]] | None,
        sentence_weights: Sequence[float] | None,
        options: FitOptions,
    ) -> CompiledCorpus | None:
        c = self.config
        if not (c.out_of_core or isinstance(X, Shards)):
            return None
        from trellis.models.crf.out_of_core import CompiledCorpus, check_streamable

        if options.on_bad_tags != "error":
            raise ModelError(
                f"on_bad_tags={options.on_bad_tags!r} looks at all sentences at once, and out_of_core reads them one "
                "by one: mend them first (trellis.corpus.mend_tags)"
            )
        self._take_lexicon(options)
        if self.lexical_:
            raise ModelError("out_of_core does not learn from a lexicon: give its entries the strength prefer or must")
        earlier = self._earlier(options)
        extractor = self._extractor()
        check_streamable(c, extractor)
        folder = c.scratch or (tempfile.gettempdir() if options.folder is None else options.folder.home)
        index, fingerprinted = _growing(earlier and earlier.weights), options.folder is not None
        corpus = CompiledCorpus(extractor, index, folder, options.group, fingerprinted=fingerprinted)
        corpus.read(X, y, sentence_weights, self._seen)
        return corpus

    def _earlier(self, options: FitOptions) -> Earlier | None:
        if self._goes_on(options):
            return Earlier(self.parameters_, self.states_)
        self._cached = None  # made for other settings
        return None

    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        p, extractor = self._fitted(), self._extractor()
        if not isinstance(extractor, TemplateExtractor):
            return Observed.of(extractor, inputs, p.index, None).scores(p)
        emissions, offsets = extractor.score(inputs, self._token_scorer(p))
        steps = None if p.edges is None else extractor.compile_edges(inputs, p.edges.index, grow=False)
        return chained(emissions, offsets[1:] - offsets[:-1], p, steps)

    def _decoded(self, inputs: Sequence[Any]) -> list[list[str]] | None:
        p, extractor = self._fitted(), self._extractor()
        if p.edges is not None or p.histories is not None:
            return None
        if self._labeller is None or self._labeller[0] is not p:  # made when first asked for
            labels, states = self.labels_, self._state_labels()
            names = list(labels) if states is None else [labels[state] for state in states.tolist()]
            scores = (plain_array(scores, np.float64) for scores in (p.transitions, p.start, p.end))
            self._labeller = p, _native.Labeller(names, *scores)
        labeller, seen = self._labeller[1], self._for_scores(inputs, [])
        if isinstance(extractor, TemplateExtractor):
            return extractor.best(seen, self._token_scorer(p), labeller)
        return labeller.best(extractor.compile(seen, p.index, grow=False), p.ready)

    def _token_scorer(self, p: CRFWeights) -> _native.TokenScorer:
        """Scores tokens with these weights; made when first asked for."""
        if self._scorer is None or self._scorer[0] is not p:
            folding = FOLDED_POINTS if self.settings_.fold_width else {}
            arrays = p.ends, p.labels, p.weights
            try:
                self._scorer = p, _native.TokenScorer(p.index.native, *arrays, p.width, folding)
            except ValueError as error:  # only a file that somebody changed has such attributes
                raise StoreError(f"the attributes of this model: {error}") from None
        return self._scorer[1]

    def _extent(self) -> str:
        p = self._fitted()
        return f"{number_of(len(p.index), 'feature')}, {number_of(len(p.weights), 'weight')}"

    def _folds_itself(self) -> bool:
        p, extractor = self._fitted(), self._extractor()
        if not isinstance(extractor, TemplateExtractor):
            return True  # features that are given have no forms to fold
        return self.config.fold_width and not extractor.templates.uses_clusters and p.edges is None

    def _state_labels(self) -> IntArray | None:
        states = self._fitted().state_labels
        return self.states_.finer if states is None else self.states_.labels[states]

    def _scores_per_token(self) -> int:
        p = self._fitted()
        states = len(p.start) if p.state_labels is None else len(p.state_labels)
        return scores_per_token(states, steps=p.edges is not None)

    def explain(self, sentence: Any, position: int) -> Explanation:
        """Why the token at `position` got its label: what spoke for it and what for the runner-up.

        The runner-up is the best labelling of the sentence with another label there; the differences of all
        features and transitions add up to the difference of the two scores.
        """
        p, states, extractor = self._fitted(), self.states_, self._extractor()
        seen = self._prepared([sentence], self._lexicons("own"))
        observed = Observed.of(extractor, seen, p.index, None if p.edges is None else p.edges.index)

        def parts(t: int, chosen: int, runner_up: int) -> Iterator[Part]:
            pair = chosen, runner_up
            if p.state_labels is not None:
                pair = int(p.state_labels[chosen]), int(p.state_labels[runner_up])
            return _parts(observed.tokens, p, t, *pair)

        def step_parts(t: int, chosen: Step, runner_up: Step) -> Iterator[Part]:
            if p.edges is not None and observed.steps is not None:
                yield from _parts(observed.steps, p.edges, t, *(i * p.width + j for i, j in (chosen, runner_up)))

        scores, labels = observed.scores(p), self._state_labels()
        return explain(scores, position, states.tags, labels, parts, step_parts, words=self._words)

    def top_features(self, label: str | None = None, n: int = 10) -> FeatureTable:
        """The `n` features with the largest weights, by size: of all labels, of one, or of a type of spans (PER).

        A label stands for all states that it was learned as: B-PER for B-PER and S-PER, if BIOES was learned.
        """
        p, states = self._fitted(), self.states_
        names, width = states.names, len(states)
        named = np.ones(width, dtype=np.bool_)
        if label is not None:
            named = np.array([name == label for name in names])
            kinds = np.array([kind for _, kind in states.tags.parsed], dtype=object)
            if label not in states.tags.labels and label in kinds[states.labels]:
                named = kinds[states.labels] == label
            elif label in states.tags.labels or not named.any():
                named = states.labels == states.tags.id(label)
        features = [WeightedFeature(f, names[state], w, self._words(f)) for f, state, w in _largest(p, named, n)]
        if p.edges is not None:
            for f, pair, w in _largest(p.edges, np.tile(named, width), n):
                features.append(WeightedFeature(f, names[pair % width], w, self._words(f), names[pair // width]))
        return FeatureTable(tuple(sorted(features, key=lambda f: -abs(f.weight))[:n]))

    def _words(self, feature: str) -> str:
        """A feature in plain words if templates made it, else its name."""
        extractor = self._extractor()
        return extractor.templates.words(feature) if isinstance(extractor, TemplateExtractor) else feature

    def transitions(self) -> TransitionTable:
        """Weights of transitions from row to column."""
        p = self._fitted()
        shown = p.weighted | np.isneginf(p.transitions)
        rows = zip(p.transitions.tolist(), shown.tolist(), strict=True)
        cells = tuple(tuple(w if s else None for w, s in zip(*row, strict=True)) for row in rows)
        return TransitionTable(self.states_.names, cells, "weight")

    def feature_names(self, sentence: Any) -> list[list[str]]:
        """The names of the features of each token, known to the model or not."""
        names = self._extractor().strings(self._prepared([sentence], self._lexicons("own"))[0])
        if names is None:
            raise ModelError("given features have no templates that could name them")
        return names

    def _selection(self) -> FeatureSelection:
        from trellis.models.crf.training import FeatureSelection

        extractor = self._extractor()
        c = self.config
        templates = extractor.templates if isinstance(extractor, TemplateExtractor) else None
        if c.order == 2 and templates is not None and templates.edges:
            line = templates.edges[0]
            raise ConfigError(
                f"{templates.name}, line {line.line}: {line.text!r} looks at observations of a transition, which only "
                "order 1 supports, and order is 2: use U lines for observations"
            )
        has_transitions = templates is None or templates.transitions
        return FeatureSelection(
            c.min_freq,
            c.all_possible_states,
            c.all_possible_transitions,
            has_transitions,
            c.constraints,
            c.all_possible_edges,
            c.pairs if c.order == 2 else None,
        )

    def _fitted(self) -> CRFWeights:
        self._fitted_tags()
        return self.parameters_

    def _clustered(self, inputs: Sequence[Any], group: ProcessGroup) -> Extractor:
        """The extractor, with clusters of the words that it will meet where the settings name vectors."""
        extractor = self._extractor()
        if self.config.vectors is None:
            return extractor
        if not isinstance(extractor, TemplateExtractor):
            raise ConfigError(f"vectors need templates, and features are {self.config.features!r}: leave vectors unset")
        from trellis.vectors import read_vectors

        words = set().union(*group.gather({token for item in inputs for token in tokens_of(item)}))
        vectors = read_vectors(self.config.vectors, words, extra=_WORDS)
        return TemplateExtractor(extractor.templates, Clusters.of(vectors.rows, vectors.array), extractor.lexicon)

    def _extractor(self) -> Extractor:
        if self._cached is None or not self.__sklearn_is_fitted__():
            self._cached = GivenExtractor()
            if self.learns_lexicons:
                columns = list(map(name_of_column, self.lexical_))
                clusters = self.config.vectors is not None
                templates = get_templates(self.config.features, clusters=clusters, lexicon=len(columns))
                self._cached = TemplateExtractor(templates, lexicon=columns)
        return self._cached

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        return to_stored(self._fitted(), self._extractor(), self.states_)

    def _restore(self, stored: Stored) -> None:
        self.states_ = stored_states(stored, self._fitted_tags())
        columns = list(map(name_of_column, self.lexical_))
        self.parameters_, self._cached = from_stored(stored, len(self.states_), columns)


def _growing(weights: AttributeWeights | None) -> AttributeIndex:
    """The attributes of an earlier model, to which new ones can be added."""
    return AttributeIndex() if weights is None else weights.index.select()


def _parts(compiled: Compiled, weights: AttributeWeights, t: int, chosen: int, runner_up: int) -> Iterator[Part]:
    """The features of token t that have a weight for either label."""
    for attribute, value in compiled.token_attributes(t):
        row = weights.of(attribute)
        pair = value * row.get(chosen, 0.0), value * row.get(runner_up, 0.0)
        if any(pair):
            yield weights.index.name(attribute), *pair


def _largest(p: AttributeWeights, named: BoolArray, n: int) -> Iterator[tuple[str, int, float]]:
    """The n largest weights by size of labels that are `named`: attribute, label, weight."""
    chosen = np.flatnonzero(named[p.labels])
    order = chosen[np.argsort(-np.abs(p.weights[chosen]), kind="stable")[:n]]
    owners = np.searchsorted(p.ends, order, side="right")
    for a, label, w in zip(owners.tolist(), p.labels[order].tolist(), p.weights[order].tolist(), strict=True):
        yield p.index.name(a), label, w

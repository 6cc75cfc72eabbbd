"""The classical linear-chain CRF: state and transition features with weights, trained on the CPU.

    model = CRF(features="ner", c2=0.1).fit(sentences)
    model.tag([["She", "lives", "in", "Paris"]])
    print(model.explain(["She", "lives", "in", "Paris"], 3).to_markdown())

Features come from templates (``features="ner" | "pos" | "chunk" | "seg"``, or a template file), or are given
for each token (``features="given"``) as lists of strings or as the dicts that sklearn-crfsuite takes. Objective,
defaults and stopping tests are CRFsuite's; scheme constraints, on by default, are what it does not have.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from trellis import _native, chain
from trellis.arrays import Arrays, IntArray, plain_array
from trellis.corpus import Shards
from trellis.errors import ConfigError, ModelError
from trellis.features import (
    AttributeIndex,
    Clusters,
    Extractor,
    GivenExtractor,
    TemplateExtractor,
    Templates,
    get_templates,
)
from trellis.lexicon.features import name_of_column
from trellis.models.crf.attributes import FeatureSelection, observe
from trellis.models.crf.config import MISTAKE_DRIVEN, SUMMED, CRFConfig, resolved
from trellis.models.crf.features_view import FeatureTable, TransitionTable, explain_features, top_features, transitions
from trellis.models.crf.storage import from_stored, to_stored
from trellis.models.crf.weights import AttributeWeights, CRFWeights, Earlier, Observed, chained, scores_per_token
from trellis.models.data import Label, Labelled, learned_states, learned_tag_set, tokens_of
from trellis.models.explain import Explanation
from trellis.models.states import stored_states
from trellis.models.tagger import FitOptions, Stream, Tagger
from trellis.store import Stored
from trellis.tags import StateMap
from trellis.text import FOLDED_POINTS
from trellis.training import History
from trellis.training.process_group import ProcessGroup

if TYPE_CHECKING:
    from trellis.models.crf.out_of_core import CompiledCorpus

_WORDS = 100_000  # of a file of vectors, besides those of the training sentences


@final
class CRF(Tagger[CRFConfig]):
    """Linear-chain CRF over templates or given features; see the module for how to use it."""

    kind: ClassVar[str] = "crf"
    shares_sentences: ClassVar[bool] = True
    free_settings: ClassVar[frozenset[str] | None] = frozenset(
        {"max_iterations", "patience", "checkpoint_seconds", "out_of_core", "scratch"}
    )
    config_class: ClassVar[type[Any]] = CRFConfig
    parameters_: CRFWeights
    states_: StateMap
    """What the weights are about: the labels, as the scheme that is learned tells them apart."""
    _cached: Extractor | None = None
    _scorer: tuple[CRFWeights, _native.TokenScorer] | None = None
    _labeller: tuple[CRFWeights, _native.Labeller] | None = None

    @property
    def learns_lexicons(self) -> bool:
        """Whether features come from templates."""
        return self.config.features not in ("given", "ready")

    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        if options.stream is not None:
            self._learn_from_disk(options.stream, dev, options)
            return
        # Imported here, since who tags needs neither.
        from trellis.models.crf.objective import CRFObjective
        from trellis.models.crf.training import learn

        group, earlier = options.group, self._earlier(options)
        extractor = self._extractor() if earlier is not None else self._clustered(data.inputs, group)
        index, edges = _growing(earlier and earlier.weights), _growing(earlier and earlier.weights.edges)
        observed, index, edges = observe(group, extractor, data.inputs, index, edges)
        tags = learned_tag_set(data, self.config.scheme, self.config.constraints, earlier and earlier.states.tags)
        states = learned_states(tags, self.config.learn_scheme, self.config.constraints, earlier and earlier.states)
        settings = resolved(self.config, states, sum(group.gather(observed.tokens.tokens)))
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
            c2=0.0 if settings.algorithm in MISTAKE_DRIVEN else settings.c2,
            sentence_weights=options.sentence_weights,
            token_weights=data.token_weights(tags, settings.label_weights),
            single=settings.precision == "single",
            group=group,
        )
        self._keep(learn(objective, earlier, settings, extractor, dev, options), states, extractor)

    def _stream(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[Label]] | None,
        sentence_weights: Sequence[float] | None,
        options: FitOptions,
    ) -> Stream | None:
        c = self.config
        if not (c.out_of_core or isinstance(X, Shards)):
            return None
        from trellis.models.crf.out_of_core import CompiledCorpus, LabelledStream, check_streamable

        if options.on_bad_tags != "error":
            raise ModelError(
                f"on_bad_tags={options.on_bad_tags!r} looks at all sentences at once, and out_of_core reads them one "
                "by one: mend them first (trellis.corpus.mend_tags)"
            )
        self._take_lexicon(options)
        if self.lexical_:
            raise ModelError("out_of_core does not learn from a lexicon: give its entries the strength prefer or must")
        stream, earlier = LabelledStream(X, y, sentence_weights), self._earlier(options)
        extractor = self._extractor()
        check_streamable(c, extractor, SUMMED)
        place = c.scratch or (tempfile.gettempdir() if options.folder is None else options.folder.home)
        index, fingerprinted = _growing(earlier and earlier.weights), options.folder is not None
        corpus = CompiledCorpus(extractor, index, place, options.group, fingerprinted=fingerprinted)
        corpus.read(stream, self._seen)
        return corpus

    def _learn_from_disk(self, corpus: CompiledCorpus, dev: Labelled | None, options: FitOptions) -> None:
        from trellis.models.crf.out_of_core import DiskObjective, streamed_tag_set
        from trellis.models.crf.training import learn

        earlier, c = self._earlier(options), self.config
        tags = streamed_tag_set(corpus, c.scheme, c.constraints, earlier and earlier.states.tags)
        states = learned_states(tags, c.learn_scheme, c.constraints, earlier and earlier.states)
        settings = resolved(c, states, corpus.tokens)
        objective = DiskObjective(
            corpus,
            corpus.folder,
            states,
            self._selection(),
            c2=settings.c2,
            label_weights=settings.label_weights,
            single=settings.precision == "single",
            group=options.group,
        )
        self._keep(learn(objective, earlier, settings, corpus.extractor, dev, options), states, corpus.extractor)

    def _earlier(self, options: FitOptions) -> Earlier | None:
        """What learning starts from, if it goes on."""
        if self._goes_on(options):
            return Earlier(self.parameters_, self.states_)
        self._cached = None  # made for other settings
        return None

    def _keep(self, learned: tuple[CRFWeights, History, CRFConfig], states: StateMap, extractor: Extractor) -> None:
        self.parameters_, self.history_, self.settings_ = learned
        self.states_, self.tagset_, self._cached = states, states.tags, extractor

    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        p, extractor = self._fitted(), self._extractor()
        if not isinstance(extractor, TemplateExtractor):
            return Observed.of(extractor, inputs, p.index, None).scores(p)
        emissions, offsets = extractor.score(inputs, self._token_scorer(p, extractor.templates))
        steps = None if p.edges is None else extractor.compile_edges(inputs, p.edges.index, grow=False)
        return chained(emissions, offsets[1:] - offsets[:-1], p, steps)

    def _decoded(self, inputs: Sequence[Any]) -> list[list[str]] | None:
        p, extractor = self._fitted(), self._extractor()
        if p.edges is not None or p.histories is not None:
            return None
        labeller, seen = self._chain_labeller(p), self._for_scores(inputs, [])
        if isinstance(extractor, TemplateExtractor):
            return extractor.best(seen, self._token_scorer(p, extractor.templates), labeller)
        return labeller.best(extractor.compile(seen, p.index, grow=False), p.ready)

    def _chain_labeller(self, p: CRFWeights) -> _native.Labeller:
        """What finds the best labels with these transitions; made when first asked for."""
        if self._labeller is None or self._labeller[0] is not p:
            labels, states = self.labels_, self._state_labels()
            names = list(labels) if states is None else [labels[state] for state in states.tolist()]
            chain_of_states = (plain_array(scores, np.float64) for scores in (p.transitions, p.start, p.end))
            self._labeller = p, _native.Labeller(names, *chain_of_states)
        return self._labeller[1]

    def _token_scorer(self, p: CRFWeights, templates: Templates) -> _native.TokenScorer:
        """What scores tokens with these weights; made when first asked for."""
        if self._scorer is None or self._scorer[0] is not p:
            folding = FOLDED_POINTS if self.config.fold_width else {}
            arrays = p.ends, p.labels, p.weights
            self._scorer = p, _native.TokenScorer(templates.native, p.index.native, *arrays, p.width, folding)
        return self._scorer[1]

    def _folds_itself(self) -> bool:
        p, extractor = self._fitted(), self._extractor()
        if not isinstance(extractor, TemplateExtractor):
            return True  # features that are given have no forms to fold
        if extractor.templates.uses_clusters or p.edges is not None:
            return False
        return self._token_scorer(p, extractor.templates).folds

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
        seen = self._prepared([sentence], self._lexicons("own"))[0]
        return explain_features(seen, position, self._extractor(), self._fitted(), self.states_)

    def top_features(self, label: str | None = None, n: int = 10) -> FeatureTable:
        """The `n` features with the largest weights, by size, of one label or of all."""
        return top_features(self._fitted(), self.states_, label, n)

    def transitions(self) -> TransitionTable:
        """Weights of transitions from row to column."""
        return transitions(self._fitted(), self.states_)

    def feature_names(self, sentence: Any) -> list[list[str]]:
        """The names of the features of each token, known to the model or not."""
        names = self._extractor().strings(self._prepared([sentence], self._lexicons("own"))[0])
        if names is None:
            raise ModelError("given features have no templates that could name them")
        return names

    def _selection(self) -> FeatureSelection:
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
            columns = list(map(name_of_column, self.lexical_))
            clusters = self.config.vectors is not None
            self._cached = (
                TemplateExtractor(
                    get_templates(self.config.features, clusters=clusters, lexicon=len(columns)), lexicon=columns
                )
                if self.learns_lexicons
                else GivenExtractor()
            )
        return self._cached

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        return to_stored(self._fitted(), self._extractor(), self.states_)

    def _restore(self, stored: Stored) -> None:
        self.states_ = stored_states(stored, self._fitted_tags())
        columns = list(map(name_of_column, self.lexical_))
        self.parameters_, self._cached = from_stored(stored, len(self.states_), columns)


def _growing(weights: AttributeWeights | None) -> AttributeIndex:
    """The attributes of an earlier model, to which new ones can be added."""
    return AttributeIndex() if weights is None else AttributeIndex(weights.index.native.growing())

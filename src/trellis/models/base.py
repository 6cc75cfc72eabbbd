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
`_restore`); one whose chain has states finer than labels also says which label each stands for (`_state_labels`).
Nothing else here is overridden by it.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from trellis import chain, config, store
from trellis.errors import ConfigError, ModelError, StoreError
from trellis.models import states
from trellis.models.data import Label, Labelled, Supervised, listed, tokenizer_of
from trellis.models.fitting import FitOptions, check_weights, identify, labelled, opened, replaced
from trellis.models.folder import ModelFolder
from trellis.models.lattice_view import LatticeView, lattice_view
from trellis.models.scoring import Scores, compare, headline
from trellis.models.tagged import Labelling, ScoredSpan, Tagged, tagged
from trellis.ragged import split
from trellis.tags import Scheme, Span, Style, TagSet, spans_from_sequences
from trellis.text import Sentence, tokenize
from trellis.training import History, Progress, undisturbed

C = TypeVar("C")
_BLOCK = 16384  # sentences that are answered at a time
FloatArray = npt.NDArray[np.float64]
Known = Sequence[Sequence[Label]]


class Tagger(ABC, Generic[C]):
    """Base of all taggers; `config` holds the settings, names that end in ``_`` what was learnt."""

    kind: ClassVar[str]
    config_class: ClassVar[type[Any]]
    free_settings: ClassVar[frozenset[str] | None] = None
    """What may be changed when training is resumed, by dotted names; None where it learns in one go."""

    def __init__(self, settings: C | None = None, /, **options: Any) -> None:
        """Take a configuration, single settings by name, or both: names win."""
        base = self.config_class() if settings is None else settings
        self.config: C = replaced(base, options)
        self.tagset_: TagSet | None = None
        self.history_: History | None = None
        self.tokenizer_ = "words"

    @abstractmethod
    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        """Learn from checked data; sets `tagset_`, `history_` and whatever `chain_scores` needs."""

    @abstractmethod
    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        """Scores of the inputs, by a fitted model."""

    def _state_labels(self) -> npt.NDArray[np.int64] | None:
        """The label of each state of a fitted model's chain; None where the states are the labels."""
        return None

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Manifest entries and arrays that `_restore` takes."""

    @abstractmethod
    def _restore(self, manifest: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        """The inverse of `_state`."""

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
        resume: bool = False,
    ) -> Self:
        """Learn from sentences with tags, or from inputs and their labels.

        Args:
            X: sentences with tags, or inputs of any kind the model takes.
            y: the labels of each input; a label known in part is a set of labels, an unknown one None.
            dev: held-out data as `X`, or as a pair ``(X, y)``: its score is watched, and the best model kept.
            sentence_weights: how much each sentence counts; 1 unless given.
            warm_start: start from what this model learnt before; labels and features may be new.
            progress: called after each iteration.
            folder: where the model is left, with its settings and its history, and while it is trained, checkpoints
                of families that train in epochs.
            resume: go on from the last checkpoint in `folder`, if there is one, to the same model as if nothing had
                happened.

        """
        with opened(folder, self.kind, resume=resume, resumable=self.free_settings is not None) as place:
            data = Labelled.of(X, y)
            if not data.inputs:
                raise ModelError("there is nothing to learn from: the corpus has no sentence")
            held_out = None if dev is None else labelled(dev)
            weights = check_weights(sentence_weights, len(data.inputs))
            options = FitOptions(weights, warm_start, progress, None if place is None else place.training)
            before = self._state()[1] if warm_start and place is not None and self.tagset_ is not None else None
            identify(options, self.config, self.free_settings, data, held_out, before)
            tokenizer = tokenizer_of(data.inputs)
            self._learn(data, held_out, options)
            self.tokenizer_ = tokenizer
            if place is not None and place is not folder:
                undisturbed(lambda: place.save(self))
        return self

    def chain_scores(self, X: Iterable[Any]) -> chain.ChainScores:
        """The scores behind every answer."""
        self._require_fitted()
        return self._scores(listed(X))

    def predict(self, X: Iterable[Any], *, known: Known | None = None) -> list[list[str]]:
        """The best labels of each input, or the best that agree with what is `known` of them.

        What is known is given as the labels of `fit` are: a label, a set of labels one of which it is, or None.
        """
        return [own for block in self._blocks(X, known) for own in self._best(block)]

    def tag(self, sentences: Iterable[Sentence | Sequence[str]], *, known: Known | None = None) -> list[Sentence]:
        """The sentences with the best tags; token lists become sentences."""
        items = [item if isinstance(item, Sentence) else Sentence(item) for item in listed(sentences)]
        return [item.with_tags(tags) for item, tags in zip(items, self.predict(items, known=known), strict=True)]

    def __call__(self, text: str) -> Tagged:
        """Tag raw text, split by `tokenizer_` as the training data were."""
        return self.annotate([text])[0]

    def annotate(self, texts: Iterable[str | Sentence | Sequence[str]], *, known: Known | None = None) -> list[Tagged]:
        """Tags, their probabilities and the spans by character of raw texts, sentences or token lists."""
        separator = "" if self.tokenizer_ == "characters" else " "
        items = [self._sentence(item).with_text(separator) for item in listed(texts)]
        tags, answers = self._fitted_tags(), []
        for block in self._blocks(items, known):
            labels = self._best(block)
            spans = spans_from_sequences(labels, tags.scheme, style=tags.style)
            scored = self._scored_spans(block, spans)
            pairs = zip(labels, self._probabilities(block), scored, strict=True)
            answers += [(own, p[np.arange(len(own)), tags.encode(own)].tolist(), found) for own, p, found in pairs]
        return [tagged(item, *answer) for item, answer in zip(items, answers, strict=True)]

    def trellis(self, sentence: str | Sentence | Sequence[str], *, k: int = 3) -> LatticeView:
        """All labels of all tokens with their probabilities, and the `k` best paths, to be drawn."""
        return lattice_view(self, self._sentence(sentence), k)

    def marginals(self, X: Iterable[Any], *, known: Known | None = None) -> list[FloatArray]:
        """For each input ``(T, L)``: the exact probability of each label (in the order of `labels_`) at each token."""
        return [own for block in self._blocks(X, known) for own in self._probabilities(block)]

    def kbest(self, X: Iterable[Any], k: int, *, known: Known | None = None) -> list[list[Labelling]]:
        """The k most probable labellings of each input, best first; fewer where fewer exist."""
        tags, finer = self._fitted_tags(), self._state_labels()
        found = []
        for block in self._blocks(X, known):
            paths, log_z = chain.kbest(block, k), chain.log_partition(block)
            for ids, scores, z in zip(paths.tags, paths.scores, log_z, strict=True):
                pairs = zip(states.to_labels(ids, finer), np.exp(scores - z), strict=True)
                found.append([Labelling(tags.decode(path), float(p)) for path, p in pairs])
        return found

    def sequence_probabilities(self, X: Iterable[Any], y: Iterable[Sequence[str]] | None = None) -> FloatArray:
        """The probability of the given labels of each input, taken as a whole."""
        data = Labelled.of(X, y)
        tags, finer = data.encode(self._fitted_tags()), self._state_labels()
        row, found = 0, [np.empty(0)]
        for block in self._blocks(data.inputs):
            own = tags[row : row + len(block.emissions)]
            row += len(own)
            found.append(np.exp(states.score(block, own, finer) - chain.log_partition(block)))
        return np.concatenate(found)

    def span_probabilities(
        self, X: Iterable[Any], spans: Sequence[Sequence[Span]] | None = None
    ) -> list[list[ScoredSpan]]:
        """Exact probabilities of spans: of those given for each input, or of those that are predicted."""
        inputs = listed(X)
        tags = self._fitted_tags()
        if spans is None:
            spans = spans_from_sequences(self.predict(inputs), tags.scheme, style=tags.style)
        if len(spans) != len(inputs):
            raise ModelError(f"spans are given for {len(spans)} sentences, but there are {len(inputs)}")
        result: list[list[ScoredSpan]] = []
        for block in self._blocks(inputs):
            result += self._scored_spans(block, spans[len(result) : len(result) + len(block.lengths)])
        return result

    def evaluate(self, X: Iterable[Any], y: Iterable[Sequence[str]] | None = None) -> Scores:
        """Scores of the predicted labels against the true ones."""
        data = Labelled.of(X, y)
        return compare(data.strings(), self.predict(data.inputs), self._fitted_tags())

    def score(self, X: Iterable[Any], y: Iterable[Sequence[str]] | None = None) -> float:
        """One number for model selection: F1 of spans, or accuracy for plain tags."""
        return headline(self.evaluate(X, y))

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        tags = self._fitted_tags()
        manifest, arrays = self._state()
        manifest |= {"config": config.to_dict(self.config), "labels": list(tags.labels)}
        manifest |= {"scheme": tags.scheme.value, "style": tags.style.value, "tokenizer": self.tokenizer_}
        store.save(path, self.kind, manifest, arrays)

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> Self:
        """Open a saved model; `verify` reads it all and compares checksums."""
        return cls.from_stored(store.load(path, cls.kind, verify=verify))

    @classmethod
    def from_stored(cls, stored: store.Stored) -> Self:
        """The model that a file holds."""
        manifest = dict(stored.manifest)
        try:
            settings = config.from_dict(cls.config_class, manifest["config"])
        except ConfigError as error:
            raise StoreError(
                f"the saved model has settings that this version of Trellis does not know: {error}"
            ) from None
        model = cls(settings)
        model.tagset_ = TagSet(tuple(manifest["labels"]), Scheme(manifest["scheme"]), Style(manifest["style"]))
        model.tokenizer_ = manifest.get("tokenizer", "words")
        model._restore(manifest, stored.arrays)
        return model

    @property
    def labels_(self) -> tuple[str, ...]:
        """The labels, in the order of their ids."""
        return self._fitted_tags().labels

    @property
    def classes_(self) -> list[str]:
        """The labels, as scikit-learn calls them."""
        return list(self.labels_)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name."""
        return {item.name: getattr(self.config, item.name) for item in dataclasses.fields(self.config)}  # type: ignore[arg-type]

    def set_params(self, **options: Any) -> Self:
        """Change settings by name."""
        self.config = replaced(self.config, options)
        return self

    def __repr__(self) -> str:
        """The settings that are not the defaults."""
        changed = {
            name: value for name, value in self.get_params().items() if value != getattr(self.config_class(), name)
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __getstate__(self) -> dict[str, Any]:
        """Plain values and arrays, for copies between processes; files are written by `save`."""
        state: dict[str, Any] = {"config": self.config, "tagset": self.tagset_, "history": self.history_}
        state["tokenizer"] = self.tokenizer_
        return state if self.tagset_ is None else state | {"learnt": self._state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The inverse of `__getstate__`."""
        self.config, self.tagset_, self.history_ = state["config"], state["tagset"], state["history"]
        self.tokenizer_ = state["tokenizer"]
        if "learnt" in state:
            manifest, arrays = state["learnt"]
            self._restore(manifest | {"labels": list(self.labels_)}, arrays)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's pipelines and searches ask: it learns from labels, and takes lists of token lists."""
        from sklearn.utils import InputTags, Tags, TargetTags

        # No kind of estimator: "classifier" would split the data by label, and a label here is a whole sequence.
        return Tags(estimator_type=None, target_tags=TargetTags(required=True), input_tags=InputTags(string=True))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is anything to predict with."""
        return self.tagset_ is not None

    def _scored_spans(self, scores: chain.ChainScores, spans: Sequence[Sequence[Span]]) -> list[list[ScoredSpan]]:
        rows, owners = _span_rows(self._fitted_tags(), spans, scores.lengths)
        result = [[ScoredSpan(span, 0.0) for span in own] for own in spans]
        if rows:
            places, paths, before, after = (list(column) for column in zip(*rows, strict=True))
            sides = np.array(before), np.array(after)
            logs = states.span_log_prob(scores, places, paths, sides, self._state_labels())
            for (b, i), p in zip(owners, np.exp(logs), strict=True):
                known = result[b][i]
                result[b][i] = ScoredSpan(known.span, known.probability + float(p))
        return result

    def _blocks(self, X: Iterable[Any], known: Known | None = None) -> Iterable[chain.ChainScores]:
        inputs = listed(X)
        tags, finer = self._fitted_tags(), self._state_labels()
        size = _BLOCK if finer is None else max(1, _BLOCK * len(tags) // len(finer))
        given = None if known is None else Labelled.of(inputs, known)
        for i in range(0, len(inputs), size):
            scores = self._scores(inputs[i : i + size])
            if given is not None:
                allowed = given.part(i, i + size).allowed(tags)
                scores = scores.restricted(allowed if finer is None else allowed[:, finer])
            yield scores

    def _best(self, block: chain.ChainScores) -> list[list[str]]:
        labels, finer = np.array(self.labels_, dtype=object), self._state_labels()
        found = states.to_labels(chain.viterbi(block).tags, finer)
        return [own.tolist() for own in split(labels[found], block.lengths)]

    def _probabilities(self, block: chain.ChainScores) -> list[FloatArray]:
        by_state = chain.marginals(block).tokens
        return split(states.sum_by_label(by_state, self._state_labels(), len(self.labels_)), block.lengths)

    def _sentence(self, item: str | Sentence | Sequence[str]) -> Sentence:
        if isinstance(item, str):
            return tokenize(item, self.tokenizer_)
        return item if isinstance(item, Sentence) else Sentence(item)

    def _require_fitted(self) -> None:
        self._fitted_tags()

    def _fitted_tags(self) -> TagSet:
        if self.tagset_ is None:
            raise ModelError(f"this {type(self).__name__} is not fitted: call fit or load first")
        return self.tagset_


def _span_rows(
    tags: TagSet, spans: Sequence[Sequence[Span]], lengths: npt.NDArray[np.int64]
) -> tuple[list[tuple[tuple[int, int, int], Any, Any, Any]], list[tuple[int, int]]]:
    """Every way of writing every span, and which span each belongs to."""
    rows, owners = [], []
    for b, own in enumerate(spans):
        for i, span in enumerate(own):
            for way in tags.span_constraints(Span(*span), int(lengths[b])):
                rows.append(((b, span[0], span[1]), way.tags.tolist(), way.before, way.after))
                owners.append((b, i))
    return rows, owners

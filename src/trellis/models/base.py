"""The Tagger contract: what every family of models promises, and one test suite checks.

    fit(sentences) or fit(X, y)      learn; `dev` stops early
    tag(sentences)                   the sentences with tags; predict(X) gives bare label lists
    tagger("raw text"), annotate     tags, spans by character, and the probability of each
    marginals, kbest, span_probabilities, sequence_probabilities
                                     exact probabilities from forward-backward
    evaluate(sentences)              the scores that fit the scheme: spans, or accuracy for plain tags
    save(path), load(path)           one file, no pickle, same answers
    get_params, set_params           scikit-learn's conventions, where X is a list of token lists

What a family provides for this is in `trellis.models.hooks`, `fit` in `trellis.models.trainable`, and files in
`trellis.models.storable`. Here are the answers: each is read from a `Posterior`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, overload

import numpy as np

from trellis import chain
from trellis.arrays import BoolArray, FloatArray, IntArray
from trellis.errors import ModelError, number_of
from trellis.lexicon import Lexicon
from trellis.lexicon.columns import with_columns
from trellis.lexicon.tracks import Gaps
from trellis.models.data import Labelled, listed
from trellis.models.estimator import C
from trellis.models.hooks import LexiconOption
from trellis.models.lattice_view import LatticeView
from trellis.models.lexical import ScoredInputs, find
from trellis.models.musts import applied
from trellis.models.posterior import Known, Posterior
from trellis.models.raw_text import cuts_words, documents, gaps_of, inputs_of, kept_apart
from trellis.models.scoring import Scores, compare, headline
from trellis.models.tagged import Answers, Labelling, ScoredSpan, Tagged
from trellis.models.trainable import Trainable
from trellis.tags import Span
from trellis.text import Sentence, splitter

_BLOCK = 16384  # sentences that are answered at a time
_TRACKS = 8  # how much wider a chain with a lexicon may well be


class Tagger(Trainable[C], ABC):
    """Base of all taggers; `config` holds the settings, names that end in ``_`` exist once it has learned."""

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
        if known is None and not self._lexicons(lexicon):
            return self._decode(listed(X))
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

    def answers(
        self,
        X: Iterable[Any],
        *,
        known: Known | None = None,
        lexicon: LexiconOption = "own",
        token_probabilities: bool = True,
    ) -> Answers:
        """What `annotate` says about sentences or token lists, as arrays over all of them.

        If only spans are of interest, `token_probabilities=False` leaves those of tokens empty, and is faster.
        """
        posteriors = self._posteriors(X, known, lexicon=lexicon)
        blocks = [block.answers(token_probabilities=token_probabilities) for block in posteriors]
        return Answers.joined(blocks or [self.posterior([]).answers()])

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
            raise ModelError(f"spans are given for {number_of(len(spans), 'sentence')}, but there are {len(inputs)}")
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

    @property
    def makes_words(self) -> bool:
        """Whether its tokens are characters, and its labels say which of them are words, and maybe what these are."""
        return cuts_words(self._fitted_tags(), splitter(self.tokenizer_))

    @property
    def classes_(self) -> list[str]:
        """The labels, as scikit-learn calls them."""
        return list(self.labels_)

    def _decode(self, inputs: Sequence[Any]) -> list[list[str]]:
        """The best labels block by block, without a posterior where the family needs none."""
        size = sentences_at_once(len(self._fitted_tags()), self._cells())
        if 0 < len(inputs) <= size:
            return self._decode_block(inputs, 0)
        blocks = (self._decode_block(inputs[i : i + size], i) for i in range(0, len(inputs), size))
        return [own for block in blocks for own in block]

    def _decode_block(self, inputs: Sequence[Any], first: int) -> list[list[str]]:
        best = self._decoded(inputs)
        return self._posterior(inputs, None, first, lexicon=None).best() if best is None else best

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
        scores = self._scores(self._for_scores(inputs, lexicons))
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

    def _for_scores(self, inputs: Sequence[Any], lexicons: Sequence[Lexicon]) -> Sequence[Any]:
        """The inputs as `_scores` takes them."""
        return inputs if self._folds_itself() and not self.lexical_ else self._prepared(inputs, lexicons)

    def _prepared(self, inputs: Sequence[Any], lexicons: Sequence[Lexicon]) -> Sequence[Any]:
        """The inputs as the model sees them, with the matches of lexicons if it has learned from these."""
        seen = self._folded(inputs)
        return with_columns(seen, inputs, lexicons, self.lexical_) if self.lexical_ else seen

    def _sentence(self, item: str | Sentence | Sequence[str]) -> Sentence:
        if isinstance(item, str):
            return splitter(self.tokenizer_).sentence(item)
        return item if isinstance(item, Sentence) else Sentence(item)


def sentences_at_once(labels: int, cells: int) -> int:
    """Sentences that are answered at a time: the fewer, the more scores a token has than labels."""
    return max(1, _BLOCK * labels // cells)


def _restricted(scores: chain.ChainScores, allowed: BoolArray | None, finer: IntArray | None) -> chain.ChainScores:
    """The scores with these labels alone; all if there is no mask."""
    return scores if allowed is None else scores.restricted(allowed if finer is None else allowed[:, finer])

"""What a tagger believes about some inputs: one distribution, from which every answer is read.

    posterior = tagger.posterior(sentences)      the encoder runs once
    posterior.best(), posterior.marginals(), posterior.kbest(3), posterior.spans(), posterior.entropy()

It is made of chain scores and a tag set and needs no tagger, so it also answers for your own network::

    >>> import numpy as np
    >>> from trellis import chain
    >>> from trellis.tags import TagSet
    >>> scores = chain.ChainScores(np.log([[0.9, 0.1], [0.4, 0.6]]), [2], np.zeros((2, 2)))
    >>> posterior = Posterior(scores, TagSet(("DET", "NOUN")), inputs=[["the", "dog"]])
    >>> posterior.best()
    [['DET', 'NOUN']]
    >>> print(posterior.trellis(0, k=1).to_markdown())
    | label |     the |     dog |
    | :---- | ------: | ------: |
    | DET   | ● 0.900 |   0.400 |
    | NOUN  |   0.100 | ● 0.600 |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from operator import index as as_index
from typing import Any, Literal, TypeVar

import numpy as np

from trellis import _native, chain
from trellis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from trellis.errors import ChainError, ModelError, NoPathError, number_of, shown
from trellis.lazy import cached
from trellis.lexicon.bonus import ChainPart, SpanStates, span_types
from trellis.lexicon.chains import Occurrences
from trellis.lexicon.report import LexiconReport
from trellis.models.answers import Answers, Labelling, LatticeView, Tagged
from trellis.models.data import Label, Labelled, name_of, tokens_of
from trellis.ragged import offsets_of, ranges, split
from trellis.results import Grid, Report
from trellis.tags import Scheme, Span, SpanTable, StateMap, TagSet
from trellis.tags.spans import ScoredSpan

T = TypeVar("T")
Known = Sequence[Sequence[Label]]
_PRODUCTS = 200_000


@dataclass(frozen=True, eq=False)
class Posterior:
    """The distribution over labellings of each input; what is computed for one answer is kept for the next."""

    scores: chain.ChainScores
    tags: TagSet
    state_labels: IntArray | None = None
    """The label that each state of the chain stands for; None if the states are the labels."""
    inputs: Sequence[Any] = ()
    """The sentences or token lists, if answers or errors are to name them."""
    first: int = 0
    """The number of the first input among all that were asked about."""
    parts: Sequence[ChainPart] = ()
    """With a lexicon: the chains that answer, each for some inputs; `scores` are then those of the model alone."""
    occurrences: Occurrences | None = None
    """With a lexicon: where its entries occur."""

    def __len__(self) -> int:
        return len(self.scores.lengths)

    def best(self) -> list[list[str]]:
        """The most probable labels of each input."""
        return _native.name_numbers(list(self.tags.labels), self._ids, self.scores.lengths)

    def marginals(self) -> list[FloatArray]:
        """For each input ``(T, L)``: the exact probability of each label at each token."""
        return split(self._marginals, self.scores.lengths)

    def kbest(self, k: int) -> list[list[Labelling]]:
        """The k most probable labellings of each input, best first; fewer if fewer exist."""
        labellings: list[list[Labelling]] = [[] for _ in range(len(self))]
        for part, (paths, log_z) in self._ask(lambda one: (one.scores.kbest(k), one.scores.log_partition())):
            for b, tags, scores, z in zip(part.sequences.tolist(), paths.tags, paths.scores, log_z, strict=True):
                labels = to_labels(tags, part.state_labels)
                shares = np.exp(np.minimum(scores - z, 0.0)).tolist()  # rounding may take it above
                labellings[b] = [Labelling(self.tags.decode(path), p) for path, p in zip(labels, shares, strict=True)]
        return labellings

    def probabilities(self, labels: Sequence[Sequence[str]]) -> FloatArray:
        """The probability of the given labels of each input, taken as a whole."""
        inputs = self.inputs if len(self.inputs) else [range(n) for n in self.scores.lengths.tolist()]
        ids = Labelled.of(inputs, labels).encode(self.tags)

        def ask(one: ChainPart) -> FloatArray:
            tags, of_state = ids[self._rows(one)], one.state_labels
            scores = one.scores.score(tags) if of_state is None else log_mass(one.scores, of_state == tags[:, None])
            return np.exp(np.minimum(scores - one.scores.log_partition(), 0.0))

        return self._by_sequence(ask)

    def sample(self, n: int, *, seed: int = 0) -> list[list[list[str]]]:
        """`n` labellings of each input, drawn from the distribution; the same seed gives the same draws."""
        drawn = self._by_token(lambda one: to_labels(one.scores.sample(n, seed=seed), one.state_labels).T)
        samples = [split(labels, self.scores.lengths) for labels in drawn.T]
        return [[self.tags.decode(path) for path in paths] for paths in zip(*samples, strict=True)]

    def entropy(self) -> FloatArray:
        """How unsure the labelling of each input is, in nats: 0 is certain."""
        return self._by_sequence(lambda one: one.scores.entropy())

    def spans(self) -> list[list[ScoredSpan]]:
        """The spans of the best labels of each input, with their exact probabilities."""
        return self._scored(*self._best_spans)

    def span_probabilities(self, spans: Sequence[Sequence[Span]]) -> list[list[ScoredSpan]]:
        """The exact probabilities of the given spans of each input."""
        if len(spans) != len(self.scores.lengths):
            raise ModelError(
                f"spans are given for {number_of(len(spans), 'sentence')}, but there are {len(self.scores.lengths)}"
            )
        table = self.tags.table_of_spans(spans, self.scores.lengths)
        return self._scored(table, self._span_probabilities(table))

    def annotate(self, texts: Sequence[str | None] | None = None, *, separator: str = " ") -> list[Tagged]:
        """The inputs with their tags, spans by character, and the probability of each.

        Offsets are those in the `texts` that the inputs were split from; if there is none, those of a sentence
        that has a text, else those in the tokens joined by the `separator`.
        """
        answers = self.answers(texts, separator=separator)
        return [Tagged(answers, i) for i in range(len(self))]

    def answers(
        self,
        texts: Sequence[str | None] | None = None,
        *,
        separator: str = " ",
        probabilities: bool = True,
        token_probabilities: bool = True,
    ) -> Answers:
        """Tags, spans and their probabilities as arrays; see `annotate`.

        Probabilities that are left out, all of them or those of tokens, are empty arrays, which is faster.
        """
        if len(self.inputs) != len(self):
            raise ModelError(
                f"annotate needs the tokens: {len(self.inputs)} inputs are given for {len(self)} sequences"
            )
        ids, lengths, none = self._ids, self.scores.lengths, np.empty(0)
        table, scored = self._best_spans if probabilities else (self.tags.find_spans(ids, lengths), none)
        return Answers(
            self.inputs,
            [None] * len(self) if texts is None else texts,
            separator,
            self.tags.labels,
            ids,
            self._marginals[np.arange(len(ids)), ids] if probabilities and token_probabilities else none,
            table,
            scored,
            offsets_of(lengths),
            np.searchsorted(table.sequence, np.arange(len(lengths) + 1)),
        )

    def trellis(self, index: int = 0, *, k: int = 3) -> LatticeView:
        """All labels of all tokens of one input with their probabilities, and its `k` best paths, to be drawn."""
        one = self.part(index)
        probabilities = tuple(tuple(row) for row in one._marginals.tolist())
        return LatticeView(self._tokens(index), self.tags.labels, probabilities, tuple(one.kbest(k)[0]))

    def explain(self, index: int, position: int) -> Explanation:
        """Why a token of one input got its label: the scores that spoke for it and for the runner-up."""
        one = self.part(index)
        with one.named():
            return explain(one.scores, position, self.tags, one.state_labels, tokens=one._tokens(0))

    def part(self, index: int) -> Posterior:
        """The posterior of one input."""
        count = len(self.scores.lengths)
        if not (isinstance(index, int | np.integer) and 0 <= index < count):
            raise ModelError(f"index must be in 0..{count - 1} of {count} inputs, got {shown(index)}")
        if count == 1 and not self.parts:
            return self
        for part in self._parts:
            number = np.flatnonzero(part.sequences == index)
            if len(number):
                scores, inputs = part.scores.part(int(number[0])), self.inputs[index : index + 1]
                return Posterior(scores, self.tags, part.state_labels, inputs, self.first + index)
        raise AssertionError("every input has a chain")

    def given(
        self,
        *,
        span: tuple[int, int, str | None] | None = None,
        labels: Mapping[int, Label] | None = None,
        index: int = 0,
    ) -> Posterior:
        """The posterior of one input if a span and labels of tokens were known.

        It is the conditional distribution: every answer, for the other tokens too, is given that this is right.

        Args:
            span: ``(start, end, label)``: tokens ``start`` to ``end - 1`` are one span; None for any label.
            labels: by position, a label, or several of which one is right.
            index: which input.

        """
        one, labels = self.part(index), labels or {}
        scores, state_labels, T = one.scores, one.state_labels, len(one.scores.emissions)
        for position in labels:
            if not (isinstance(position, int | np.integer) and 0 <= position < T):
                raise ModelError(f"labels are given for position {shown(position)}: expected 0..{T - 1}")
        if labels:
            known = Labelled.of([range(T)], [[labels.get(t) for t in range(T)]]).allowed(self.tags)
            scores = scores.restricted(known if state_labels is None else known[:, state_labels])
        if span is not None:
            span_states = SpanStates.of(scores, self.tags, state_labels)
            start, end, kind = _checked_span(span, T, span_states.kinds)
            allowed = np.ones((T, len(span_states)), dtype=np.bool_)
            allowed[start:end] = span_states.inside(end - start, kind)
            scores, state_labels = span_states.chain(scores).restricted(allowed), span_states.labels
        try:
            scores.log_partition()  # what cannot be is said here, not at the first question
        except NoPathError:
            name = name_of(one.first, one.inputs[0] if len(one.inputs) else None)
            wanted = {"span": None if span is None else tuple(span), "labels": labels}
            conditions = " and ".join(f"the {key} {shown(value)}" for key, value in wanted.items() if value)
            raise NoPathError(f"{name}: no labelling that is possible here has {conditions or 'any labels'}") from None
        return Posterior(scores, self.tags, state_labels, one.inputs, one.first)

    def lexicon_report(self) -> LexiconReport:
        """Which entries of the lexicon fired, which lost, and by how much probability."""
        if self.occurrences is None:
            raise ModelError("there is no lexicon to report on: ask for the posterior with lexicon=")
        alone = Posterior(self.scores, self.tags, self.state_labels, self.inputs, self.first)
        return LexiconReport.of(self.occurrences, self, alone, span_types(self.tags))

    @cached
    def _ids(self) -> IntArray:
        """The best labels, flat ``(N,)``."""
        return self._by_token(lambda one: to_labels(one.scores.viterbi().tags, one.state_labels))

    @cached
    def _marginals(self) -> FloatArray:
        """The probability of each label at each token, ``(N, L)``."""
        L = len(self.tags)
        return self._by_token(lambda one: sum_by_label(one.scores.marginals().tokens, one.state_labels, L))

    @cached
    def _parts(self) -> Sequence[ChainPart]:
        """The chains with the numbers of their inputs; each input is in exactly one."""
        return self.parts or (ChainPart(np.arange(len(self.scores.lengths)), self.scores, self.state_labels),)

    def _ask(self, question: Callable[[ChainPart], T]) -> Iterator[tuple[ChainPart, T]]:
        for part in self._parts:
            with self.named(part.sequences):
                answer = question(part)
            yield part, answer

    def _by_token(self, question: Callable[[ChainPart], AnyArray]) -> AnyArray:
        """Answers with a row per token, in the order of the inputs."""
        answers = list(self._ask(question))
        if len(answers) == 1:
            return answers[0][1]
        result = np.empty((int(self.scores.lengths.sum()), *answers[0][1].shape[1:]), dtype=answers[0][1].dtype)
        for part, values in answers:
            result[self._rows(part)] = values
        return result

    def _by_sequence(self, question: Callable[[ChainPart], FloatArray]) -> FloatArray:
        result = np.empty(len(self.scores.lengths))
        for part, values in self._ask(question):
            result[part.sequences] = values
        return result

    def _rows(self, part: ChainPart) -> IntArray:
        """The tokens of a part's inputs, numbered through the batch."""
        lengths = self.scores.lengths[part.sequences]
        return ranges(offsets_of(self.scores.lengths)[part.sequences], lengths)

    @cached
    def _best_spans(self) -> tuple[SpanTable, FloatArray]:
        table = self.tags.find_spans(self._ids, self.scores.lengths)
        if self.tags.scheme is Scheme.PLAIN:  # each token is a span
            return table, self._marginals[np.arange(len(self._ids)), self._ids]
        return table, self._span_probabilities(table)

    @cached
    def _allows_illegal(self) -> bool:
        """Whether labels may follow each other that the scheme forbids: without constraints they can be decoded."""
        legal, scores = self.tags.allowed_transitions(), self.scores
        labels = np.arange(len(self.tags)) if self.state_labels is None else self.state_labels
        forbidden = np.isneginf(scores.transitions), np.isneginf(scores.start), np.isneginf(scores.end)
        allowed = legal.transitions[np.ix_(labels, labels)], legal.start[labels], legal.end[labels]
        return not all((no | yes).all() for no, yes in zip(forbidden, allowed, strict=True))

    def _span_probabilities(self, table: SpanTable) -> FloatArray:
        """The sum over the ways of writing each span."""
        result = np.zeros(len(table.begin))
        for way in self.tags.ways_of_writing(table, self.scores.lengths, illegal=self._allows_illegal):
            if len(way.rows) == 0:
                continue
            sequence, begin, end = (column[way.rows] for column in (table.sequence, table.begin, table.end))
            if way.before is None and way.after is None and (end - begin == 1).all():
                result[way.rows] += self._marginals[offsets_of(self.scores.lengths)[sequence] + begin, way.tags]
                continue
            for part in self._parts:
                numbers = np.full(len(self), -1, dtype=np.int64)
                numbers[part.sequences] = np.arange(len(part.sequences))
                chosen = numbers[sequence] >= 0
                with self.named(part.sequences):
                    logs = part.scores.span_log_prob(
                        np.column_stack([numbers[sequence], begin, end])[chosen],
                        way.tags[np.repeat(chosen, end - begin)],
                        before=None if way.before is None else way.before[chosen],
                        after=None if way.after is None else way.after[chosen],
                        state_labels=part.state_labels,
                    )
                result[way.rows[chosen]] += np.exp(logs)
        return result

    def _scored(self, table: SpanTable, probabilities: FloatArray) -> list[list[ScoredSpan]]:
        p = iter(probabilities.tolist())
        return [[ScoredSpan(span, next(p)) for span in spans] for spans in table.split(len(self.scores.lengths))]

    def _tokens(self, index: int) -> tuple[str, ...]:
        if not len(self.inputs):
            return tuple(map(str, range(int(self.scores.lengths[index]))))
        return tuple(map(str, tokens_of(self.inputs[index])))

    @contextmanager
    def named(self, sequences: IntArray | None = None) -> Iterator[None]:
        """Errors call a sequence by its number among all inputs, and by its file and line if they are known.

        `sequences` are the inputs that the chain in question is about; None: all.
        """
        try:
            yield
        except ChainError as error:
            if error.sequence is None:
                raise
            number = error.sequence if sequences is None else int(sequences[error.sequence])
            renamed = error.about(name_of(self.first + number, self.inputs[number] if len(self.inputs) else None))
            if isinstance(renamed, NoPathError) and len(self.inputs):
                impossible = np.isneginf(self.scores.part(number).emissions).all(axis=1)
                if impossible.any():
                    position = int(impossible.argmax())
                    token = shown(tokens_of(self.inputs[number])[position])
                    renamed = NoPathError(
                        f"{renamed}; no label can have the token {token} at position {position}: the model has never "
                        "seen it, or not with the labels that are allowed there"
                    )
            renamed.sequence = number
            raise renamed from None


def best_labels(
    blocks: Iterable[chain.ChainScores], inputs: Sequence[Any], states: StateMap, histories: IntArray | None = None
) -> list[list[str]]:
    """The best labels of the inputs, given their chain scores block by block.

    With order 2, `histories` are the `states` that those of the chain stand for.
    """
    labels: list[list[str]] = []
    state_labels = states.finer if histories is None else states.labels[histories]
    for scores in blocks:
        block = inputs[len(labels) :][: len(scores.lengths)]
        labels += Posterior(scores, states.tags, state_labels, block, len(labels)).best()
    return labels


def to_labels(paths: IntArray, state_labels: IntArray | None) -> IntArray:
    """The labels of states: ``state_labels[S]`` says which each stands for; None if the states are the labels."""
    return paths if state_labels is None else state_labels[paths]


def sum_by_label(values: AnyArray, state_labels: IntArray | None, L: int) -> AnyArray:
    """``(..., S)`` by state as ``(..., L)`` by label."""
    if state_labels is None:
        return values
    member = (state_labels[:, None] == np.arange(L)).astype(values.dtype)  # (S, L)
    result: AnyArray = np.empty((*values.shape[:-1], L), dtype=values.dtype)
    rows, sums = values.reshape(-1, len(state_labels)), result.reshape(-1, L)
    # Few rows at a time: for more, the library behind NumPy starts threads, which take longer than the sums.
    step = max(1, _PRODUCTS // member.size)
    for begin in range(0, len(rows), step):
        np.matmul(rows[begin : begin + step], member, out=sums[begin : begin + step])
    return result


def pairs_by_label(pairs: AnyArray, state_labels: IntArray | None, L: int) -> AnyArray:
    """``(P, S, S)`` by state, such as the probabilities of two neighbours, as ``(P, L, L)`` by label."""
    by_second = sum_by_label(pairs, state_labels, L)
    return sum_by_label(by_second.swapaxes(1, 2), state_labels, L).swapaxes(1, 2)


def log_mass(scores: chain.ChainScores, allowed: BoolArray | None = None) -> FloatArray:
    """Log partition of each sequence over the paths that keep to ``allowed[N, S]``; minus infinity if there is none."""
    chosen = scores if allowed is None else scores.restricted(allowed)
    try:
        return chosen.log_partition()
    except NoPathError:
        if len(chosen.lengths) == 1:
            return np.array([-np.inf])
        return np.concatenate([log_mass(chosen.part(b)) for b in range(len(chosen.lengths))])


def _checked_span(span: tuple[int, int, str | None], T: int, kinds: tuple[str, ...]) -> tuple[int, int, int | None]:
    try:
        start, end, label = span
        start, end = as_index(start), as_index(end)
        inside = 0 <= start < end <= T
    except (TypeError, ValueError):
        raise ModelError(f"a span must be (start, end, label), got {shown(span)}") from None
    if not inside:
        raise ModelError(f"the span {shown(tuple(span))} does not lie in an input of {T} tokens")
    if label is not None and label not in kinds:
        raise ModelError(f"the span {shown(tuple(span))} has a type that the model lacks: it has {', '.join(kinds)}")
    return start, end, None if label is None else kinds.index(label)


@dataclass(frozen=True)
class Contribution:
    """One score that differs between the two labellings, with its value in each."""

    position: int
    kind: Literal["emission", "feature", "step feature", "transition"]
    name: str
    chosen: float
    runner_up: float
    words: str
    """The name in plain words: 'previous word is "to"' for the feature U21:to."""

    @property
    def difference(self) -> float:
        """Positive if the score speaks for the chosen label."""
        return self.chosen - self.runner_up


@dataclass(frozen=True)
class Explanation(Report):
    """The chosen labelling against the best one with another label at `position`.

    If no other label is possible there, `runner_up` is empty, and there are no contributions.
    """

    position: int
    label: str
    runner_up: str
    probability: float
    runner_up_probability: float
    score_difference: float
    labelling: tuple[str, ...]
    alternative: tuple[str, ...]
    contributions: tuple[Contribution, ...]
    """Largest difference first; the differences add up to `score_difference`."""

    def grid(self) -> Grid:
        """One row per contribution."""
        rows: list[tuple[str, ...]] = [
            (c.words, c.kind, str(c.position), f"{c.chosen:+.3f}", f"{c.runner_up:+.3f}", f"{c.difference:+.3f}")
            for c in self.contributions
        ]
        rows.append(("total", "", "", "", "", f"{self.score_difference:+.3f}"))
        title = f"Position {self.position}: {self.label} ({self.probability:.3f})"
        if self.runner_up:
            title += f" rather than {self.runner_up} ({self.runner_up_probability:.3f})"
        return Grid(title, ("what", "kind", "position", self.label, self.runner_up, "difference"), tuple(rows))


Part = tuple[str, float, float]
"""The name of something that a score is made of, with what it gives to each of two labellings."""
Step = tuple[int, int]
"""A state and the one after it."""


def explain(
    scores: chain.ChainScores,
    position: int,
    tags: TagSet,
    state_labels: IntArray | None = None,
    parts: Callable[[int, int, int], Iterable[Part]] | None = None,
    step_parts: Callable[[int, Step, Step], Iterable[Part]] | None = None,
    *,
    tokens: Sequence[object] = (),
    words: Callable[[str], str] = str,
) -> Explanation:
    """Compare the best labelling of one sequence with the best that has another label at `position`.

    Args:
        scores: of the sequence.
        position: of the token that is asked about.
        tags: the labels.
        state_labels: the label that each state stands for; None if the states are the labels.
        parts: from a position and two states there to what their emissions are made of.
        step_parts: from a position and two steps into it to what their edges are made of.
        tokens: what emissions are called that have no parts; default: their positions.
        words: from the name of a part to what it says.

    """
    N = len(scores.emissions)
    if not 0 <= position < N:
        raise ModelError(f"position must be in 0..{N - 1} of {number_of(N, 'token')}, got {position}")
    labels = np.arange(scores.num_labels) if state_labels is None else state_labels
    best = scores.viterbi().tags
    label, marginals = int(labels[best[position]]), sum_by_label(scores.marginals().tokens, state_labels, len(tags))
    allowed = np.ones(scores.emissions.shape, dtype=np.bool_)
    allowed[position] = labels != label
    names, probability = tags.decode(labels[best]), float(marginals[position, label])
    try:
        other = scores.viterbi(allowed=allowed).tags
    except NoPathError:  # an HMM may have seen this word with no other label
        return Explanation(position, names[position], "", probability, 0.0, 0.0, tuple(names), (), ())
    other_names = tags.decode(labels[other])

    contributions: list[Contribution] = []
    for t in np.flatnonzero(best != other).tolist():
        pair = int(best[t]), int(other[t])
        if parts is None:
            name = str(tokens[t]) if len(tokens) else f"token {t}"
            chosen, runner_up = scores.emissions[t, list(pair)].tolist()
            contributions.append(Contribution(t, "emission", name, chosen, runner_up, name))
        else:
            contributions += [Contribution(t, "feature", *part, words=words(part[0])) for part in parts(t, *pair)]
    if step_parts is not None:
        steps = zip(pairwise(best.tolist()), pairwise(other.tolist()), strict=True)
        for t, (step, other_step) in enumerate(steps, start=1):
            if step != other_step:
                different = step_parts(t, step, other_step)
                contributions += [Contribution(t, "step feature", *part, words=words(part[0])) for part in different]

    def moves(path: IntArray, names: list[str]) -> Iterator[tuple[str, float]]:
        """The start, the steps and the end of a path, with their scores; those of edges have parts of their own."""
        steps = scores.steps(path) if step_parts is None else scores.transitions[path[:-1], path[1:]]
        yield f"start -> {names[0]}", float(scores.start[path[0]])
        yield from zip((f"{a} -> {b}" for a, b in pairwise(names)), steps.tolist(), strict=True)
        yield f"{names[-1]} -> end", float(scores.end[path[-1]])

    both = zip(moves(best, names), moves(other, other_names), strict=True)
    for t, ((one, chosen), (two, runner_up)) in enumerate(both):
        if chosen != runner_up or (one != two and chosen):
            name = one if one == two else f"{one} or {two}"
            contributions.append(Contribution(min(t, N - 1), "transition", name, chosen, runner_up, name))
    return Explanation(
        position,
        names[position],
        other_names[position],
        probability,
        float(marginals[position, labels[other[position]]]),
        float(scores.score(best)[0] - scores.score(other)[0]),
        tuple(names),
        tuple(other_names),
        tuple(sorted(contributions, key=lambda c: -abs(c.difference))),
    )

"""Every chain operation by enumeration of all L**T paths, in float64 NumPy.

Written to be obvious, not fast, and shares nothing with the code under test. A path is a tuple of labels; its
score is start + emissions + transitions + edges + end; everything else is a sum over the table of all paths.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np

NEG_INF = -np.inf


@dataclass(frozen=True)
class Case:
    """Chain scores of a ragged batch."""

    emissions: np.ndarray  # [N, L]
    lengths: np.ndarray  # [B]
    transitions: np.ndarray  # [L, L]
    start: np.ndarray  # [L]
    end: np.ndarray  # [L]
    edges: np.ndarray | None = None  # [P, L, L]

    @property
    def num_labels(self) -> int:
        return len(self.start)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """All that there are: edges are left out where there are none."""
        edges = () if self.edges is None else (self.edges,)
        return self.emissions, self.lengths, self.transitions, self.start, self.end, *edges

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """Flat rows -> one array per sequence."""
        bounds = np.concatenate([[0], np.cumsum(self.lengths)])
        return [flat[a:b] for a, b in itertools.pairwise(bounds)]

    def steps(self, b: int) -> np.ndarray:
        """Scores of the transitions between neighbours of one sequence, [T - 1, L, L]."""
        pairs = np.maximum(self.lengths - 1, 0)
        first, count = int(pairs[:b].sum()), int(pairs[b])
        shared = np.repeat(self.transitions[None], count, axis=0)
        return shared if self.edges is None else shared + self.edges[first : first + count]

    def with_allowed(self, allowed: np.ndarray) -> "Case":
        """Forbid every label at every token where `allowed[N, L]` is False."""
        return replace(self, emissions=np.where(allowed, self.emissions, NEG_INF))


@dataclass(frozen=True)
class Paths:
    """All paths of one sequence in lexicographic order, with their scores and probabilities."""

    tags: np.ndarray  # [L**T, T]
    scores: np.ndarray  # [L**T]

    @property
    def log_partition(self) -> float:
        top = self.scores.max()
        return float(top + np.log(np.exp(self.scores - top).sum())) if top > NEG_INF else NEG_INF

    @property
    def probabilities(self) -> np.ndarray:
        return np.exp(self.scores - self.log_partition)


def sequence_score(case: Case, b: int, tags: tuple[int, ...]) -> float:
    """Score of one path of sequence b."""
    return path_sum(case, case.split(case.emissions)[b], case.steps(b), tags)


def path_sum(case: Case, emissions: np.ndarray, steps: np.ndarray, tags: tuple[int, ...]) -> float:
    if not tags:
        return 0.0
    score = case.start[tags[0]] + case.end[tags[-1]]
    score += sum(emissions[t, label] for t, label in enumerate(tags))
    return float(score + sum(steps[t, i, j] for t, (i, j) in enumerate(itertools.pairwise(tags))))


def enumerate_paths(case: Case) -> list[Paths]:
    """Return the table of all paths of each sequence."""
    tables = []
    for b, emissions in enumerate(case.split(case.emissions)):
        tags, steps = list(itertools.product(range(case.num_labels), repeat=len(emissions))), case.steps(b)
        scores = [path_sum(case, emissions, steps, path) for path in tags]
        tables.append(Paths(np.array(tags, dtype=np.int64).reshape(len(tags), -1), np.array(scores)))
    return tables


def has_path(case: Case) -> np.ndarray:
    """Whether each sequence has a valid path, bool [B]."""
    return np.array([paths.scores.max() > NEG_INF for paths in enumerate_paths(case)], dtype=bool)


def log_partition(case: Case) -> np.ndarray:
    return np.array([paths.log_partition for paths in enumerate_paths(case)])


def path_score(case: Case, tags: np.ndarray) -> np.ndarray:
    return np.array([sequence_score(case, b, tuple(path)) for b, path in enumerate(case.split(tags))])


def best_order(paths: Paths) -> np.ndarray:
    """Rows of the valid paths, best first; ties go to the smallest last label, then the one before it, ...

    Scores that differ by rounding only are told apart: tests that rely on ties use scores that add exactly.
    """
    order = np.lexsort([*paths.tags.T, -paths.scores])
    return order[paths.scores[order] > NEG_INF]


def viterbi(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Best tags flat [N] and scores [B]; every sequence must have a valid path."""
    tables = enumerate_paths(case)
    best = [best_order(paths)[0] for paths in tables]
    tags = [paths.tags[row] for paths, row in zip(tables, best, strict=True)]
    scores = [paths.scores[row] for paths, row in zip(tables, best, strict=True)]
    return np.concatenate([np.empty(0, np.int64), *tags]), np.array(scores)


def kbest(case: Case, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each sequence the tags [<=k, T] and scores [<=k] of its best paths in order."""
    result = []
    for paths in enumerate_paths(case):
        rows = best_order(paths)[:k]
        result.append((paths.tags[rows], paths.scores[rows]))
    return result


def token_marginals(case: Case) -> np.ndarray:
    """P(y_t = j), [N, L]."""
    rows = [
        [paths.probabilities[paths.tags[:, t] == j].sum() for j in range(case.num_labels)]
        for paths in enumerate_paths(case)
        for t in range(paths.tags.shape[1])
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, case.num_labels)


def pairwise_marginals(case: Case) -> np.ndarray:
    """P(y_t = i, y_t+1 = j), [P, L, L] over all adjacent pairs of all sequences in order."""
    labels = range(case.num_labels)
    tables = [
        [
            [paths.probabilities[(paths.tags[:, t] == i) & (paths.tags[:, t + 1] == j)].sum() for j in labels]
            for i in labels
        ]
        for paths in enumerate_paths(case)
        for t in range(paths.tags.shape[1] - 1)
    ]
    return np.array(tables, dtype=np.float64).reshape(-1, case.num_labels, case.num_labels)


def expected_counts(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Expected counts over the whole batch: start[L], end[L], transitions[L, L]."""
    L = case.num_labels
    start, end, transitions = np.zeros(L), np.zeros(L), np.zeros((L, L))
    for paths in enumerate_paths(case):
        for path, probability in zip(paths.tags, paths.probabilities, strict=True):
            if len(path):
                start[path[0]] += probability
                end[path[-1]] += probability
            for i, j in itertools.pairwise(path):
                transitions[i, j] += probability
    return start, end, transitions


def entropy(case: Case) -> np.ndarray:
    """Entropy over the paths of each sequence in nats, [B]."""
    positive = [paths.probabilities[paths.probabilities > 0] for paths in enumerate_paths(case)]
    return np.array([-(p * np.log(p)).sum() for p in positive])


def span_log_prob(
    case: Case,
    spans: np.ndarray,
    tags: list[np.ndarray],
    before: np.ndarray | None = None,
    after: np.ndarray | None = None,
) -> np.ndarray:
    """Log P that each span (sequence, begin, end) carries its tags between allowed neighbours, [S]."""
    tables = enumerate_paths(case)
    result = []
    for s, (sequence, begin, end) in enumerate(spans):
        paths = tables[sequence]
        match = (paths.tags[:, begin:end] == tags[s]).all(axis=1)
        if before is not None and begin > 0:
            match &= before[s][paths.tags[:, begin - 1]]
        if after is not None and end < paths.tags.shape[1]:
            match &= after[s][paths.tags[:, end]]
        # A sum of its own, since a ratio of probabilities would underflow where the log does not.
        chosen = Paths(paths.tags[match], paths.scores[match]) if match.any() else None
        result.append(NEG_INF if chosen is None else chosen.log_partition - paths.log_partition)
    return np.array(result, dtype=np.float64)


def weighted_nll(case: Case, tags: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum_t weights[t] * -log P(y_t | y_0 .. y_t-1), [B]; every prefix must have positive probability."""
    result = []
    for paths, path, weight in zip(enumerate_paths(case), case.split(tags), case.split(weights), strict=True):
        prefix = [
            Paths(paths.tags[match], paths.scores[match]).log_partition
            for t in range(len(path) + 1)
            for match in [(paths.tags[:, :t] == path[:t]).all(axis=1)]
        ]
        result.append(sum(w * (prefix[t] - prefix[t + 1]) for t, w in enumerate(weight)))
    return np.array(result, dtype=np.float64)

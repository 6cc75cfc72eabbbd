"""Bonuses of spans against the enumeration of every labelling, for every scheme, legal or not."""

from itertools import product

import numpy as np
import pytest

from trellis.chain import ChainScores
from trellis.lexicon.bonus import Bonuses, SpanStates, with_bonuses
from trellis.tags import Scheme, TagSet, spans_from_tags

TAG_SETS = {
    "IO": TagSet(("O", "I-A", "I-B"), Scheme.IO),
    "IOB1": TagSet(("O", "B-A", "I-A", "I-B"), Scheme.IOB1),
    "IOB2": TagSet(("O", "B-A", "I-A", "B-B", "I-B"), Scheme.IOB2),
    "IOE1": TagSet(("O", "I-A", "E-A"), Scheme.IOE1),
    "IOE2": TagSet(("O", "I-A", "E-A"), Scheme.IOE2),
    "BIOES": TagSet(("O", "B-A", "I-A", "E-A", "S-A", "S-B"), Scheme.BIOES),
    "words": TagSet(("B", "M", "E", "S"), Scheme.BMES),
    "words in IOB2": TagSet(("B", "I"), Scheme.IOB2),
    "typed words": TagSet(("B-N", "M-N", "E-N", "S-N", "B-V", "E-V", "S-V"), Scheme.BMES),
    "PLAIN": TagSet(("N", "V", "D"), Scheme.PLAIN),
}


def random_scores(random, tags, lengths, *, legal, edges=False):
    L, N = len(tags), sum(lengths)
    masks = tags.allowed_transitions()
    transitions, start, end = random.normal(size=(L, L)), random.normal(size=L), random.normal(size=L)
    if legal:
        transitions, start, end = (
            np.where(mask, x, -np.inf) for mask, x in zip(masks, (transitions, start, end), strict=True)
        )
    pairs = random.normal(size=(sum(max(0, n - 1) for n in lengths), L, L)) if edges else None
    return ChainScores(random.normal(size=(N, L)), lengths, transitions, start, end, pairs)


def random_bonuses(random, kinds, lengths, count):
    rows = []
    for _ in range(count):
        sequence = int(random.integers(len(lengths)))
        if lengths[sequence] == 0:
            continue
        begin = int(random.integers(lengths[sequence]))
        end = int(random.integers(begin, lengths[sequence])) + 1
        rows.append((sequence, begin, end, int(random.integers(kinds)), float(random.normal(scale=3))))
    columns = list(zip(*rows, strict=True)) or [()] * 5
    return Bonuses(*(np.array(column, dtype=np.int64) for column in columns[:4]), np.array(columns[4], dtype=float))


def enumerated(scores, tags, kinds, bonuses, b):
    """Every labelling of a sequence with its score, bonuses of its spans included."""
    one = scores.part(b)
    found = {}
    rows = [row for row in zip(*(x.tolist() for x in bonuses), strict=True) if row[0] == b]
    for path in product(range(len(tags)), repeat=len(one.emissions)):
        score = float(one.score(np.array(path, dtype=np.int64))[0])
        if score == -np.inf:
            continue
        spans = {(s.start, s.end, s.label) for s in spans_from_tags(tags.decode(path), tags.scheme)}
        found[path] = score + sum(bonus for _, i, j, kind, bonus in rows if (i, j, kinds[kind]) in spans)
    return found


def check(scores, tags, bonuses, state_labels=None):
    states = SpanStates.of(scores, tags, state_labels)
    seen = []
    for part in with_bonuses(scores, states, bonuses):
        labels = np.arange(len(tags)) if part.state_labels is None else part.state_labels
        chain = part.scores
        log_z, entropy, best = chain.log_partition(), chain.entropy(), chain.viterbi()
        kbest, marginals, drawn = chain.kbest(4), chain.marginals().tokens, chain.sample(5, seed=3)
        at = 0
        for row, b in enumerate(part.sequences.tolist()):
            every = enumerated(scores, tags, states.kinds, bonuses, b)
            T = int(scores.lengths[b])
            own = slice(at, at + T)
            at += T
            weights = np.array(list(every.values()))
            expected = weights.max() + np.log(np.exp(weights - weights.max()).sum())
            np.testing.assert_allclose(log_z[row], expected, rtol=1e-9, atol=1e-9)
            p = np.exp(weights - expected)
            np.testing.assert_allclose(entropy[row], -(p * np.log(p)).sum(), atol=1e-8)
            assert tuple(labels[best.tags[own]]) == max(every, key=every.__getitem__)
            np.testing.assert_allclose(best.scores[row], weights.max())
            order = sorted(every, key=lambda path: -every[path])[:4]
            assert [tuple(labels[path]) for path in kbest.tags[row]] == order
            np.testing.assert_allclose(kbest.scores[row], [every[path] for path in order])
            for t in range(T):
                for label in range(len(tags)):
                    share = sum(q for path, q in zip(every, p, strict=True) if path[t] == label)
                    np.testing.assert_allclose(marginals[own][t, labels == label].sum(), share, atol=1e-9)
            assert all(tuple(labels[path]) in every for path in drawn[:, own])
            seen.append(b)
    assert sorted(seen) == list(range(len(scores.lengths)))


@pytest.mark.parametrize("legal", [True, False], ids=["legal", "free"])
@pytest.mark.parametrize("name", list(TAG_SETS))
def test_bonuses_of_overlapping_and_nested_spans_are_exact_in_every_answer(name, legal):
    tags = TAG_SETS[name]
    random = np.random.default_rng(len(name))
    lengths = [4, 1, 0, 3, 2] if len(tags) > 5 else [5, 1, 0, 4]
    for count in (1, 4, 12):
        scores = random_scores(random, tags, lengths, legal=legal)
        kinds = SpanStates.of(scores, tags, None).kinds
        check(scores, tags, random_bonuses(random, len(kinds), lengths, count))


@pytest.mark.parametrize("name", ["IOB2", "words"])
def test_transitions_that_depend_on_their_place_stay(name):
    tags = TAG_SETS[name]
    random = np.random.default_rng(7)
    scores = random_scores(random, tags, [4, 3], legal=True, edges=True)
    check(scores, tags, random_bonuses(random, 1, [4, 3], 8))


def test_a_sequence_without_a_bonus_keeps_its_chain():
    tags = TAG_SETS["words"]
    scores = random_scores(np.random.default_rng(1), tags, [3, 4, 2], legal=True)
    columns = (np.array([1]), np.array([0]), np.array([2]), np.array([0]), np.array([2.0]))
    parts = list(with_bonuses(scores, SpanStates.of(scores, tags, None), Bonuses(*columns)))
    assert [part.sequences.tolist() for part in parts] == [[0, 2], [1]]
    assert parts[0].state_labels is None
    assert parts[0].scores.num_labels == 4


def test_tracks_that_share_at_most_one_token_share_their_copies():
    tags = TAG_SETS["words"]
    scores = random_scores(np.random.default_rng(1), tags, [9], legal=True)
    begin = np.array([0, 1, 3, 5])
    bonuses = Bonuses(np.zeros(4, dtype=int), begin, begin + 2, np.zeros(4, dtype=int), np.ones(4))
    (part,) = with_bonuses(scores, SpanStates.of(scores, tags, None), bonuses)
    assert part.scores.num_labels == 4 + 4


def test_a_chain_with_states_finer_than_labels_is_rewarded_by_its_labels():
    from trellis.tags import StateMap

    tags = TAG_SETS["IOB2"]
    finer = StateMap.of(tags, Scheme.BIOES)
    random = np.random.default_rng(2)
    masks = finer.allowed_transitions()
    S = len(finer)
    chain = ChainScores(
        random.normal(size=(4, S)), [4], *(np.where(m, random.normal(size=m.shape), -np.inf) for m in masks)
    )
    states = SpanStates.of(chain, tags, finer.finer)
    assert len(states) == S
    bonuses = Bonuses(*(np.array(x) for x in ([0, 0], [1, 1], [3, 4], [0, 0])), np.array([2.0, -1.0]))
    (part,) = with_bonuses(chain, states, bonuses)
    every = {}
    for path in product(range(S), repeat=4):
        score = float(chain.score(np.array(path))[0])
        spans = spans_from_tags(tags.decode(finer.labels[list(path)]), tags.scheme)
        places = {(s.start, s.end) for s in spans if s.label == "A"}
        every[path] = score + 2.0 * ((1, 3) in places) - 1.0 * ((1, 4) in places)
    best = max(every, key=every.__getitem__)
    assert part.state_labels[part.scores.viterbi().tags].tolist() == finer.labels[list(best)].tolist()
    np.testing.assert_allclose(part.scores.log_partition()[0], np.log(np.exp(list(every.values())).sum()))

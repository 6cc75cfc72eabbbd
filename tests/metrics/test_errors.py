from __future__ import annotations

import json

from hypothesis import given

from tests.tags.strategies import relaxed, spans
from trellis.metrics import Mistake, entities, entity_errors, span_errors
from trellis.tags import Scheme, Span


def kinds(gold, predicted):
    return [(error.kind, error.gold, error.predicted) for error in span_errors([gold], [predicted]).errors]


def test_each_kind_by_hand():
    per, loc = Span(0, 2, "PER"), Span(0, 2, "LOC")
    assert kinds([per], [per]) == []
    assert kinds([per], [loc]) == [(Mistake.WRONG_TYPE, per, loc)]
    assert kinds([per], [Span(1, 3, "PER")]) == [(Mistake.WRONG_BOUNDARY, per, Span(1, 3, "PER"))]
    assert kinds([per], [Span(1, 3, "LOC")]) == [(Mistake.WRONG_BOTH, per, Span(1, 3, "LOC"))]
    assert kinds([per], []) == [(Mistake.MISSING, per, None)]
    assert kinds([], [per]) == [(Mistake.SPURIOUS, None, per)]
    assert kinds([per], [Span(2, 3, "PER")]) == [
        (Mistake.MISSING, per, None),
        (Mistake.SPURIOUS, None, Span(2, 3, "PER")),
    ]


def test_a_span_is_used_once_and_the_larger_overlap_wins():
    gold = Span(0, 5, "PER")
    assert kinds([gold], [Span(0, 1, "PER"), Span(2, 5, "PER")]) == [
        (Mistake.SPURIOUS, None, Span(0, 1, "PER")),
        (Mistake.WRONG_BOUNDARY, gold, Span(2, 5, "PER")),
    ]


def test_a_split_span_is_one_wrong_boundary_and_one_spurious():
    report = entity_errors([["B-A", "I-A", "O"]], [["B-A", "B-A", "O"]], scheme=Scheme.IOB2)
    counts = report.counts()
    assert counts[Mistake.WRONG_BOUNDARY] == 1
    assert counts[Mistake.SPURIOUS] == 1
    assert report.correct == 0


@relaxed
@given(spans(), spans())
def test_every_span_is_correct_or_in_exactly_one_mistake(left, right):
    gold, predicted = left[0], right[0]
    report = span_errors([gold], [predicted])
    assert sorted([e.gold for e in report.errors if e.gold]) == sorted({*gold} - {*predicted})
    assert sorted([e.predicted for e in report.errors if e.predicted]) == sorted({*predicted} - {*gold})
    assert report.correct == len({*gold} & {*predicted})
    assert sum(report.counts().values()) == len(report.errors)


def test_tables_and_dicts_hold_the_counts():
    report = entity_errors([["B-A", "O", "B"]], [["B-B", "O", "O"]])
    assert report.to_dict()["counts"] == {
        "wrong type": 1,
        "wrong boundary": 0,
        "wrong both": 0,
        "missing": 1,
        "spurious": 0,
    }
    assert json.loads(json.dumps(report.to_dict()))["errors"][0]["predicted"] == {"start": 0, "end": 1, "label": "B"}
    assert report.grid().columns == ("mistake", "all", "_", "A")
    assert report.grid().rows[0] == ("wrong type", "1", "0", "1")


def every_pair(left, right):
    """The pairs that share tokens or adjoin, by trying all."""
    pairs = [(i, j) for i in range(len(left)) for j in range(len(right))]
    return {(i, j) for i, j in pairs if left[i].start <= right[j].end and right[j].start <= left[i].end}


@relaxed
@given(spans(), spans())
def test_pairs_are_looked_for_only_where_spans_touch(left, right):
    found = list(entities._touching(left[0], right[0]))
    assert len(found) == len(set(found))
    assert set(found) == every_pair(left[0], right[0])


def test_a_long_sentence_of_wrong_spans_is_not_compared_all_with_all(monkeypatch):
    compared = []
    overlap = entities._overlap
    monkeypatch.setattr(entities, "_overlap", lambda a, b: compared.append(1) or overlap(a, b))
    gold, predicted = [Span(i, i + 2, "X") for i in range(0, 4000, 2)], [Span(i, i + 2, "X") for i in range(1, 4001, 2)]
    assert len(kinds(gold, predicted)) == 2000
    assert len(compared) < 30_000

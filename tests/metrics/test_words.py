from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tags.strategies import relaxed
from trellis.errors import DataError
from trellis.metrics import segmentation_counts, segmentation_scores, words
from trellis.metrics.words import common_words


def cut(text, breaks):
    places = [0, *sorted(b for b in breaks if 0 < b < len(text)), len(text)]
    return [text[a:b] for a, b in pairwise(places) if a < b]


texts = st.text("ab", min_size=1, max_size=12)
pairs = texts.flatmap(
    lambda text: st.tuples(*(st.sets(st.integers(1, 11)).map(lambda breaks: cut(text, breaks)) for _ in range(2)))
)


def longest(left, right):
    """The usual table, as slow and plain as it gets."""
    table = np.zeros((len(left) + 1, len(right) + 1), dtype=int)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            table[i + 1, j + 1] = table[i, j] + 1 if a == b else max(table[i, j + 1], table[i + 1, j])
    return table[-1, -1]


def test_the_arithmetic_of_the_sighan_scorer_by_hand():
    gold = [["扬帆", "远东", "做", "与", "中国", "合作", "的", "先行"], ["希腊", "的", "经济", "结构", "较", "特殊"]]
    guess = [["扬帆", "远东", "做", "与中国", "合作", "的", "先", "行"], ["希腊", "的", "经济结构", "较", "特殊"]]
    known = {"做", "与", "中国", "合作", "的", "经济", "结构", "较", "特殊"}
    scores = segmentation_scores(gold, guess, vocabulary=known)
    # 14 gold words, 13 predicted; wrong in gold: 与 中国 先行 经济 结构; unknown: 扬帆 远东 先行 希腊.
    assert (scores.words.gold, scores.words.predicted, scores.words.correct) == (14, 13, 9)
    assert scores.words.recall == 9 / 14
    assert scores.words.precision == 9 / 13
    assert scores.words.f1 == pytest.approx(2 * (9 / 13) * (9 / 14) / (9 / 13 + 9 / 14))
    assert scores.oov_words == 4
    assert scores.oov_rate == 4 / 14
    assert scores.oov_recall == 3 / 4
    assert scores.iv_recall == 6 / 10
    np.testing.assert_array_equal(segmentation_counts(gold, guess), [[5, 8, 8], [4, 5, 6]])


def test_a_repeated_word_counts_wherever_it_is():
    assert segmentation_scores([["看", "看看"]], [["看看", "看"]]).words.correct == 1


@relaxed
@given(pairs)
def test_common_words_are_a_longest_common_subsequence(pair):
    gold, guess = pair
    places = common_words(gold, guess)
    assert places == sorted(set(places))
    assert len(places) == longest(gold, guess)
    rest = iter(guess)
    assert all(gold[place] in rest for place in places)


@pytest.mark.skipif(shutil.which("diff") is None, reason="no diff program here")
@pytest.mark.parametrize("seed", range(20))
def test_right_words_are_what_diff_leaves_unchanged(seed, tmp_path):
    rng = np.random.default_rng(seed)
    text = "".join(rng.choice(list("甲乙丙丁戊己庚辛"), 40))
    gold, guess = (cut(text, set(np.flatnonzero(rng.random(40) < 0.6))) for _ in range(2))
    for name, side in (("gold", gold), ("guess", guess)):
        (tmp_path / name).write_text("".join(f"{word}\n" for word in side))
    formats = ["--unchanged-line-format=%L", "--old-line-format=", "--new-line-format="]
    command = ["diff", "--minimal", *formats, tmp_path / "gold", tmp_path / "guess"]
    same = subprocess.run(command, capture_output=True, text=True, check=False)
    assert segmentation_scores([gold], [guess]).words.correct == len(same.stdout.splitlines())


def test_perfect_and_empty():
    assert segmentation_scores([["a", "b"]], [["a", "b"]]).words.f1 == 1.0
    nothing = segmentation_scores([[]], [[]], vocabulary=set())
    assert (nothing.words.f1, nothing.oov_rate, nothing.oov_recall, nothing.iv_recall) == (0.0, 0.0, None, None)
    assert segmentation_counts([], []).shape == (0, 3)


def test_tables_show_the_vocabulary_only_where_there_is_one():
    gold = [["a", "b"]]
    assert "vocabulary" not in segmentation_scores(gold, gold).to_markdown()
    assert "out of vocabulary" in segmentation_scores(gold, gold, vocabulary={"a"}).to_markdown()


def test_what_cannot_be_scored_is_named():
    with pytest.raises(DataError, match=r"sentence 1: .* different texts from character 2: 'c' and 'd'"):
        segmentation_scores([["a"], ["ab", "c"]], [["a"], ["a", "bd"]])
    with pytest.raises(DataError, match=r"from character 1: 'b' and ''"):
        segmentation_scores([["ab"]], [["a"]])
    with pytest.raises(DataError, match="gold has 1 sentence, predicted has 0"):
        segmentation_scores([["a"]], [])


def test_a_part_ends_where_both_have_a_boundary_though_one_side_has_few_words():
    with mock.patch.object(words, "_WINDOW", 4):
        many, few = ["a", "b", "c", "d", "ef", "g", "h"], ["abcd", "ef", "gh"]
        assert common_words(many, few) == [4]
        assert common_words(few, many) == [1]


@relaxed
@given(pairs, st.integers(1, 4))
def test_a_long_sentence_is_aligned_part_by_part(pair, window):
    gold, guess = pair
    with mock.patch.object(words, "_WINDOW", window):
        places = common_words(gold, guess)
        parts = list(words._windows(gold, guess))
    assert places == sorted(set(places))
    rest = iter(guess)
    assert all(gold[place] in rest for place in places)

    def spans(words):
        ends = np.cumsum([len(word) for word in words])
        return {(end - len(word), end) for word, end in zip(words, ends, strict=True)}

    assert len(spans(gold) & spans(guess)) <= len(places) <= longest(gold, guess)
    assert all(len(left) <= window and len(right) <= window for _, left, right in parts)
    assert [gold[start : start + len(left)] for start, left, _ in parts] == [left for _, left, _ in parts]


def test_words_without_letters_end_the_parts_too():
    with mock.patch.object(words, "_WINDOW", 2):
        assert common_words(["ab", "", ""], ["a", "b", *[""] * 9]) == [1, 2]
        assert common_words([], [""] * 9) == []

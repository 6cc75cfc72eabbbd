"""`tagger.cut`: the words of raw texts, which are the spans of `tagger(text)`, made without them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis import CRF, Lexicon, Sentence, _native
from trellis.corpus import sentence_from_words, to_characters
from trellis.errors import DataError, ModelError
from trellis.models import TextSpan

WORDS = ["北京 大学 生 在 这里", "他 在 北京 生活", "大学生 的 生活", "产品 和 服务", "👍🏽 很 好", "e\u0301 是 字"]
TEXTS = st.text(st.sampled_from("北京大学生在这里他的活产品和服务a1 \u3000\n,，👍🏽🇨🇳\u0301\u200d"), max_size=12)


@pytest.fixture(scope="module")
def segmenter() -> CRF:
    return CRF(features="seg", c2=0.1).fit([sentence_from_words(line.split()) for line in WORDS])


@pytest.fixture(scope="module")
def joint() -> CRF:
    tagged = [(line.split(), ["N" if len(word) > 1 else "X" for word in line.split()]) for line in WORDS]
    return CRF(features="seg", c2=0.1).fit([to_characters(Sentence(*pair)) for pair in tagged])


@given(st.lists(TEXTS, max_size=5))
def test_words_are_those_of_the_tagged_text(segmenter: CRF, texts: list[str]) -> None:
    assert segmenter.cut(texts) == [tagged.words for tagged in segmenter(texts)]
    assert [segmenter.cut(text) for text in texts] == segmenter.cut(texts)


@given(st.lists(TEXTS, max_size=5))
def test_tags_come_with_the_words_of_a_joint_model(joint: CRF, texts: list[str]) -> None:
    words = [tagged.to_words() for tagged in joint(texts)]
    assert joint.cut(texts, tags=True) == [list(zip(one.tokens, one.tags or (), strict=True)) for one in words]
    assert joint.cut(texts) == [list(one.tokens) for one in words]


def test_a_lexicon_and_another_way_of_splitting_count(segmenter: CRF) -> None:
    lexicon = Lexicon([("品和服", None, "must")])
    assert "品和服" in segmenter.cut("产品和服务", lexicon=lexicon)
    assert segmenter.cut("产品和服务") == ["产品", "和", "服务"]
    free = CRF(features="seg", scheme="bmes", tokenizer=r"regex:\w", constraints=False).fit([list("ab")], [["B", "E"]])
    assert free.cut("a-b") == free("a-b").words
    words = [sentence_from_words(line.split()) for line in WORDS]
    regex = CRF(features="seg", c2=0.1, tokenizer=r"regex:\w").fit(words)
    assert "品和服" in regex.cut("产品和服务", lexicon=lexicon)
    regex.lexicon_ = lexicon
    assert "品和服" in regex.cut("产品和服务")
    assert regex.cut("产品和服务", lexicon=None) == ["产品", "和", "服务"]


@pytest.mark.parametrize("scheme", ["bio", "bmes"])
def test_labels_that_break_the_scheme_are_read_as_spans_are(scheme: str) -> None:
    labels = {"bio": ["B", "I", "I", "B"], "bmes": ["B", "M", "E", "S"]}[scheme]
    free = CRF(features="seg", scheme=scheme, constraints=False, learn_scheme="data", max_iterations=2)
    free.fit([list("abcd"), list("dcba")], [labels, labels[::-1]])
    texts = ["".join(np.random.default_rng(seed).choice(list("abcd"), 9)) for seed in range(40)]
    assert free.cut(texts) == [tagged.words for tagged in free(texts)]


def test_what_cannot_be_cut_is_named(segmenter: CRF) -> None:
    with pytest.raises(DataError, match="text 1 must be a string, got 3"):
        segmenter.cut(["北京", 3])  # type: ignore[list-item]
    with pytest.raises(ModelError, match="only say where words begin and end: it has no tags of words"):
        segmenter.cut("北京", tags=True)
    names = CRF().fit([["Ann", "left"]], [["B-PER", "O"]])
    with pytest.raises(ModelError, match=r"cut needs a model that makes words .* this one has O, B-PER, I-PER"):
        names.cut("Ann left")
    assert segmenter.cut([]) == []
    assert segmenter.cut(" ") == []


def test_native_code_refuses_what_does_not_fit() -> None:
    starts, numbers = np.ones((3, 3), dtype=np.bool_), {"B": 0, "E": 1}
    assert _native.cut_words(["ab"], [["a", "b"]], [["B", "E"]], numbers, starts, ["x", "y"]) == [
        [("a", "x"), ("b", "y")]
    ]
    for tokens, labels, kinds in (
        ([["a", "c"]], [["B", "E"]], None),
        ([["a", "bb"]], [["B", "E"]], None),
        ([["a", ""]], [["B", "E"]], None),
        ([["a"]], [["B", "E"]], None),
        ([["a", "b"]], [["B", "X"]], None),
        ([["a", "b"]], [["B", "E"]], ["x"]),
        ([], [["B", "E"]], None),
    ):
        with pytest.raises(ValueError, match=r"a token is not in its text|expected|a label has no number"):
            _native.cut_words(["ab"], tokens, labels, numbers, starts, kinds)
    one, p = np.array([1]), np.array([0.5])
    spans = _native.TextSpans(TextSpan, one, one + 1, one - 1, ("N",), p)
    assert spans.between("a b", ["a", "b"], 0, 1) == (TextSpan(2, 3, "N", "b", 0.5),)
    with pytest.raises(ValueError, match="an end, a kind and a probability for each span"):
        _native.TextSpans(TextSpan, one, one, one, ("N",), np.empty(0))
    for begin, end, kind, stop in (
        (one, one, one - 1, 1),
        (one, one + 2, one - 1, 1),
        (one, one + 1, one, 1),
        (one, one + 1, one - 1, 2),
    ):
        with pytest.raises(ValueError, match=r"spans must lie in their text|there are no such spans"):
            _native.TextSpans(TextSpan, begin, end, kind, ("N",), p).between("a b", ["a", "b"], 0, stop)

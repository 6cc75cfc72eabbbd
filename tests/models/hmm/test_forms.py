"""Unknown words, and the real corpora where they are at hand."""

import gc
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from trellis import HMM, corpus
from trellis.metrics import segmentation_scores
from trellis.models.hmm.estimation import Forms, look, shape
from trellis.text import Sentence

DATA = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Xerox-1984", "Xx-d"),
        ("USA", "X"),
        ("iPhone", "xXx"),
        ("3.14", "d.d"),
        ("中文", "o"),
        ("", ""),
        ("…", "…"),
        ("a\n\nb", "x\n\nx"),
        ("\n1", "\nd"),
    ],
)
def test_shape(word, expected) -> None:
    assert shape(word) == expected


def test_long_unknown_words_leave_nothing_behind() -> None:
    model = HMM().fit([Sentence(["a", "b"], ["X", "Y"]), Sentence(["c"], ["X"])])
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        model.predict([[f"{number}".ljust(1 << 15, "x")] for number in range(150)])
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 1 << 18
    finally:
        tracemalloc.stop()


def test_forms_go_from_general_to_special() -> None:
    assert list(look("Oddly")) == ["", "Xx:", "Xx:y", "Xx:ly", "Xx:dly", "Xx:ddly", "Xx:oddly"]
    assert list(look("")) == ["", ":"]


WORDS = ["walked", "talked", "jumped", "house", "table", "London", "the"]
# columns: noun, verb, name, determiner; "the" is too frequent to say anything about unknown words
COUNTS = np.array(
    [[0, 1, 0, 0], [0, 2, 0, 0], [0, 1, 0, 0], [3, 0, 0, 0], [2, 0, 0, 0], [0, 0, 2, 0], [0, 0, 0, 99]], dtype=float
)


class TestForms:
    def test_a_posterior_is_a_distribution_led_by_the_form(self) -> None:
        forms = Forms.learn(WORDS, COUNTS)
        for word, tag in (("baked", 1), ("Leeds", 2), ("mouse", 0), ("The", 3)):
            p = forms.posterior(word)
            assert p.sum() == pytest.approx(1.0)
            assert p.argmax() == tag

    def test_frequent_words_teach_no_forms(self) -> None:
        forms = Forms.learn(WORDS, COUNTS)
        assert not any(key.endswith(":he") for key in forms.keys)
        assert "=the" in forms.keys

    def test_a_known_word_keeps_to_its_counts(self) -> None:
        forms = Forms.learn(WORDS, COUNTS)
        own = COUNTS[WORDS.index("the")]
        assert forms.smoothed_posterior("the", own)[3] > 0.98

    def test_in_lower_case_a_word_does_not_back_off_to_itself(self) -> None:
        words, counts = ["abc", "xyz"], np.array([[5.0, 0.0], [0.0, 5.0]])
        forms = Forms.learn(words, counts)
        kept = [row for row, key in enumerate(forms.keys) if key != "=abc"]
        without = Forms(tuple(forms.keys[row] for row in kept), forms.counts[kept], forms.prior)
        expected = (counts[0] + without.posterior("abc")) / 6
        np.testing.assert_allclose(forms.smoothed_posterior("abc", counts[0]), expected)


SENTENCES = [
    Sentence(["the", "dog", "walked"], ["DET", "NOUN", "VERB"]),
    Sentence(["the", "cats", "jumped"], ["DET", "NOUN", "VERB"]),
    Sentence(["a", "bird", "talked"], ["DET", "NOUN", "VERB"]),
]


def test_unknown_words_are_told_apart_by_what_they_look_like() -> None:
    model = HMM().fit(SENTENCES)
    assert model.predict([["the", "fish", "baked"], ["zzzed"]]) == [["DET", "NOUN", "VERB"], ["VERB"]]
    assert np.isfinite(model.log_likelihood([["quite", "Unknown", "1984"]])).all()


def test_without_a_model_of_them_unknown_words_are_impossible() -> None:
    model = HMM(unknown=False).fit(SENTENCES)
    assert model.log_likelihood([["the", "fish"]])[0] == -np.inf
    numbers = HMM().fit([[1, 2], [2]], [["a", "b"], ["b"]])
    assert numbers.model_.forms is None
    with pytest.raises(ValueError, match="needs observations that are strings"):
        HMM(unknown=True).fit([[1, 2]], [["a", "b"]])


def test_an_unknown_word_is_as_probable_as_all_unknown_words_are() -> None:
    """Averaged over forms, emissions of unknown words are the last column: the Bayes factors have mean one."""
    model = HMM().fit(SENTENCES)
    forms = model.model_.forms
    np.testing.assert_allclose(np.exp(model.chain_scores([[""]]).emissions[0]) / model.emissions_[:, -1], 1, atol=0.2)
    assert forms.posterior("").sum() == pytest.approx(1.0)


def read(folder: str, name: str, **options):
    path = DATA / folder / name
    if not path.exists():
        pytest.skip(f"{path} is not there: the corpora are not part of the project")
    return list(corpus.read(path, **options))


def test_english_tags_reach_the_published_accuracy() -> None:
    train, dev = (read("ud_english_ewt", f"en_ewt-ud-{part}.conllu") for part in ("train", "dev"))
    assert HMM().fit(train).score(dev) >= 0.920


def test_order_2_tags_english_better() -> None:
    train, dev = (read("ud_english_ewt", f"en_ewt-ud-{part}.conllu") for part in ("train", "dev"))
    assert HMM(order=2).fit(train).score(dev) >= 0.927


def test_chinese_words_are_found() -> None:
    names = [f"udc-simplified-v1.4-{part}.conll" for part in ("train", "dev")]
    train, dev = (read("ud_chinese_gsd", name, format="conllu", tags="form") for name in names)
    predicted = HMM().fit(train).tag(dev)
    gold, found = ([corpus.words_from_sentence(s) for s in part] for part in (dev, predicted))
    assert segmentation_scores(gold, found).words.f1 >= 0.81

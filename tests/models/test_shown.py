"""What `print`, `repr`, `dir` and `help` show to a person, and the warning about words that are taken for texts."""

import importlib
import pydoc
import re
import warnings

import pytest

import trellis
from trellis import CRF, HMM, NeuralTagger, Sentence, corpus, demo
from trellis.errors import DataWarning

SENTENCES = [Sentence(["Ada", "lives", "in", "Rome"], ["B-PER", "O", "O", "B-LOC"]), Sentence(["Hi"], ["O"])]


@pytest.fixture(scope="module")
def tagger():
    return CRF(features="ner", c2=0.1).fit(SENTENCES)


def test_a_fitted_tagger_says_what_it_learned_from_what(tagger, tmp_path):
    assert repr(CRF(c2=0.1)) == "CRF(c2=0.1)"
    text = repr(tagger)
    assert re.fullmatch(
        r"<CRF\(c2=0.1\); IOB2 spans: LOC, PER; \d+ features, \d+ weights; learned from 2 sentences, 5 tokens>", text
    )
    tagger.save(tmp_path / "model")
    assert repr(trellis.load(tmp_path / "model")).partition(";")[2] == text.partition(";")[2]
    plain = HMM().fit([["a", "b"]], [["X", "Y"]])
    assert repr(plain) == "<HMM(); labels: X, Y; 2 symbols; learned from 1 sentence, 2 tokens>"


def test_results_are_tables_and_corpora_are_lines(tagger, tmp_path):
    scores = tagger.evaluate(SENTENCES)
    assert repr(scores) == str(scores) == scores.grid().to_text()
    assert repr(tagger.top_features("B-PER", 3)).startswith("Features\n\n| feature")
    corpus.write(tmp_path / "a.conll", SENTENCES)
    assert repr(corpus.read(tmp_path / "a.conll")) == "Corpus(2 sentences, 5 tokens, 2 with tags, conll)"
    assert len(repr(demo.english())) < 100
    assert len(repr(tagger.history_)) < 150


@pytest.mark.parametrize("name", ["trellis", "trellis.models", "trellis.metrics", "trellis.nn", "trellis.distributed"])
def test_dir_lists_every_exported_name(name):
    module = importlib.import_module(name)
    assert set(module.__all__) <= set(dir(module))
    assert all(hasattr(module, one) for one in dir(module))


@pytest.mark.parametrize("family", [CRF, HMM, NeuralTagger])
def test_help_begins_with_an_example_and_the_settings_that_matter(family):
    text = pydoc.plain(pydoc.render_doc(family))
    places = [text.index(part) for part in (".fit(sentences", "The settings that matter most:", "Further settings:")]
    assert places == sorted(places)
    assert len(family.main_settings) == 10
    for name in family.main_settings:
        assert f"{name}: " in text[places[1] : places[2]]
    others = {name.partition("__")[0] for name in family().get_params()} - {*family.main_settings}
    assert all(f" {name}: " in text[places[2] :] for name in others if not any(name in m for m in family.main_settings))


def test_a_type_stands_for_all_its_states(tagger):
    of_type = tagger.top_features("PER", 500).features
    assert {feature.label for feature in of_type} == {"S-PER"}
    assert tagger.top_features("B-PER", 500).features == of_type
    assert 'word is "Ada"' in {feature.words for feature in of_type}


def test_words_that_are_taken_for_texts_are_a_warning(tagger):
    with pytest.warns(DataWarning, match=r"3 texts of one word each, Hi, ,, I: .* call predict"):
        tagger(["Hi", ",", "I"])
    segmenter = CRF(features="seg").fit([list("ab")], [["B", "E"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger(["Hi there", "I"])
        tagger(["Hi"])
        tagger([["Hi"], ["I"]])
        segmenter(["ab", "ba"])

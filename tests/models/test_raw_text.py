"""Raw text through a tagger: its own tokenizer, documents, white space in Chinese, widths, and views of the answers."""

import pytest

import trellis
from trellis import CRF, HMM
from trellis.errors import ConfigError, ModelError
from trellis.text import Sentence, splitter, tokenize, tokenizer

X = [["Anna", "went", "to", "New", "York", "."], ["It", "'s", "$", "5"], ["Do", "n't", "see", "Bob", "."]]
Y = [["B-PER", "O", "O", "B-LOC", "I-LOC", "O"], ["O"] * 4, ["O", "O", "O", "B-PER", "O"]]
WORDS = [("我喜欢北京", "SBEBE"), ("他在北京", "SSBE"), ("北京很大", "BESS"), ("２０年，", "BESS")]


@tokenizer
def spaces(text: str) -> list[str]:
    """White space."""
    return text.split()


@pytest.fixture(scope="module")
def tagger() -> CRF:
    return CRF(max_iterations=30).fit(X, Y)


@pytest.fixture(scope="module")
def segmenter() -> CRF:
    return CRF(features="seg", max_iterations=40).fit([Sentence(list(text), list(tags)) for text, tags in WORDS])


def test_raw_text_is_split_like_the_training_data(tagger) -> None:
    assert tagger("Anna doesn't owe $5.").tokens == ("Anna", "does", "n't", "owe", "$", "5", ".")
    whole = CRF(max_iterations=3).fit([["I", "don't", "know"], ["it's", "$5"]], [["O"] * 3, ["B-X", "O"]])
    assert whole("it's $5").tokens == ("it's", "$5")


def test_a_corpus_that_the_plain_reader_split_is_split_plainly_again() -> None:
    sentences = [tokenize("Don't e-mail Anna's dog.").with_tags(["O"] * 4 + ["B-PER", "O", "O"])]
    assert CRF(max_iterations=3).fit(sentences).tokenizer_ == splitter("words")


@pytest.mark.parametrize("family", [CRF, HMM])
@pytest.mark.parametrize("own", [r"regex:\w+", "whitespace", f"{__name__}:spaces", spaces])
def test_an_own_tokenizer_is_used_and_stored(family, own, tmp_path) -> None:
    options = {"max_iterations": 3}
    by_setting = isinstance(own, str)
    model = family(tokenizer=own, **options).fit(X, Y) if by_setting else family(**options).fit(X, Y, tokenizer=own)
    model.save(tmp_path / "m")
    loaded = trellis.load(tmp_path / "m")
    assert loaded.tokenizer_ == model.tokenizer_
    assert loaded("Anna - it's").tokens == splitter(own).sentence("Anna - it's").tokens


def test_a_tokenizer_that_cannot_be_stored_is_refused_before_the_training(tmp_path) -> None:
    with pytest.raises(ConfigError, match="cannot be stored with a model"):
        CRF().fit(X, Y, tokenizer=lambda text: text.split(), folder=tmp_path / "m")


class TestDocuments:
    TEXT = "Anna went to New York. Bob's in New\nYork.\n\nDon't see Anna!"

    def test_offsets_are_those_of_the_document(self, tagger) -> None:
        found = tagger(self.TEXT, sentences=True)
        assert found.text == self.TEXT
        assert all(self.TEXT[span.start : span.end] == span.text for span in found)
        assert [self.TEXT[a:b] for a, b in found.sentence.offsets] == list(found.tokens)

    def test_each_sentence_is_tagged_by_itself(self, tagger) -> None:
        parts = tagger(["Anna went to New York.", "Bob's in New\nYork.", "Don't see Anna!"])
        found = tagger(self.TEXT, sentences=True)
        assert found.tags == sum((part.tags for part in parts), ())
        assert found.probabilities == pytest.approx(sum((part.probabilities for part in parts), ()))
        assert [s.probability for s in found] == pytest.approx([s.probability for part in parts for s in part])

    def test_texts_without_a_sentence_and_other_inputs_keep_their_places(self, tagger) -> None:
        given = ["", "Anna. Bob.", ["Anna", "went"], " \n"]
        found = tagger.annotate(given, sentences=True)
        assert [one.tokens for one in found] == [(), ("Anna", ".", "Bob", "."), ("Anna", "went"), ()]

    def test_known_labels_are_for_single_sentences(self, tagger) -> None:
        with pytest.raises(ModelError, match="known labels belong to the tokens of one sentence"):
            tagger.annotate(["Anna"], known=[["O"]], sentences=True)


class TestChinese:
    @pytest.mark.parametrize("gap", [" ", "\n", "\u3000", "\t "])
    def test_no_word_runs_across_white_space(self, segmenter, gap) -> None:
        assert segmenter("我喜欢北京").words[-1] == "北京"
        assert segmenter(f"我喜欢北{gap}京").words[-2:] == ["北", "京"]

    def test_tokens_of_the_user_may_have_spaces_between_them(self, segmenter) -> None:
        spaced = tokenize("北 京 很 大", "whitespace")
        assert segmenter(spaced).words[0] == "北 京"
        assert segmenter.posterior([spaced], raw=True).best()[0][:2] == ["S", "S"]

    def test_full_width_and_half_width_forms_get_the_same_answer(self, segmenter) -> None:
        narrow, wide = (segmenter.marginals([list(text)])[0] for text in ("20年,", "２０年，"))
        assert (narrow == wide).all()
        assert segmenter("２０年，").words == ["２０", "年", "，"]  # what is shown stays
        plain = CRF(features="seg", max_iterations=40, fold_width=False)
        plain.fit([Sentence(list(text), list(tags)) for text, tags in WORDS])
        wide, narrow = (plain.marginals([list(text)])[0] for text in ("２０年，", "20年,"))
        assert abs(wide - narrow).max() > 1e-3

    def test_explanations_see_what_the_model_sees(self, segmenter) -> None:
        assert segmenter.feature_names(list("２０")) == segmenter.feature_names(list("20"))


def test_views_keep_line_breaks_and_give_records(tagger) -> None:
    found = tagger("Anna\nwent to New York.")
    assert "white-space:pre-wrap" in found._repr_html_()
    assert found.to_records()[0] == found.spans[0]._asdict()
    assert "<svg" in tagger.history_._repr_html_()
    assert len(tagger.history_.to_records()) == len(tagger.history_.steps)
    for view in (tagger.top_features(), tagger.transitions(), tagger.explain(X[0], 0), tagger.evaluate(X, Y)):
        assert view._repr_html_().startswith(("<table>", "<svg"))
        assert view.to_records()

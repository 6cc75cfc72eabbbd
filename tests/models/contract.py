"""The Tagger contract as a suite: subclass `TaggerContract` in a test module, say how to make the model, and all
promises of `trellis.models.tagger` are checked for that family.

    class TestCRF(TaggerContract):
        def make(self, **options):
            return CRF(features="ner", **options)
"""

import inspect
import itertools
import os
import pickle

import numpy as np
import pytest

from trellis import chain, models
from trellis.errors import (
    ConfigError,
    DataError,
    DataWarning,
    ModelError,
    NotFittedError,
    TagError,
    TrellisError,
)
from trellis.lexicon import Lexicon
from trellis.tags import Scheme, Span, validate_tags
from trellis.text import Sentence

TRAIN = [
    Sentence(tokens.split(), tags.split())
    for tokens, tags in [
        ("Anna Smith lives in New York .", "B-PER I-PER O O B-LOC I-LOC O"),
        ("She met Paul in Rome .", "O O B-PER O B-LOC O"),
        ("Rome is old .", "B-LOC O O O"),
        ("Paul Jones likes New Delhi .", "B-PER I-PER O B-LOC I-LOC O"),
        ("In Paris , Anna slept .", "O B-LOC O B-PER O O"),
        ("It rained .", "O O O"),
    ]
]
POS = [
    Sentence(["the", "dog", "barks"], ["DET", "NOUN", "VERB"]),
    Sentence(["a", "cat", "sleeps"], ["DET", "NOUN", "VERB"]),
]


def path_probabilities(model, x, paths):
    """One call a path: in one batch the copies of a sentence may differ in rounding from the sentence alone."""
    return np.array([model.sequence_probabilities([x], [path])[0] for path in paths])


class TaggerContract:
    """Promises of every family; `make` gives a fresh model with the given settings."""

    rounding = 1e-12
    """How far apart the answers for a sentence may be that comes alone and in a batch."""
    copies = 40
    """Of the training sentences, to give several threads something to do."""

    def make(self, **options):
        raise NotImplementedError

    @pytest.fixture
    def model(self):
        return self.make().fit(TRAIN)

    def test_training_sentences_are_learnt(self, model):
        assert [sentence.tags for sentence in model.tag(TRAIN)] == [sentence.tags for sentence in TRAIN]

    def test_fit_takes_sentences_or_inputs_with_labels(self, model):
        X, y = [s.tokens for s in TRAIN], [s.tags for s in TRAIN]
        other = self.make().fit(X, y)
        np.testing.assert_array_equal(other.chain_scores(X).emissions, model.chain_scores(X).emissions)

    def test_the_same_seed_gives_the_same_model_bit_for_bit(self, model, tmp_path):
        again = self.make().fit(TRAIN)
        model.save(tmp_path / "a")
        again.save(tmp_path / "b")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_any_number_of_threads_gives_the_same_model_bit_for_bit(self, tmp_path):
        before = chain.get_num_threads()
        try:
            for threads in (1, 3):
                chain.set_num_threads(threads)
                self.make().fit(TRAIN * self.copies).save(tmp_path / str(threads))
        finally:
            chain.set_num_threads(before)
        assert (tmp_path / "1").read_bytes() == (tmp_path / "3").read_bytes()

    def test_tags_are_valid_by_construction(self, model):
        random = np.random.default_rng(0)
        words = [word for s in TRAIN for word in s.tokens]
        X = [random.choice(words, size=random.integers(1, 9)).tolist() for _ in range(200)]
        for tags in model.predict(X):
            assert not validate_tags(tags, Scheme.IOB2)
        for options in model.kbest(X[:20], 5):
            assert all(not validate_tags(option.tags, Scheme.IOB2) for option in options)

    def test_a_batch_gives_what_single_sentences_give(self, model):
        X = [s.tokens for s in TRAIN]
        assert model.predict(X) == [model.predict([x])[0] for x in X]
        for together, x in zip(model.marginals(X), X, strict=True):
            np.testing.assert_allclose(together, model.marginals([x])[0], rtol=self.rounding)
        y = [s.tags for s in TRAIN]
        alone = [path_probabilities(model, x, [tags])[0] for x, tags in zip(X, y, strict=True)]
        np.testing.assert_allclose(model.sequence_probabilities(X, y), alone, rtol=self.rounding)

    def test_an_empty_sentence_gives_no_tags(self, model):
        assert model.predict([[], ["Rome"], []])[::2] == [[], []]
        assert model.tag([[]])[0].tags == ()
        assert model.marginals([[]])[0].shape == (0, len(model.labels_))
        assert model.predict([]) == []
        assert model.kbest([[]], 2)[0][0].probability == pytest.approx(1.0)

    def test_an_empty_sentence_can_be_trained_on(self):
        model = self.make().fit([*TRAIN, Sentence([], [])])
        assert len(model.predict([["Rome"]])[0]) == 1

    def test_unknown_words_and_characters_are_fine(self, model):
        X = [["Zxqv", "\U0001f600", "中文", "\ud800", "e\u0301", " ", ""]]
        assert len(model.predict(X)[0]) == 7

    def test_marginals_are_exact_probabilities(self, model):
        x = ["Anna", "met", "Rome"]
        labels = model.labels_
        paths = list(itertools.product(labels, repeat=3))
        probabilities = path_probabilities(model, x, paths)
        assert probabilities.sum() == pytest.approx(1.0)
        expected = np.zeros((3, len(labels)))
        for path, p in zip(paths, probabilities, strict=True):
            for t, label in enumerate(path):
                expected[t, labels.index(label)] += p
        np.testing.assert_allclose(model.marginals([x])[0], expected, atol=1e-9)

    def test_the_k_best_are_the_most_probable_paths(self, model):
        x = ["Anna", "met", "Rome"]
        paths = list(itertools.product(model.labels_, repeat=3))
        probabilities = np.sort(path_probabilities(model, x, paths))[::-1]
        best = model.kbest([x], 6)[0]
        np.testing.assert_allclose([option.probability for option in best], probabilities[: len(best)], atol=1e-12)
        assert best[0].tags == model.predict([x])[0]

    def test_span_probabilities_are_sums_over_paths(self, model):
        x = ["Anna", "Smith", "met"]
        paths = list(itertools.product(model.labels_, repeat=3))
        probabilities = path_probabilities(model, x, paths)
        wanted = sum(
            p
            for path, p in zip(paths, probabilities, strict=True)
            if path[:2] == ("B-PER", "I-PER") and path[2] != "I-PER"
        )
        found = model.span_probabilities([x], [[Span(0, 2, "PER")]])[0][0]
        assert found.probability == pytest.approx(wanted, abs=1e-9)
        predicted = model.span_probabilities([TRAIN[0].tokens])[0]
        assert [item.span for item in predicted] == [Span(0, 2, "PER"), Span(4, 6, "LOC")]

    def test_save_load_gives_the_same_answers(self, model, tmp_path):
        model.save(tmp_path / "m")
        X = [s.tokens for s in TRAIN] + [["Zxqv", "Rome"]]
        for again in (type(model).load(tmp_path / "m"), models.load(tmp_path / "m")):
            assert again.predict(X) == model.predict(X)
            np.testing.assert_array_equal(again.chain_scores(X).emissions, model.chain_scores(X).emissions)
            assert again.config == again.settings_ == model.settings_
            assert again.tagset_ == model.tagset_

    def test_a_file_that_is_cut_off_while_it_is_in_use_does_no_harm(self, model, tmp_path):
        """As by `cp` of another over it; where a file is mapped, the next answer would be the end of the process."""
        model.save(tmp_path / "m")
        again = type(model).load(tmp_path / "m")
        os.truncate(tmp_path / "m", 100)
        X = [s.tokens for s in TRAIN]
        assert again.predict(X) == model.predict(X)
        np.testing.assert_array_equal(again.chain_scores(X).emissions, model.chain_scores(X).emissions)

    def test_pickled_models_answer_alike(self, model):
        again = pickle.loads(pickle.dumps(model))
        assert again.predict([["Anna", "Rome"]]) == model.predict([["Anna", "Rome"]])
        assert pickle.loads(pickle.dumps(self.make())).get_params() == self.make().get_params()

    def test_evaluation_follows_the_scheme(self, model):
        assert model.evaluate(TRAIN).micro.f1 == 1.0
        assert model.score(TRAIN) == 1.0
        assert self.make().fit(POS).evaluate(POS).accuracy == 1.0

    def test_what_is_learned_does_not_exist_before(self, model):
        fresh = self.make()
        for name in ("tagset_", "labels_", "classes_", "history_", "tokenizer_", "model_", "parameters_"):
            assert not hasattr(fresh, name)
        assert [name for name in vars(model) if name.endswith("_")]
        with pytest.raises(NotFittedError, match="not fitted: call fit or load first"):
            fresh.labels_  # noqa: B018

    def test_completion_and_help_know_every_setting(self, model):
        parameters = inspect.signature(type(model)).parameters
        assert list(parameters) == ["settings", *model.get_params(deep=False)]
        assert all(f"        {name}: " in type(model).__doc__ for name in model.get_params(deep=False))

    def test_an_unknown_setting_is_an_error_that_names_it(self, model):
        with pytest.raises(ConfigError, match="has no setting 'schema'; did you mean 'scheme'"):
            type(model)(schema="bio")
        with pytest.raises(ConfigError, match="'scheme__x' does not exist: 'scheme' is not a section"):
            self.make().set_params(scheme__x=1)

    def test_scikit_learns_pipelines_and_searches_run(self):
        import sklearn.model_selection as search
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import FunctionTransformer

        X, y = [list(s.tokens) for s in TRAIN], [list(s.tags) for s in TRAIN]
        pipeline = Pipeline([("as they are", FunctionTransformer(list)), ("tagger", self.make())])
        found = search.GridSearchCV(pipeline, {"tagger__constraints": [True]}, cv=2, error_score="raise").fit(X, y)
        assert found.predict(X) == self.make(constraints=True).fit(X, y).predict(X)
        assert found.score(X, y) == found.best_estimator_.named_steps["tagger"].score(X, y)

    def test_raw_text_gives_spans_with_offsets_and_probabilities(self, model):
        tagged = model("Anna Smith lives in New York.")
        assert tagged.tokens == ("Anna", "Smith", "lives", "in", "New", "York", ".")
        assert list(tagged.tags) == model.predict([tagged.tokens])[0]
        spans = model.span_probabilities([tagged.tokens])[0]
        starts, ends = zip(*tagged.sentence.offsets, strict=True)
        places = [(starts[s.span.start], ends[s.span.end - 1], s.span.label, s.probability) for s in spans]
        assert [(s.start, s.end, s.label, s.probability) for s in tagged] == places
        assert [tagged.text[s.start : s.end] for s in tagged] == [s.text for s in tagged]
        rows = model.marginals([tagged.tokens])[0]
        pairs = zip(rows, tagged.tags, strict=True)
        assert tagged.probabilities == tuple(row[model.labels_.index(tag)] for row, tag in pairs)
        assert model("").spans == ()

    def test_what_is_known_is_kept_and_the_rest_follows_from_it(self, model):
        x, known = ["Anna", "met", "Rome"], [{"B-LOC", "B-PER"}, None, "O"]
        paths = [p for p in itertools.product(model.labels_, repeat=3) if p[0] in known[0] and p[2] == "O"]
        weights = path_probabilities(model, x, paths)
        best = model.kbest([x], 1, known=[known])[0][0]
        assert model.predict([x], known=[known])[0] == best.tags == list(paths[int(weights.argmax())])
        assert best.probability == pytest.approx(weights.max() / weights.sum(), rel=1e-9)
        place = model.labels_.index("B-LOC")
        expected = sum(w for w, p in zip(weights, paths, strict=True) if p[0] == "B-LOC") / weights.sum()
        assert model.marginals([x], known=[known])[0][0, place] == pytest.approx(expected, rel=1e-9)
        assert model.annotate([x], known=[known])[0].tags == tuple(best.tags)

    def test_what_is_known_must_be_possible(self, model):
        with pytest.raises(TagError, match="sentence 0, position 0: label 'B-X' at position 0 is not in the tag set"):
            model.predict([["Anna"]], known=[["B-X"]])
        with pytest.raises(TrellisError):
            model.predict([["Anna"]], known=[["I-PER"]])
        with pytest.raises(DataError, match="sentence 0 has 1 token and 2 labels"):
            model.predict([["Anna"]], known=[["O", "O"]])

    def test_the_tokenizer_is_learnt_and_kept(self, model, tmp_path):
        characters = self.make().fit([Sentence(list("我喜欢"), list("SBE")), Sentence(list("他很好"), list("SSS"))])
        for tagger, name in ((model, "words"), (characters, "characters")):
            tagger.save(tmp_path / name)
            assert str(tagger.tokenizer_) == name
            assert tagger.tokenizer_ == models.load(tmp_path / name).tokenizer_
            assert tagger.tokenizer_ == pickle.loads(pickle.dumps(tagger)).tokenizer_

    def test_the_trellis_has_the_probabilities_and_the_best_paths(self, model):
        view = model.trellis("Anna met Rome", k=2)
        np.testing.assert_array_equal(view.probabilities, model.marginals([["Anna", "met", "Rome"]])[0])
        assert list(view.paths) == model.kbest([["Anna", "met", "Rome"]], 2)[0]

    def test_what_comes_before_fit_is_an_error(self):
        for ask in (lambda m: m.predict([["a"]]), lambda m: m.save("nowhere"), lambda m: m.labels_):
            with pytest.raises(ModelError, match="not fitted: call fit or load first"):
                ask(self.make())

    def test_bad_corpora_are_named(self):
        with pytest.raises(ModelError, match="no sentence"):
            self.make().fit([])
        with pytest.raises(ModelError, match="only the label 'O' occurs"):
            self.make().fit([["a", "b"]], [["O", "O"]])
        with pytest.raises(DataError, match="sentence 1 has 2 tokens and 1 label"):
            self.make().fit([["a"], ["b", "c"]], [["O"], ["B-X"]])
        with pytest.raises(DataError, match="1 sequences of labels for 2 sentences"):
            self.make().fit([["a"], ["b"]], [["O"]])

    def test_a_token_that_is_no_string_is_named_wherever_it_is(self, model):
        for bad in (1.5, ["x"]):
            with pytest.raises(DataError, match="sentence 1"):
                self.make().fit([["abc", "d"], ["ef", bad]], [["O", "B-X"], ["O", "B-X"]])
            with pytest.raises(DataError, match="sentence 1"):
                model.predict([["abc"], ["ef", bad]])
        with pytest.raises(DataError, match=r"sentence 0 \(f.txt:3\) has no tags"):
            self.make().fit([Sentence(["a"], path="f.txt", lines=(3,))])

    def test_held_out_labels_that_training_lacks_are_counted_and_missed(self):
        held_out = [TRAIN[0], Sentence(["Acme"], ["B-ORG"])]
        with pytest.warns(DataWarning, match=r"^held-out tokens with labels that .*: 1, with B-ORG \(1\)") as seen:
            model = self.make().fit(TRAIN, dev=held_out)
        assert seen[0].filename == __file__  # the line of the caller, not one of Trellis
        assert model.evaluate(held_out).types["ORG"].recall == 0

    def test_labels_that_the_scheme_implies_are_in_the_tag_set(self):
        model = self.make().fit([Sentence(["1", "rose"], ["B-LST", "O"]), Sentence(["it", "fell"], ["O", "O"])])
        assert set(model.labels_) == {"O", "B-LST", "I-LST"}
        assert model("1 rose").tags[0] in model.labels_

    def test_bad_tags_are_refused_by_their_place_or_repaired_or_dropped(self):
        bad = [*TRAIN, *TRAIN, Sentence(["a", "Anna"], ["o", "I-PER"], path="x.txt", lines=(4, 5))]
        with pytest.raises(DataError, match=r"^x.txt:4: bad tag 'o': .*; 1 bad tag in 1 of 13 sentences: --on"):
            self.make().fit(bad)
        with pytest.warns(DataWarning, match=r"2 tags repaired \(IOB2\):\n  x.txt:4: o -> O\n  x.txt:5: I-PER -> B"):
            assert self.make().fit(bad, on_bad_tags="repair").tagset_.scheme is Scheme.IOB2
        with pytest.warns(DataWarning, match="1 of 13 sentences dropped for bad tags") as seen:
            self.make().fit(bad, on_bad_tags="drop", sentence_weights=[1.0] * 13)
        assert seen[0].filename == __file__

    def test_a_fit_that_fails_leaves_the_tagger_as_it_was(self, model, tmp_path):
        def stop(step):
            raise RuntimeError("stopped")

        expected = model.marginals([["Anna", "met", "Paul"]])[0].tolist()
        model.lexicon_ = lexicon = Lexicon(["Anna"], strength="prefer")
        other = Lexicon(["Paul"], strength="feature" if model.learns_lexicons else "prefer")
        with pytest.raises(RuntimeError, match="stopped"):
            model.fit(POS, dev=POS, lexicon=other, progress=stop)
        assert model.lexicon_ is lexicon
        assert model.lexical_ == ()
        model.lexicon_ = None
        assert model.marginals([["Anna", "met", "Paul"]])[0].tolist() == expected
        model.save(tmp_path / "model")
        assert type(model).load(tmp_path / "model").predict([["Anna"]]) == model.predict([["Anna"]])

    def test_unknown_labels_name_the_sentence(self, model):
        held_out = [TRAIN[0], Sentence(["b"], ["PER"], path="dev.txt", lines=(7,))]
        with pytest.raises(DataError, match=r"^dev.txt:7: bad tag 'PER'"):
            self.make().fit(TRAIN, dev=held_out)
        with pytest.raises(TagError, match="sentence 0: label 'B-ORG'"):
            model.sequence_probabilities([["a"]], [["B-ORG"]])

    def test_one_sentence_in_place_of_a_list_is_refused(self, model):
        with pytest.raises(DataError, match="put it into a list"):
            model.predict(TRAIN[0])

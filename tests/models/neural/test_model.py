"""Neural taggers: the recipe of the textbook, what they know of words, labels in part, long input, resuming."""

import dataclasses
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from tests.models.contract import TRAIN
from tests.models.neural.test_contract import TINY
from trellis import models
from trellis.errors import ConfigError, DataError, ModelError
from trellis.models import NeuralConfig, NeuralTagger
from trellis.models.neural.config import Facts, resolved
from trellis.models.neural.vocabulary import CASES, TokenCounts, Vocabulary, case_of, learn_pairs, learn_vocabulary
from trellis.nn.encoder import LookupPart
from trellis.symbols import FIRST, PADDING, UNKNOWN, Symbols
from trellis.text import Sentence
from trellis.training.neural import TrainingSettings

CONSTANT = {"warmup": 0, "schedule": "constant"}


def tiny(**options):
    return NeuralTagger(**{**TINY, **options})


@pytest.fixture(scope="module")
def fitted():
    return tiny().fit(TRAIN)


class TestTheTextbooksRecipe:
    """Embedding 16, hidden 32, two sentences of 11 and 7 words, SGD at 0.01 with weight decay 1e-4, 500 steps."""

    TWO = (
        Sentence(
            ["the", "wall", "street", "journal", "reported", "today", "that", "apple", "corporation", "made", "money"],
            ["B", "I", "I", "I", "O", "O", "O", "B", "I", "O", "O"],
        ),
        Sentence(["georgia", "tech", "is", "a", "university", "in", "georgia"], ["B", "I", "O", "O", "O", "O", "B"]),
    )

    def test_the_loss_falls_below_one_and_decoding_gives_the_tags_back(self):
        model = NeuralTagger(
            encoder={
                "words": {"size": 16, "unknown": 0.0},
                "characters": {"kind": "none"},
                "hidden": 32,
                "locked_dropout": 0.0,
                "word_dropout": 0.0,
            },
            training={
                "optimizer": "sgd",
                "momentum": 0.0,
                "learning_rate": 0.01,
                "weight_decay": 1e-4,
                "epochs": 500,
                "clip": None,
                "averaging": "none",
                **CONSTANT,
            },
        ).fit(self.TWO)
        assert len(model.history_.steps) == 500
        assert model.history_.loss < 1 < model.history_.steps[0].loss
        found = model.predict([s.tokens for s in self.TWO])
        assert found == [list(s.tags) for s in self.TWO]
        assert list(map(len, found)) == [11, 7]


class TestWords:
    def test_ids_are_by_frequency_and_rare_words_are_unknown(self):
        names = learn_vocabulary(TokenCounts.count([[["a", "b", "b", "c"], ["b", "a"]]], ()), lower=False, min_freq=2)
        assert names.words.names == ("b", "a")
        assert names.words.ids(["a", "b", "c", "zz"]).tolist() == [3, 2, UNKNOWN, UNKNOWN]
        assert names.characters.names == ("b", "a", "c")

    def test_lower_case_when_asked(self):
        names = learn_vocabulary(TokenCounts.count([[["Rome", "rome"]]], ()), lower=True, min_freq=1)
        assert names.words.names == ("rome",)
        assert names.encode([["ROME"]]).words.word.tolist() == [FIRST]

    @pytest.mark.parametrize(
        ("word", "case"),
        [
            ("paris", "lower"),
            ("Paris", "Title"),
            ("NATO", "UPPER"),
            ("iPhone", "mIxed"),
            ("1984", "digits"),
            ("B2B", "with digits"),
            ("mp3", "with digits"),
            ("7-8", "with digits"),
            ("...", "no letters"),
            ("北京", "no case"),
            ("", "no letters"),
            ("A", "UPPER"),
        ],
    )
    def test_how_words_are_written(self, word, case):
        assert CASES[case_of(word) - FIRST] == case

    def test_a_batch_is_a_gather_of_distinct_words(self):
        names = learn_vocabulary(TokenCounts.count([[["ab", "c"]]], ()), lower=False, min_freq=1)
        encoded = names.encode([["ab", "c", "ab"], [], ["cab"]])
        batch = encoded.token_ids(np.array([2, 0]), {"characters", "case"})
        assert batch.lengths.tolist() == [1, 3]
        assert batch.word.tolist() == [UNKNOWN, 2, 3, 2]
        spelt = batch.spelt.padded()[batch.spelt_index]
        ids = dict(zip("abc", names.characters.ids("abc").tolist(), strict=True))
        assert spelt.tolist() == [
            [ids["c"], ids["a"], ids["b"]],
            [ids["a"], ids["b"], PADDING],
            [ids["c"], PADDING, PADDING],
            [ids["a"], ids["b"], PADDING],
        ]

    @pytest.mark.parametrize(
        "settings",
        [
            {"characters": {"kind": "none"}},
            {"hidden": 0, "capitalisation": 4},
            {"layers": 2, "characters": {"kind": "lstm"}, "locked_dropout": 0.5},
        ],
        ids=str,
    )
    def test_what_depends_on_the_word_alone_is_computed_once_a_batch(self, settings):
        model = tiny(encoder=TINY["encoder"] | settings).fit(TRAIN).model_
        network, inputs = model.network, model.network.encode(model.vocabulary, [s.tokens for s in TRAIN] * 3)
        assert network.encoder.of_words
        tokens, words = (network.batch(inputs, np.arange(18)[::-1], of_words=own) for own in (False, True))
        assert tokens.index is None
        assert len(words.word) == len({word for s in TRAIN for word in s.tokens})
        assert torch.equal(words.word[words.index], tokens.word)
        with torch.no_grad():
            torch.testing.assert_close(network.eval()(words), network(tokens), rtol=0, atol=1e-5)
            assert network.train()(words).shape == (len(tokens.word), 9), "with dropout, which tokens do not share"

    @pytest.mark.parametrize("kind", ["cnn", "lstm"])
    @pytest.mark.parametrize("dropout", [0.0, 0.5])
    def test_dropout_of_characters_is_for_training_whatever_reads_them(self, kind, dropout):
        own = {"kind": kind, "size": 4, "output": 8, "dropout": dropout}
        model = tiny(encoder=TINY["encoder"] | {"characters": own}).fit(TRAIN).model_
        encoded = model.network.encode(model.vocabulary, [s.tokens for s in TRAIN])
        words = model.network.batch(encoded, np.arange(len(TRAIN)))
        part = model.network.encoder.parts["characters"]
        with torch.no_grad():
            in_use = part.eval()(words)
            assert torch.equal(part(words), in_use)
            assert torch.equal(part.train()(words), in_use) == (dropout == 0)

    @pytest.mark.parametrize("settings", [{"pairs": 4}, {"columns": ["pos"]}], ids=str)
    def test_parts_that_depend_on_more_get_a_row_a_token(self, settings):
        X = [dataclasses.replace(s, columns={"pos": ["x"] * len(s)}) for s in TRAIN]
        model = tiny(encoder=TINY["encoder"] | settings).fit(X)
        assert not model.model_.network.encoder.of_words
        assert model.predict(X * 3) == model.predict(X) * 3

    @given(st.lists(st.characters(), unique=True), st.text())
    @example(["\ud800", "\U0010ffff"], "a\ud800\U0010ffff\udfff")
    def test_characters_are_found_by_code_point_as_by_name(self, known, text):
        symbols = Symbols((*known, "ab"))  # a name that is no character changes nothing
        assert symbols.character_ids(text).tolist() == symbols.ids(list(text)).tolist()

    def test_vectors_are_those_of_the_word_or_of_its_lower_case_form(self):
        names = Vocabulary(vectors=Symbols(("Rome", "rome", "in")))
        assert names.encode([["Rome", "ROME", "In", "at"]]).words.vector.tolist() == [2, 3, 4, PADDING]

    def test_neighbours_are_looked_up_together(self):
        inputs = [list("abab"), [], list("ba")]
        counts = {" a": 1, "a b": 2, "b a": 2, "b ": 1, " b": 1, "a ": 1}
        assert set(learn_pairs([inputs], 1).names) == set(counts)
        assert set(learn_pairs([inputs], 2).names) == {name for name, count in counts.items() if count > 1}
        names = Vocabulary(pairs=Symbols(("a b", "b a", " b")))
        found = names.encode([list("ba"), [], list("abc")])
        assert found.pairs.tolist() == [[4, 3], [3, UNKNOWN], [UNKNOWN, 2], [2, UNKNOWN], [UNKNOWN, UNKNOWN]]
        assert found.token_ids(np.array([2]), {"pairs"}).pairs.tolist() == found.pairs[2:].tolist()

    def test_characters_bring_their_neighbours_and_are_not_spelt(self):
        sentences = [Sentence(list("今天天气"), list("BEBE")), Sentence(list("天气好"), list("BES"))]
        model = tiny(encoder={**TINY["encoder"], "characters": {}}).fit(sentences)
        assert set(model.model_.network.encoder.parts) == {"words", "pairs"}
        assert model.predict([list("天气好")]) == [list("BES")]

    def test_known_pairs_are_unknown_now_and_then_in_training_only(self):
        part = LookupPart("pairs", 50, 4, unknown=0.5)
        batch = SimpleNamespace(pairs=torch.arange(2, 50).repeat(20).reshape(-1, 2))
        unknown = (part(batch).reshape(-1, 4) == part.embedding.weight[UNKNOWN]).all(1).float().mean()
        assert 0.4 < unknown < 0.6
        assert torch.equal(part.eval()(batch), part.embedding.weight[batch.pairs].flatten(1))

    def test_characters_are_learned_in_fewer_epochs_since_longer_trainings_learn_words_by_heart(self):
        assert resolved(NeuralConfig(), Facts(spelled=False, paired=True)).training.epochs == 10
        assert resolved(NeuralConfig(), Facts()).training.epochs == 30
        asked = NeuralConfig(training=TrainingSettings(epochs=7))
        assert resolved(asked, Facts(spelled=False, paired=True)).training.epochs == 7

    @pytest.mark.parametrize(("size", "extra"), [(50, 400_000), (100, 200_000), (300, 100_000), (None, 0)])
    def test_more_vectors_are_kept_where_they_are_short(self, size, extra):
        assert resolved(NeuralConfig(), Facts(vector_size=size)).encoder.words.extra == extra

    def test_new_symbols_come_after_those_known_before(self):
        before = Symbols(("x", "y"))
        assert Symbols.learn({"y": 5, "z": 1, "w": 3}, 1, before).names == ("x", "y", "w", "z")

    def test_vectors_of_a_file_are_kept_for_words_that_training_lacks(self, tmp_path):
        lines = [f"{word} {' '.join(['0.5' if word[0] in 'mr' else '-0.5'] * 4)}" for word in VECTOR_WORDS]
        (tmp_path / "v.txt").write_text("\n".join(lines))
        words = {"vectors": str(tmp_path / "v.txt"), "tune": False, "extra": 100}
        encoder = {**TINY["encoder"], "words": words, "characters": {"kind": "none"}, "hidden": 8}
        model = tiny(encoder=encoder).fit([["mad", "x"], ["rome", "x"]], [["A", "B"], ["A", "B"]])
        assert model.model_.coverage.exact == 2
        assert model.model_.coverage.missing == 1
        assert model.predict([["MILAN", "zebra"]]) == [["A", "B"]]  # neither was seen; milan has a vector like rome's
        model.save(tmp_path / "m")
        (tmp_path / "v.txt").unlink()  # all that is needed is in the model
        assert models.load(tmp_path / "m").predict([["MILAN", "zebra"]]) == [["A", "B"]]

    def test_with_vectors_rare_words_are_often_unknown_in_training(self, tmp_path):
        (tmp_path / "v.txt").write_text("once 1 2\noften 1 2\n")
        X, y = [["once", *["often"] * 27, "Often"]], [["A", "B"] * 14 + ["A"]]

        def rates(**given):
            words = {"vectors": str(tmp_path / "v.txt"), "size": None} | given
            model = tiny(encoder={**TINY["encoder"], "words": words}).fit(X, y)
            dropout = model.model_.network.encoder.parts["words"].learnt.dropout.train()
            ids = torch.from_numpy(model.model_.vocabulary.words.ids(["once", "often"]))
            return dropout.p if dropout.rates is None else dropout.rates[ids].tolist(), dropout, ids

        assert rates(rare=0)[0] == 0
        assert rates(vectors=None)[0] == 0.1
        assert rates(vectors=None, rare=1.0)[0] == pytest.approx([0.5, 0.1])
        assert rates(unknown=0.3)[0] == pytest.approx([0.75, 0.3])
        assert rates(lower=True)[0] == pytest.approx([0.75, 3 / 31])
        expected, dropout, ids = rates()
        assert expected == pytest.approx([0.75, 0.1])
        many = torch.cat([ids, torch.tensor([PADDING])]).repeat(4000, 1)
        assert (dropout(many) == UNKNOWN).double().mean(0).tolist() == pytest.approx([0.75, 0.1, 0], abs=0.03)
        assert dropout.eval()(ids) is ids

    def test_a_size_that_the_vectors_do_not_have_is_refused(self, tmp_path):
        (tmp_path / "v.txt").write_text("a 1 2\nb 1 2\n")
        encoder = {**TINY["encoder"], "words": {"vectors": str(tmp_path / "v.txt"), "size": 3}}
        with pytest.raises(ConfigError, match="size is 3, but the vectors are 2 wide"):
            tiny(encoder=encoder).fit(TRAIN)

    def test_tokens_that_are_no_strings_are_named(self, fitted):
        with pytest.raises(DataError, match="sentence 1: expected a list of strings, got 7"):
            fitted.predict([["a"], ["b", 7]])
        with pytest.raises(DataError, match="sentence 0: expected a list of strings, got 'word'"):
            fitted.predict(["word"])


VECTOR_WORDS = ("mad", "rome", "milan", "zebra", "sofa")


class TestColumns:
    def test_a_column_can_tell_what_words_do_not(self):
        def sentence(values):
            return Sentence(["w"] * len(values), ["X" if v == "x" else "Y" for v in values], columns={"kind": values})

        settings = {**TINY["encoder"], "columns": ("kind",), "column_size": 4}
        train = [sentence(["x", "y"]), sentence(["y", "x", "x"]), sentence(["y", "y", "x"])]
        model = tiny(encoder=settings).fit(train)
        assert model.predict([sentence(["y", "x", "y"])]) == [["Y", "X", "Y"]]
        with pytest.raises(DataError, match=r"sentence 0 has no column 'kind' \(encoder.columns\); it has none"):
            model.predict([["w"]])


class TestLabels:
    def test_partial_labels_say_as_much_as_they_know(self):
        y = [[None if label == "O" else label for label in s.tags] for s in TRAIN]
        y[0] = list(TRAIN[0].tags)
        y[5] = [("O",), {"O", "B-PER"}, "O"]
        model = tiny().fit([s.tokens for s in TRAIN], y)
        found = model.predict([s.tokens for s in TRAIN])
        for own, known in zip(found, y, strict=True):
            assert all(
                k is None or f == k or (not isinstance(k, str) and f in k) for f, k in zip(own, known, strict=True)
            )

    @pytest.mark.parametrize("head", ["crf", "softmax"])
    def test_weights_of_labels_and_sentences_change_what_is_learnt(self, head):
        X, y = [["a"], ["a"], ["a"]], [["P"], ["P"], ["Q"]]
        share = [
            tiny(head=head, label_weights=label_weights, constraints=False)
            .fit(X, y, sentence_weights=sentence_weights)
            .marginals([["a"]])[0][0]
            for label_weights, sentence_weights in ((None, None), ({"Q": 8.0}, None), (None, [1, 1, 8]))
        ]
        assert share[0][0] == pytest.approx(2 / 3, abs=0.1)
        assert share[1][0] == pytest.approx(2 / 10, abs=0.1)
        assert share[2][0] == pytest.approx(2 / 10, abs=0.1)

    def test_weights_of_unknown_or_partial_labels_are_refused(self):
        with pytest.raises(ModelError, match="label_weights need labels that are fully known"):
            tiny(label_weights={"Q": 2.0}).fit([["a"], ["b"], ["c"]], [["Q"], ["P"], [None]])
        with pytest.raises(ConfigError, match="the weight of 'Q' must be a finite number >= 0, got -1"):
            tiny(label_weights={"Q": -1.0}).fit([["a"], ["b"]], [["Q"], ["P"]])

    def test_argmax_may_break_the_scheme_and_legal_decoding_never_does(self):
        model = tiny(head="softmax", learn_scheme="data").fit(TRAIN)
        free = tiny(head="softmax", decoding="argmax").fit(TRAIN)
        x = [["Rome", "York", "York", "Smith"]]
        np.testing.assert_array_equal(model.chain_scores(x).emissions, free.chain_scores(x).emissions)
        assert not np.isneginf(free.chain_scores(x).transitions).any()
        assert np.isneginf(model.chain_scores(x).transitions).any()


class TestLongInput:
    def test_one_sentence_of_20000_tokens(self, fitted):
        tokens = [token for s in TRAIN for token in s.tokens] * 625
        assert len(tokens) == 20_000
        tags = fitted.predict([tokens, ["Rome"]])
        assert list(map(len, tags)) == [len(tokens), 1]
        assert np.isfinite(fitted.marginals([tokens])[0]).all()

    def test_one_word_of_20000_characters(self, fitted):
        assert len(fitted.predict([["a" * 20_000, "Rome"]])[0]) == 2

    def test_answers_come_in_the_order_of_the_input(self, fitted):
        random = np.random.default_rng(0)
        X = [list(TRAIN[i % 6].tokens)[: random.integers(0, 7)] for i in range(700)]
        alone = {tuple(x): fitted.predict([x])[0] for x in map(tuple, X)}
        assert fitted.predict(X) == [alone[tuple(x)] for x in X]


class TestWarmStart:
    def test_new_words_and_labels_come_after_the_old_ones(self):
        model = tiny().fit(TRAIN)
        before = {k: v.clone() for k, v in model.model_.network.state_dict().items()}
        more = [*TRAIN, Sentence(["Acme", "sells"], ["B-ORG", "O"])]
        model.set_params(training=dataclasses.replace(model.config.training, epochs=1, learning_rate=1e-9))
        model.fit(more, warm_start=True)
        after = model.model_.network.state_dict()
        assert "B-ORG" in model.labels_
        assert "Acme" in model.model_.vocabulary.words
        for name, old in before.items():
            part = tuple(slice(0, n) for n in old.shape)
            torch.testing.assert_close(after[name][part], old, atol=1e-6, rtol=0, msg=name)

    @pytest.mark.parametrize(
        ("encoder", "what"),
        [({"hidden": 12}, "lstm"), ({"hidden": 0}, "emission.weight"), ({"characters": {"output": 6}}, "filters")],
        ids=["another width", "no BiLSTM", "more filters"],
    )
    def test_another_width_is_refused_as_gates_would_become_those_of_others(self, encoder, what):
        model = tiny(encoder=TINY["encoder"] | {"hidden": 8}).fit(TRAIN)
        sizes = {f"encoder__{name}": value for name, value in encoder.items()}
        with pytest.raises(ModelError, match=rf"same sizes: .*{what}.* in the earlier model; keep hidden"):
            model.set_params(**sizes).fit(TRAIN, warm_start=True)

    def test_new_features_are_added_to_those_that_were_learned(self):
        model = tiny().fit(TRAIN)
        before = model.model_.network.state_dict()["encoder.lstm.layers.0.weight_ih_l0"].clone()
        model.set_params(encoder__capitalisation=3, training__epochs=1, training__learning_rate=1e-9)
        model.fit(TRAIN, warm_start=True)
        after = model.model_.network.state_dict()["encoder.lstm.layers.0.weight_ih_l0"]
        assert after.shape[1] == before.shape[1] + 3
        torch.testing.assert_close(after[:, : before.shape[1]], before, atol=1e-6, rtol=0)


class TestLoading:
    EVERY_PART: ClassVar = {"pairs": 4, "columns": ["pos"], "capitalisation": 4, "layers": 2, "words": {"extra": 9}}

    @pytest.mark.parametrize("options", [{}, {"head": "softmax"}, {"head": "softmax", "decoding": "argmax"}], ids=str)
    @pytest.mark.parametrize("encoder", [{"words": {"extra": 9, "tune": False}}, EVERY_PART], ids=["plain", "every"])
    def test_nothing_is_drawn_that_the_file_has(self, tmp_path, monkeypatch, encoder, options):
        X = [dataclasses.replace(s, columns={"pos": ["x"] * len(s)}) for s in TRAIN]
        (tmp_path / "v.txt").write_text("Rome 1 2 3\nlives 4 5 6\nabsent 7 8 9\n")
        words = encoder["words"] | {"vectors": str(tmp_path / "v.txt")}
        saved = tiny(encoder=TINY["encoder"] | encoder | {"words": words}, **options).fit(X)
        saved.save(tmp_path / "m")
        drawn, draw, qr = [], torch.Tensor.uniform_, torch.linalg.qr
        monkeypatch.setattr(torch.Tensor, "uniform_", lambda new, *how, **why: drawn.append(new) or draw(new, *how))
        monkeypatch.setattr(torch.linalg, "qr", lambda new: drawn.append(new) or qr(new))  # for orthogonal matrices
        loaded = models.load(tmp_path / "m")
        of_head = [parameter.shape for parameter in loaded.model_.network.head.parameters()]
        assert sorted(new.shape for new in drawn if not new.is_meta) == sorted(of_head)
        assert _described(loaded) == _described(saved)
        assert loaded.predict(X) == saved.predict(X)

    def test_what_was_loaded_can_be_trained_further(self, tmp_path, fitted):
        fitted.save(tmp_path / "m")
        loaded = models.load(tmp_path / "m").fit(TRAIN, warm_start=True)
        assert loaded.predict([s.tokens for s in TRAIN]) == [list(s.tags) for s in TRAIN]


def _described(model):
    """Every tensor of a network with all that counts, those that are not saved too."""
    network = model.model_.network
    tensors = [*network.named_parameters(), *network.named_buffers()]
    return [(name, t.tolist(), t.dtype, t.device, t.requires_grad, t.is_leaf) for name, t in tensors]


class TestUnsetSettings:
    def test_a_transformer_changes_what_is_left_unset(self):
        plain = resolved(NeuralConfig())
        assert (plain.encoder.words.size, plain.encoder.hidden, plain.training.learning_rate) == (100, 192, 5e-3)
        settings = NeuralTagger(encoder={"transformer": "some/folder"}).config
        tuned = resolved(settings)
        assert (tuned.encoder.words.size, tuned.encoder.hidden, tuned.training.learning_rate) == (0, 0, 5e-5)
        assert tuned.training.epochs == 5
        given = NeuralTagger(encoder={"transformer": "x", "hidden": 64}, training={"learning_rate": 2e-3}).config
        assert resolved(given).training.learning_rate == 2e-3
        assert resolved(given).encoder.hidden == 64

    def test_impossible_values_are_named(self):
        with pytest.raises(ConfigError, match="hidden must be even, half each way, got 7"):
            NeuralTagger(encoder={"hidden": 7})
        with pytest.raises(ConfigError, match=r"NeuralConfig has no setting 'encodr'; did you mean 'encoder'\?"):
            NeuralTagger(encodr={})
        with pytest.raises(ConfigError, match=r"has no setting 'encoder.word'; did you mean 'words'\?"):
            NeuralTagger(encoder={"word": {}})
        with pytest.raises(ConfigError, match='needs freeze = "all"'):
            NeuralTagger(encoder={"pretrained": {"store": "reference"}})
        nothing = {"words": {"size": 0}, "characters": {"kind": "none"}}
        with pytest.raises(ConfigError, match="the encoder has no part"):
            NeuralTagger(encoder=nothing).fit(TRAIN)


def test_one_sentence_stays_on_the_calling_thread():
    model = tiny().fit(TRAIN)
    seen = []
    before = torch.get_num_threads()
    model.model_.network.emission.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    torch.set_num_threads(2)
    try:
        model.predict([TRAIN[0]])
        assert seen == [1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_history_has_the_accuracy_beside_f1():
    model = tiny().fit(TRAIN, dev=TRAIN)
    last = model.history_.steps[-1]
    pairs = zip(TRAIN, model.predict(TRAIN), strict=True)
    right = [tag == gold for own, tags in pairs for tag, gold in zip(tags, own.tags, strict=True)]
    kept = model.history_.steps[model.history_.kept]
    assert kept.accuracy == pytest.approx(sum(right) / len(right))
    assert last.precision is not None

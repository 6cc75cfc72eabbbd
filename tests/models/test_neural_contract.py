"""The contract of all taggers, kept by the neural ones with either head."""

import pytest

from tests.models.contract import TaggerContract
from trellis.models import NeuralTagger

TINY = {
    "encoder": {
        "words": {"size": 16, "unknown": 0.0},
        "characters": {"size": 8, "output": 8, "dropout": 0.0},
        "hidden": 16,
        "locked_dropout": 0.0,
        "word_dropout": 0.0,
    },
    "training": {"epochs": 30, "learning_rate": 0.02, "batch_size": 2, "schedule": "constant"},
}


class NeuralContract(TaggerContract):
    rounding = 1e-4
    copies = 2


class TestBiLSTMCRF(NeuralContract):
    def make(self, **options):
        return NeuralTagger(**TINY, **options)


class TestBiLSTMSoftmax(NeuralContract):
    def make(self, **options):
        return NeuralTagger(head="softmax", **TINY, **options)


class TestSoftmaxWithoutLSTM(NeuralContract):
    """The plainest network: characters, case and words of a token, nothing of its neighbours."""

    def make(self, **options):
        settings = {**TINY, "encoder": TINY["encoder"] | {"hidden": 0, "capitalisation": 4}}
        return NeuralTagger(head="softmax", **settings, **options)

    @pytest.mark.skip(reason="'New' begins two places and 'Rome' is one: a token alone does not tell")
    def test_training_sentences_are_learnt(self, model): ...

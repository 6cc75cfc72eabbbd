"""The contract of all taggers, kept by the neural ones with either head."""

import numpy as np
import pytest

from tests.models.contract import TRAIN, TaggerContract
from trellis.errors import ConfigError
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


class TestSemiCRF(NeuralContract):
    """Whole spans are learned, and everything else is as with every head."""

    def make(self, **options):
        return NeuralTagger(head="semicrf", **TINY, **options)


class TestBilinearEdges(NeuralContract):
    """Transitions that depend on both tokens: saved, loaded, searched and explained like the others."""

    def make(self, **options):
        return NeuralTagger(edges=4, **TINY, **options)

    def test_places_have_their_own_transitions(self):
        tagger = self.make().fit(TRAIN)
        scores = tagger.chain_scores([s.tokens for s in TRAIN])
        assert scores.edges.shape == (sum(len(s) - 1 for s in TRAIN if len(s)), *scores.transitions.shape)
        assert np.ptp(scores.edges, axis=0).max() > 1e-3
        single = [tagger.chain_scores([s.tokens]).edges for s in TRAIN]
        np.testing.assert_allclose(scores.edges, np.concatenate(single), atol=1e-4)

    def test_a_softmax_has_none(self):
        with pytest.raises(ConfigError, match="edges = 4 needs head = crf"):
            NeuralTagger(head="softmax", edges=4)
        with pytest.raises(ConfigError, match="edges must be at least 0, got -1"):
            NeuralTagger(edges=-1)


class TestBiLSTMSoftmax(NeuralContract):
    def make(self, **options):
        return NeuralTagger(head="softmax", **TINY, **options)


class TestSoftmaxWithoutLSTM(NeuralContract):
    """The plainest network: characters, case and words of a token, nothing of its neighbours."""

    def make(self, **options):
        settings = {**TINY, "encoder": TINY["encoder"] | {"hidden": 0, "capitalisation": 4}}
        return NeuralTagger(head="softmax", **settings, **options)

    test_training_sentences_are_learnt = None  # 'New' begins two places and 'Rome' is one: a token alone does not tell

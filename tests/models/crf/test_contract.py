"""The CRF keeps the Tagger contract, whatever trains it."""

from tests.models.contract import TaggerContract
from trellis.models import CRF


class TestLBFGS(TaggerContract):
    def make(self, **options):
        return CRF(**{"features": "ner", "c2": 0.01, **options})


class TestOWLQN(TaggerContract):
    def make(self, **options):
        return CRF(**{"features": "ner", "algorithm": "owlqn", "c1": 0.01, "c2": 0.01, **options})


class TestSGD(TaggerContract):
    def make(self, **options):
        return CRF(**{"features": "ner", "algorithm": "sgd", "c2": 0.01, **options})


class TestPerceptron(TaggerContract):
    def make(self, **options):
        return CRF(**{"features": "ner", "algorithm": "ap", **options})

"""The HMM keeps the Tagger contract. Without smoothing it cannot: new sentences may then be impossible."""

from tests.models.contract import TaggerContract
from trellis import HMM


class TestWittenBell(TaggerContract):
    def make(self, **options):
        return HMM(**options)


class TestAdditive(TaggerContract):
    def make(self, **options):
        return HMM(**{"smoothing": "additive", "alpha": 0.01, **options})


class TestOrder2(TaggerContract):
    def make(self, **options):
        return HMM(**{"order": 2, **options})


class TestOrder2WithFewPairs(TaggerContract):
    def make(self, **options):
        return HMM(**{"order": 2, "pairs": 7, "smoothing": "additive", "alpha": 0.01, **options})

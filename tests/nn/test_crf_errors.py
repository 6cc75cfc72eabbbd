"""What `trellis.nn.CRF` refuses, in the words of pytorch-crf where it has them."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.nn.test_crf import MASK, L, make_crf, make_emissions
from trellis.errors import ChainError, ConfigError, ShapeError
from trellis.nn import CRF


class TestErrors:
    crf = make_crf()
    emissions = make_emissions()
    tags = torch.zeros(4, 5, dtype=torch.int64)

    def test_number_of_tags(self) -> None:
        with pytest.raises(ConfigError, match=r"^invalid number of tags: 0$"):
            CRF(0)

    def test_shapes_in_the_words_of_pytorch_crf(self) -> None:
        cases: list[tuple[tuple[Any, ...], str]] = [
            ((self.emissions[0], self.tags), "emissions must have dimension of 3, got 2"),
            ((self.emissions[..., :2], self.tags), "expected last dimension of emissions is 4, got 2"),
            (
                (self.emissions, self.tags[:, :3]),
                r"the first two dimensions of emissions and tags must match, got \(4, 5\) and \(4, 3\)",
            ),
            (
                (self.emissions, self.tags, MASK[:, :3]),
                r"the first two dimensions of emissions and mask must match, got \(4, 5\) and \(4, 3\)",
            ),
        ]
        for arguments, message in cases:
            with pytest.raises(ValueError, match=f"^{message}$"):
                self.crf(*arguments)

    def test_options(self) -> None:
        with pytest.raises(ConfigError, match=r"^invalid reduction: median$"):
            self.crf.nll(self.emissions, self.tags, reduction="median")
        allowed = torch.ones(4, 5, L, dtype=torch.bool)
        for options, came in (({}, "neither"), ({"tags": self.tags, "allowed": allowed}, "both")):
            with pytest.raises(ChainError, match=f"^give either tags or allowed, got {came}$"):
                self.crf.nll(self.emissions, **options)
        with pytest.raises(ChainError, match=r"^give either a mask or lengths, got both$"):
            self.crf.nll(self.emissions, self.tags, MASK, lengths=torch.tensor([1, 1, 1, 1]))
        with pytest.raises(ValueError, match=r"^label_weights must be \(L,\) = \(4,\), got \(3,\)$"):
            self.crf.nll(self.emissions, self.tags, label_weights=torch.ones(3))

    @pytest.mark.parametrize(
        ("lengths", "message"),
        [
            ([1, 2, 3], r"lengths must be integers \(B,\) = \(4,\), got torch.int64 \(3,\)"),
            ([1.0, 1.0, 1.0, 1.0], r"lengths must be integers \(B,\) = \(4,\), got torch.float32 \(4,\)"),
            ([1, 2, 3, 6], r"lengths must be in 0..5, the size of the time axis, got \[1, 2, 3, 6\]"),
            ([1, 2, 3, -1], r"lengths must be in 0..5, the size of the time axis, got \[1, 2, 3, -1\]"),
        ],
    )
    def test_lengths(self, lengths: list[Any], message: str) -> None:
        with pytest.raises(ShapeError, match=f"^{message}$"):
            self.crf.decode(self.emissions, lengths=torch.tensor(lengths))

    @pytest.mark.parametrize(
        "lengths",
        [
            torch.tensor([2**62, 2**62, 2**62, 2**62 + 5]),
            torch.from_numpy(np.array([2**63, 2**63, 1, 1], np.uint64)),
            torch.tensor([True, True, True, True]),
            torch.tensor([1j, 1, 1, 1]),
            [2**64, 1, 1, 1],
            [5, 5, 5, 9],
        ],
        ids=str,
    )
    def test_lengths_beyond_the_time_axis_or_no_integers(self, lengths: Any) -> None:
        with pytest.raises(ShapeError, match=r"^lengths must be"):
            self.crf.nll(self.emissions, self.tags, lengths=lengths)

    @pytest.mark.parametrize("lengths", [[5, 0, 2, 1], torch.tensor([5, 0, 2, 1], dtype=torch.uint8), (5, 0, 2, 1)])
    def test_lengths_of_any_integers_are_fine(self, lengths: Any) -> None:
        found = self.crf.nll(self.emissions, self.tags, lengths=lengths)
        assert torch.equal(found, self.crf.nll(self.emissions, self.tags, lengths=torch.tensor([5, 0, 2, 1])))

    def test_places_are_named(self) -> None:
        emissions = self.emissions.clone()
        emissions[2, 4, 1] = torch.nan  # the third token of sequence 2
        with pytest.raises(ValueError, match=r"^emissions of sequence 2, position 2, label 1 are nan: scores must be"):
            self.crf.nll(emissions, self.tags, MASK)
        tags = self.tags.clone()
        tags[1, 3] = 4
        with pytest.raises(ValueError, match=r"^tags of sequence 1, position 2 are 4: must be in 0..3 \(L = 4\)$"):
            self.crf.nll(self.emissions, tags, MASK)

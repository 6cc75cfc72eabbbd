"""Dropout of sequences: what is dropped together, how often, and that nothing happens out of training."""

import pytest
import torch
from torch import nn

from trellis.errors import ConfigError
from trellis.nn import LockedDropout, TokenDropout, WordDropout

P = 0.3


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_locked_dropout_drops_the_same_numbers_at_every_position() -> None:
    y = LockedDropout(P)(torch.ones(1000, 40), torch.arange(200).repeat_interleave(5), 200).view(200, 5, 40)
    assert y.unique().tolist() == [0.0, pytest.approx(1 / (1 - P))]
    assert torch.equal(y, y[:, :1].expand_as(y))
    assert float((y[:, 0] == 0).float().mean()) == pytest.approx(P, abs=0.02)  # 8,000 draws: 4 deviations
    assert len({tuple(row) for row in y[:, 0].tolist()}) == 200, "each sequence has a mask of its own"


def test_token_dropout_drops_whole_vectors_and_leaves_the_others_alone() -> None:
    x = torch.rand(100, 80, 3) + 1
    y = TokenDropout(P)(x)
    dropped = (y == 0).all(-1)
    assert torch.equal(y[~dropped], x[~dropped])
    assert float(dropped.float().mean()) == pytest.approx(P, abs=0.02)


def test_word_dropout_makes_words_unknown_and_leaves_padding() -> None:
    ids = torch.randint(1, 50, (100, 80))
    ids[:, 60:] = 0
    y = WordDropout(P)(ids)
    assert torch.equal(y[:, 60:], ids[:, 60:])
    known = ids > 1
    assert float((y[known] == 1).float().mean()) == pytest.approx(P, abs=0.02)
    kept = y != 1
    assert torch.equal(y[kept], ids[kept])


@pytest.mark.parametrize("module", [LockedDropout, TokenDropout, WordDropout])
def test_out_of_training_and_at_rate_zero_the_input_itself_comes_back(module: type[nn.Module]) -> None:
    x = torch.ones(3, 4)
    rows = (torch.zeros(3, dtype=torch.int64), 1) if module is LockedDropout else ()
    assert module(P).eval()(x, *rows) is x
    assert module(0.0)(x, *rows) is x
    assert repr(module(P)) == f"{module.__name__}(p=0.3)"


@pytest.mark.parametrize("p", [-0.1, 1.0, 2.0, float("nan")])
def test_a_rate_is_a_probability_below_one(p: float) -> None:
    with pytest.raises(ConfigError, match=rf"^p of LockedDropout must be at least 0 and below 1, got {p}$"):
        LockedDropout(p)


def test_gradient_passes_what_was_kept() -> None:
    x = torch.ones(6, 4, requires_grad=True)
    y = LockedDropout(P)(x, torch.arange(2).repeat_interleave(3), 2)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())  # type: ignore[arg-type]

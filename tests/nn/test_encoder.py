"""Tables of vectors: padding stays zero, unknown words learn, known words are at times taken for unknown."""

import pytest
import torch

from trellis.errors import ConfigError
from trellis.nn import CategoryEmbedding, WordEmbedding

IDS = torch.tensor([[2, 3, 1, 5, 0], [4, 4, 0, 0, 0]])


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def tables() -> list[torch.nn.Module]:
    return [CategoryEmbedding(6, 4), WordEmbedding(6, 4)]


@pytest.mark.parametrize("number", range(2))
class TestAllTables:
    def test_padding_is_zero_and_nothing_else_is(self, number: int) -> None:
        y = tables()[number](IDS)
        assert y.shape == (2, 5, 4)
        assert tables()[number].output_size == 4
        assert torch.equal((y == 0).all(-1), IDS == 0)

    def test_padding_stays_zero_through_training(self, number: int) -> None:
        table = tables()[number]
        optimizer = torch.optim.AdamW(table.parameters(), lr=0.1, weight_decay=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (table(IDS) - 1).square().sum().backward()
            assert not next(table.parameters()).grad[0].any()  # type: ignore[index]
            optimizer.step()
        assert not table(IDS)[IDS == 0].any()

    def test_unknown_learns(self, number: int) -> None:
        table = tables()[number]
        table(IDS).sum().backward()
        assert torch.equal(table.weight.grad[1], torch.ones(4))  # type: ignore[index, union-attr]


def test_word_dropout_in_training_only() -> None:
    table = WordEmbedding(100, 2, dropout=0.4)
    ids = torch.randint(2, 100, (50, 100))
    ids[:, 90:] = 0
    unknown = (table(ids) == table.weight[1]).all(-1)
    assert float(unknown[:, :90].float().mean()) == pytest.approx(0.4, abs=0.03)
    assert not unknown[:, 90:].any()
    assert not (table.eval()(ids) == table.weight[1]).all(-1).any()


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1, 4), {}, "count must be at least 2, for padding and unknown, got 1"),
        ((6, 0), {}, "size must be at least 1, got 0"),
        ((6, 4), {"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
    ],
)
def test_what_is_refused(arguments: tuple[int, int], options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        WordEmbedding(*arguments, **options)
    assert str(caught.value) == message


def test_repr_says_the_sizes() -> None:
    assert repr(CategoryEmbedding(6, 4)) == "CategoryEmbedding(6, 4)"
    assert "6, 4" in repr(WordEmbedding(6, 4))

"""Tables of vectors: padding stays zero, unknown words learn, given rows start as given and stay so when frozen."""

import numpy as np
import pytest
import torch
from torch import Tensor

from trellis.errors import ConfigError, ShapeError
from trellis.nn.embeddings import CategoryEmbedding, WordEmbedding

IDS = torch.tensor([[2, 3, 1, 5, 0], [4, 4, 0, 0, 0]])


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def given(count: int = 6, size: int = 4) -> np.ndarray:
    """Rows 3 and 5 are to be drawn, and those of padding and unknown."""
    vectors = np.random.default_rng(0).normal(scale=3.0, size=(count, size)).astype(np.float32)
    vectors[[0, 1, 3, 5]] = np.nan
    return vectors


def tables() -> list[torch.nn.Module]:
    return [
        CategoryEmbedding(6, 4),
        WordEmbedding(6, 4),
        WordEmbedding(6, 4, vectors=given()),
        WordEmbedding(6, 4, vectors=given(), freeze=True),
        WordEmbedding(6, 4, vectors=np.ones((6, 4)), freeze=True),
    ]


@pytest.mark.parametrize("number", range(5))
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

    def test_same_seed_same_table(self, number: int) -> None:
        torch.manual_seed(7)
        first = tables()[number](IDS)
        torch.manual_seed(7)
        assert torch.equal(tables()[number](IDS), first)

    def test_state_comes_back(self, number: int) -> None:
        table, other = tables()[number], tables()[number]
        other.load_state_dict(table.state_dict())
        assert torch.equal(other(IDS), table(IDS))


class TestGivenVectors:
    def rows(self, table: WordEmbedding, *ids: int) -> Tensor:
        return table(torch.tensor([ids]))[0].detach()

    @pytest.mark.parametrize("freeze", [False, True])
    def test_given_rows_are_there_and_the_others_drawn(self, freeze: bool) -> None:
        vectors = given()
        table = WordEmbedding(6, 4, vectors=vectors, freeze=freeze)
        assert torch.equal(self.rows(table, 2, 4), torch.tensor(vectors[[2, 4]]))
        assert self.rows(table, 1, 3, 5).isfinite().all()
        assert len({tuple(row) for row in self.rows(table, 0, 1, 2, 3, 4, 5).tolist()}) == 6

    def test_drawn_rows_are_as_spread_out_as_the_given(self) -> None:
        vectors = np.random.default_rng(0).normal(scale=3.0, size=(2000, 50))
        vectors[1000:] = np.nan
        weight = WordEmbedding(2000, 50, vectors=vectors).weight.detach()
        assert float(weight[1000:].std()) == pytest.approx(float(weight[1:1000].std()), rel=0.02)

    def test_no_row_given_at_all(self) -> None:
        assert self.rows(WordEmbedding(6, 4, vectors=np.full((6, 4), np.nan)), 1, 5).isfinite().all()

    def test_frozen_rows_stay_and_the_others_learn(self) -> None:
        table = WordEmbedding(6, 4, vectors=given(), freeze=True)
        before = self.rows(table, *range(6))
        optimizer = torch.optim.AdamW(table.parameters(), lr=0.1, weight_decay=0.5)
        (table(IDS) - 9).square().sum().backward()
        optimizer.step()
        changed = (self.rows(table, *range(6)) != before).any(1)
        assert changed.tolist() == [False, True, False, True, False, True]
        assert sum(parameter.numel() for parameter in table.parameters()) == 4 * 4

    def test_given_unknown_and_padding(self) -> None:
        """The vector given for unknown words is a start, and is trained also where the others are frozen."""
        table = WordEmbedding(3, 2, vectors=np.array([[9.0, 9.0], [1.0, 2.0], [3.0, 4.0]]), freeze=True)
        assert self.rows(table, 0, 1, 2).tolist() == [[0, 0], [1, 2], [3, 4]]
        table(torch.tensor([[0, 1, 2]])).sum().backward()
        assert table.weight.grad is not None
        assert table.weight.grad.tolist() == [[0, 0], [1, 1]]

    def test_all_rows_learn_without_freeze(self) -> None:
        table = WordEmbedding(6, 4, vectors=given())
        table(IDS).sum().backward()
        assert table.weight.grad is not None
        assert table.weight.grad[:, 0].tolist() == [0, 1, 1, 1, 2, 1]

    def test_the_callers_array_is_left_alone(self) -> None:
        vectors = given()
        table = WordEmbedding(6, 4, vectors=vectors)
        with torch.no_grad():
            table.weight.fill_(7)
        np.testing.assert_array_equal(vectors, given())


def test_word_dropout_in_training_only() -> None:
    table = WordEmbedding(100, 2, dropout=0.4)
    ids = torch.randint(2, 100, (50, 100))
    ids[:, 90:] = 0
    unknown = (table(ids) == table.weight[1]).all(-1)
    assert float(unknown[:, :90].float().mean()) == pytest.approx(0.4, abs=0.03)
    assert not unknown[:, 90:].any()
    assert not (table.eval()(ids) == table.weight[1]).all(-1).any()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((1, 4), {}, ConfigError, "count must be at least 2, for padding and unknown, got 1"),
        ((6, 0), {}, ConfigError, "size must be at least 1, got 0"),
        ((6, 4), {"dropout": 1.0}, ConfigError, "dropout must be at least 0 and below 1, got 1.0"),
        ((6, 4), {"freeze": True}, ConfigError, "freeze keeps given vectors as they are, and none are given"),
        (
            (6, 5),
            {"vectors": np.zeros((6, 4))},
            ShapeError,
            "vectors must be (count, size) = (6, 5), got (6, 4)",
        ),
        (
            (3, 1),
            {"vectors": np.array([[0.0], [1.0], [np.inf]])},
            ShapeError,
            "vectors must be finite, or NaN for rows to draw at random, got infinity in row 2",
        ),
    ],
)
def test_what_is_refused(
    arguments: tuple[int, int], options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        WordEmbedding(*arguments, **options)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_repr_says_the_sizes() -> None:
    assert repr(CategoryEmbedding(6, 4)) == "CategoryEmbedding(6, 4)"
    assert "6, 4, trained=4" in repr(WordEmbedding(6, 4, vectors=given(), freeze=True))

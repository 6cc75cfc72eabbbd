"""Pooling of subwords to words, against a loop over every word."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from trellis.errors import ConfigError, ShapeError
from trellis.nn.pooling import How, WordPooling, pool

HOWS: list[How] = ["mean", "first", "last", "max"]
REDUCE = {
    "mean": lambda found: found.mean(0),
    "first": lambda found: found[0],
    "last": lambda found: found[-1],
    "max": lambda found: found.amax(0),
}


def pool_slowly(features: Tensor, word_ids: Tensor, words: int, how: How) -> Tensor:
    """The definition: for each sentence, for each word, the subwords that carry its id."""
    out = torch.zeros(len(features), words, features.shape[2], dtype=features.dtype)
    for b in range(len(features)):
        for word in range(words):
            found = features[b][word_ids[b] == word]
            if len(found):
                out[b, word] = REDUCE[how](found)
    return out


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Tensor, int]:
    B, S, T, H = (draw(st.integers(low, high)) for low, high in ((0, 4), (0, 9), (0, 6), (1, 3)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    word_ids = torch.randint(-1, T, (B, S), generator=generator)
    return torch.randn(B, S, H, generator=generator, dtype=torch.float64), word_ids, T


@pytest.mark.parametrize("how", HOWS)
@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_equals_a_loop_over_words_for_any_word_ids(how: How, case: tuple[Tensor, Tensor, int]) -> None:
    features, word_ids, words = case
    torch.testing.assert_close(pool(features, word_ids, words, how), pool_slowly(features, word_ids, words, how))


def realistic(B: int = 8, S: int = 40, H: int = 5) -> tuple[Tensor, Tensor, int]:
    """Words of one to three subwords between two special tokens, padded on the right."""
    generator = torch.Generator().manual_seed(3)
    word_ids = torch.full((B, S), -1)
    for b in range(B):
        sizes = torch.randint(1, 4, (6 + b,), generator=generator)
        ids = torch.arange(6 + b).repeat_interleave(sizes)
        word_ids[b, 1 : 1 + len(ids)] = ids
    return torch.randn(B, S, H, generator=generator), word_ids, 6 + B - 1


@pytest.mark.parametrize("how", HOWS)
def test_padding_side_and_batch_do_not_matter(how: How) -> None:
    features, word_ids, words = realistic()
    expected = pool(features, word_ids, words, how)
    left = [torch.roll(tensor, 3, dims=1) for tensor in (features, word_ids)]
    assert torch.equal(pool(left[0], left[1], words, how), expected)
    backwards = pool(features.flip(0), word_ids.flip(0), words, how).flip(0)
    assert torch.equal(backwards, expected)
    for b in range(len(features)):
        assert torch.equal(pool(features[b : b + 1], word_ids[b : b + 1], words, how)[0], expected[b])


@pytest.mark.parametrize("how", HOWS)
def test_what_is_dropped_does_not_leak(how: How) -> None:
    features, word_ids, words = realistic()
    expected = pool(features, word_ids, words, how)
    features[word_ids < 0] = torch.nan
    features.requires_grad_(True)
    pooled = pool(features, word_ids, words, how)
    assert torch.equal(pooled, expected)
    pooled.sum().backward()
    assert features.grad is not None
    assert torch.equal(features.grad[word_ids < 0], torch.zeros(int((word_ids < 0).sum()), features.shape[2]))


@pytest.mark.parametrize("how", HOWS)
def test_the_same_bits_every_time(how: How) -> None:
    features, word_ids, words = realistic(H=64)
    runs = []
    for _ in range(5):
        leaf = features.clone().requires_grad_(True)
        pooled = pool(leaf, word_ids, words, how)
        pooled.square().sum().backward()
        assert leaf.grad is not None
        runs.append((pooled.detach(), leaf.grad))
    assert all(torch.equal(a, b) for run in runs for a, b in zip(run, runs[0], strict=True))


@pytest.mark.parametrize("how", HOWS)
def test_gradients(how: How) -> None:
    word_ids = torch.tensor([[-1, 0, 0, 2, 2, 2, -1], [1, 1, 3, 0, -1, -1, -1]])
    features = torch.randn(2, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(
        lambda x: pool(x, word_ids, 4, how), features.requires_grad_(True), check_batched_grad=False
    )


def test_rows_of_one_sentence_are_put_together() -> None:
    features = torch.tensor([[[1.0], [2.0]], [[3.0], [5.0]], [[7.0], [8.0]]])
    word_ids = torch.tensor([[0, 1], [1, 2], [-1, 0]])
    pooled = pool(features, word_ids, 3, rows=torch.tensor([0, 0, 2]), sentences=3)
    assert pooled[..., 0].tolist() == [[1.0, 2.5, 5.0], [0.0, 0.0, 0.0], [8.0, 0.0, 0.0]]
    last = pool(features, word_ids, 3, "last", rows=torch.tensor([0, 0, 2]), sentences=3)
    assert last[0, :, 0].tolist() == [1.0, 3.0, 5.0]


def test_a_word_without_subwords_has_a_learned_vector_and_padding_does_not() -> None:
    torch.manual_seed(0)
    pooling = WordPooling("mean", size=2)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    features = torch.ones(2, 2, 2)
    out = pooling(features, torch.tensor([[0, 2], [0, -1]]), mask)
    assert torch.equal(out[0, 1], pooling.absent)
    assert torch.equal(out[0, [0, 2]], torch.ones(2, 2))
    assert torch.equal(out[1, 1:], torch.zeros(2, 2))
    out.sum().backward()
    assert pooling.absent.grad is not None
    assert pooling.absent.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("how", HOWS)
def test_layers_are_mixed_by_learned_weights(how: How) -> None:
    features, word_ids, words = realistic()
    layers = [features, features.sin(), features.square()]
    pooling = WordPooling(how, size=5, layers=3)
    nn.init.normal_(pooling.weights)
    nn.init.constant_(pooling.scale, 1.5)
    mask = pool_slowly(torch.ones(8, 40, 1), word_ids, words, "max")[..., 0] > 0
    shares = pooling.weights.softmax(0)
    expected = sum(
        1.5 * share * pool_slowly(layer, word_ids, words, how) for share, layer in zip(shares, layers, strict=True)
    )
    torch.testing.assert_close(pooling(layers, word_ids, mask), expected)
    pooling(layers, word_ids, mask).square().sum().backward()
    assert all(parameter.grad is not None for parameter in (pooling.weights, pooling.scale))


def test_the_mix_begins_as_the_mean_of_the_layers() -> None:
    pooling = WordPooling(size=1, layers=2)
    out = pooling([torch.full((1, 1, 1), 2.0), torch.full((1, 1, 1), 4.0)], torch.tensor([[0]]), torch.tensor([[True]]))
    assert out.item() == pytest.approx(3.0)


class TestErrors:
    def test_shapes(self) -> None:
        with pytest.raises(ShapeError, match=r"features must be \(R, S, H\) and word_ids \(R, S\), got \(2, 3, 4\)"):
            pool(torch.zeros(2, 3, 4), torch.zeros(3, 2, dtype=torch.int64), 1)
        with pytest.raises(ShapeError, match="rows must be"):
            pool(torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64), 1, rows=torch.zeros(2, dtype=torch.int64))
        with pytest.raises(ShapeError, match="expected the states of 2 layers, got 1"):
            WordPooling(size=4, layers=2)(torch.zeros(1, 1, 4), torch.tensor([[0]]), torch.tensor([[True]]))

    def test_settings(self) -> None:
        with pytest.raises(ConfigError, match="pooling must be one of mean, first, last, max, got 'middle'"):
            WordPooling("middle", size=4)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="layers must be at least 1 or None, got 0"):
            WordPooling(size=4, layers=0)

    def test_a_word_id_beyond_the_sentence_is_refused(self) -> None:
        with pytest.raises(ShapeError, match="word_ids must be below T = 2, got 2"):
            pool(torch.zeros(1, 3, 4), torch.tensor([[0, 2, -1]]), 2)

"""Words to subwords and back: tokenizers of several kinds, windows over long sentences, pooling."""

import json
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from torch import Tensor, nn

from tests.nn.tiny import PIECES, byte_level, wordpiece
from tests.nn.tokenizer_kinds import KINDS, TEXT
from trellis.errors import ConfigError, DataError, ShapeError, StoreError
from trellis.nn import WordPooling, pool
from trellis.nn.subwords import How, Subwords, SubwordTokenizer, windows_of

ODD = [
    "the",
    "",
    " ",
    "New York",
    "\x00",
    "\ud800",
    "a\udc80b",
    "\ud83d\ude00",
    "[SEP]",
    "中文",
    "x\ty\n",
    "\u200b",
    "z",
]


def words_of(subwords: Subwords) -> list[list[int]]:
    return [part.tolist() for part in np.split(subwords.words, np.cumsum(subwords.lengths)[:-1])]


def test_subwords_know_their_words() -> None:
    subwords = SubwordTokenizer(wordpiece())([["Going", "the"], [], ["b"]])
    pieces = [PIECES[number] for number in subwords.ids]
    assert pieces == ["g", "##o", "##ing", "the", "b"]
    assert words_of(subwords) == [[0, 0, 0, 1], [], [0]]
    assert subwords.tokens.tolist() == [2, 0, 1]


def test_half_surrogate_pairs_become_the_replacement_character_and_whole_ones_a_character() -> None:
    tokenizer = SubwordTokenizer(byte_level())
    assert tokenizer([["\ud800"]]).ids.tolist() == tokenizer([["\ufffd"]]).ids.tolist()
    assert tokenizer([["\ud83d\ude00"]]).ids.tolist() == tokenizer([["😀"]]).ids.tolist()


def test_truncation_and_padding_of_the_tokenizer_are_switched_off() -> None:
    backend = wordpiece()
    backend.enable_truncation(4)
    backend.enable_padding(length=8)
    subwords = SubwordTokenizer(backend)([["the"] * 50, ["a"]])
    assert subwords.lengths.tolist() == [50, 1]


def test_selection() -> None:
    tokenizer = SubwordTokenizer(wordpiece())
    sentences = [["ab", "c"], [], ["the"], ["xyz", "", "q"]]
    chosen = tokenizer(sentences).select([3, 1, 0, 3])
    again = tokenizer([sentences[i] for i in (3, 1, 0, 3)])
    for name in Subwords.__slots__:
        assert getattr(chosen, name).tolist() == getattr(again, name).tolist(), name
    assert len(tokenizer(sentences).select([])) == 0


def test_no_sentences() -> None:
    subwords = SubwordTokenizer(wordpiece())([])
    assert (len(subwords), subwords.ids.dtype, subwords.words.dtype) == (0, np.int64, np.int64)


def test_storage_as_text() -> None:
    tokenizer = SubwordTokenizer(byte_level(), pad=1, limit=77)
    again = SubwordTokenizer.from_json(tokenizer.to_json())
    assert (again.pad, again.limit, again.prefix, again.suffix) == (1, 77, [0], [2])
    assert again([ODD]).ids.tolist() == tokenizer([ODD]).ids.tolist()
    assert again.to_json() == tokenizer.to_json()
    with pytest.raises(StoreError, match="the stored tokenizer cannot be read"):
        SubwordTokenizer.from_json(json.dumps({"pad": 0, "limit": None, "backend": {"model": 3}}))


def test_a_token_that_is_no_string_is_named() -> None:
    with pytest.raises(DataError, match="sentence 1, token 1: expected a string, got int 3"):
        SubwordTokenizer(wordpiece())([["a"], ["b", 3]])  # type: ignore[list-item]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_batches_are_of_like_length_and_within_the_budget(device: str) -> None:
    rng = np.random.default_rng(0)
    lengths, tokens = rng.integers(0, 60, 5000), rng.integers(0, 60, 5000)
    lengths[7], tokens[9] = 100_000, 90_000
    nothing = np.zeros(0, dtype=np.int64)
    batches = Subwords(nothing, nothing, lengths, tokens).by_length(device)
    assert np.sort(np.concatenate(batches)).tolist() == list(range(5000))
    sizes = [np.maximum(lengths[batch], tokens[batch]) for batch in batches]
    assert [batches[0].tolist(), batches[1].tolist()] == [[7], [9]]
    assert all(before.min() >= after.max() for before, after in pairwise(sizes))
    budget = {"cpu": 768, "cuda": 16384}[device]
    assert all(budget - own.max() < own.max() * len(own) <= budget for own in sizes[2:-1])
    assert Subwords(nothing, nothing, nothing, nothing).by_length(device) == []


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[int], int, int]:
    window = draw(st.integers(1, 9))
    return draw(st.lists(st.integers(0, 40), max_size=4)), window, draw(st.integers(0, window - 1))


@given(layouts())
def test_every_place_is_owned_once_by_a_window_with_its_best_context(layout: tuple[list[int], int, int]) -> None:
    lengths, window, overlap = layout
    windows = windows_of(np.array(lengths, dtype=np.int64), window, overlap)
    for sentence, length in enumerate(lengths):
        mine = np.flatnonzero(windows.sentences == sentence)
        spans = [(int(windows.starts[k]), int(windows.starts[k] + windows.lengths[k])) for k in mine]
        assert all(start >= 0 and stop <= length for start, stop in spans)
        owned = [place for k in mine for place in range(int(windows.first[k]), int(windows.stop[k]))]
        assert owned == list(range(length))
        for k, (start, stop) in zip(mine, spans, strict=True):
            for place in range(int(windows.first[k]), int(windows.stop[k])):
                best = max(min(place - a, b - 1 - place) for a, b in spans if a <= place < b)
                assert start <= place < stop
                assert min(place - start, stop - 1 - place) == best


def test_a_sentence_that_fits_is_one_window() -> None:
    windows = windows_of(np.array([5, 0, 3]), 5, 2)
    assert windows.sentences.tolist() == [0, 2]
    assert windows.lengths.tolist() == [5, 3]


def test_the_last_window_is_full() -> None:
    windows = windows_of(np.array([8]), 5, 2)
    assert windows.starts.tolist() == [0, 3]
    assert windows.first.tolist() == [0, 4]
    assert windows.stop.tolist() == [4, 8]


@pytest.mark.parametrize(
    ("window", "overlap", "message"),
    [
        (0, 0, "window must hold at least one subword, got 0"),
        (4, 4, r"overlap must be in 0\.\.3 for a window of 4 subwords, got 4"),
        (4, -1, r"overlap must be in 0\.\.3"),
    ],
)
def test_impossible_windows_are_refused(window: int, overlap: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        windows_of(np.array([3]), window, overlap)


EACH = pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
SENTENCES = [text.split() for text in TEXT]


def in_running_text(backend: Tokenizer, words: list[str]) -> tuple[list[int], list[int]]:
    """The subwords of a text, and the word that the last character of each belongs to."""
    text = " ".join(["the", *words])  # what stands before the first word is left out again
    owner = [number for number, word in enumerate(["the", *words], -1) for _ in range(len(word) + 1)][1:]
    encoding = backend.encode(text, add_special_tokens=False)
    found = [owner[max(start, end - 1)] for start, end in encoding.offsets]
    first = found.index(0)
    return encoding.ids[first:], found[first:]


@EACH
@pytest.mark.parametrize("words", SENTENCES, ids=["english", "marks", "mixed"])
def test_words_have_the_subwords_that_they_have_in_running_text(
    kind: Callable[[], Tokenizer], words: list[str]
) -> None:
    backend = kind()
    subwords = SubwordTokenizer(backend)([words])
    ids, owners = in_running_text(backend, words)
    assert subwords.ids.tolist() == ids
    assert subwords.words.tolist() == owners
    assert len(ids) > len(words), "some word has several subwords"


@EACH
def test_each_word_has_its_own_subwords_wherever_it_stands(kind: Callable[[], Tokenizer]) -> None:
    """The first word is no exception: it gets the space, or the mark of one, that the others get."""
    tokenizer = SubwordTokenizer(kind())
    words = [*SENTENCES[0], *ODD, *SENTENCES[2]]
    subwords = tokenizer([words])
    (owners,) = words_of(subwords)
    assert owners == sorted(owners)
    for place, word in enumerate(words):
        own = [number for number, owner in zip(subwords.ids.tolist(), owners, strict=True) if owner == place]
        assert own == tokenizer([[word]]).ids.tolist(), repr(word)


@EACH
def test_special_tokens_stand_around_a_sentence_and_in_no_word(kind: Callable[[], Tokenizer]) -> None:
    backend = kind()
    tokenizer = SubwordTokenizer(backend)
    ids = backend.encode("going", add_special_tokens=True).ids
    assert (tokenizer.prefix, tokenizer.suffix) == (ids[:1], ids[-1:])
    again = SubwordTokenizer.from_json(tokenizer.to_json())
    assert again(SENTENCES).ids.tolist() == tokenizer(SENTENCES).ids.tolist()
    assert again.space == tokenizer.space


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

"""Tokenization of words that are already split: every word keeps its index, whatever it holds."""

import json
from itertools import pairwise

import numpy as np
import pytest
from tokenizers import Tokenizer

from tests.nn.tiny import PIECES, byte_level, wordpiece
from trellis.errors import DataError, StoreError
from trellis.nn.subwords import Subwords, SubwordTokenizer

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


@pytest.mark.parametrize("backend", [wordpiece, byte_level])
def test_words_of_any_content_keep_their_index(backend: object) -> None:
    tokenizer = SubwordTokenizer(backend())  # type: ignore[operator]
    subwords = tokenizer([ODD, ["z"]])
    assert subwords.tokens.tolist() == [len(ODD), 1]
    assert set(subwords.words.tolist()) <= set(range(len(ODD)))
    # Each word alone gives the subwords it gives in company.
    for index, word in enumerate(ODD):
        alone = tokenizer([[word]])
        here = subwords.ids[: subwords.lengths[0]][subwords.words[: subwords.lengths[0]] == index]
        assert here.tolist() == alone.ids.tolist(), repr(word)
    assert subwords.words[subwords.lengths[0] - 1] == len(ODD) - 1


def test_half_surrogate_pairs_become_the_replacement_character_and_whole_ones_a_character() -> None:
    tokenizer = SubwordTokenizer(byte_level())
    assert tokenizer([["\ud800"]]).ids.tolist() == tokenizer([["\ufffd"]]).ids.tolist()
    assert tokenizer([["\ud83d\ude00"]]).ids.tolist() == tokenizer([["😀"]]).ids.tolist()


def test_a_byte_level_tokenizer_sees_words_after_a_space() -> None:
    """With or without its own prefix space, a word is what it would be inside a sentence."""
    plain, prefixing = byte_level(), byte_level(add_prefix_space=True)
    expected = plain.encode(" a b", add_special_tokens=False).ids
    for backend in (plain, prefixing):
        assert SubwordTokenizer(backend)([["a", "b"]]).ids.tolist() == expected


def test_truncation_and_padding_of_the_tokenizer_are_switched_off() -> None:
    backend = wordpiece()
    backend.enable_truncation(4)
    backend.enable_padding(length=8)
    subwords = SubwordTokenizer(backend)([["the"] * 50, ["a"]])
    assert subwords.lengths.tolist() == [50, 1]


def test_special_tokens_are_found() -> None:
    tokenizer = SubwordTokenizer(wordpiece())
    assert (tokenizer.prefix, tokenizer.suffix) == ([2], [3])
    assert (tokenizer.prefix_types, tokenizer.suffix_types) == ([0], [0])
    parts = json.loads(wordpiece().to_str()) | {"post_processor": None}
    bare = Tokenizer.from_str(json.dumps(parts))
    assert SubwordTokenizer(bare).prefix == SubwordTokenizer(bare).suffix == []


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

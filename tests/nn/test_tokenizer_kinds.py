"""Words to subwords with the tokenizers of RoBERTa, ModernBERT, XLM-R and DeBERTa: as in running text, word by word."""

from collections.abc import Callable

import pytest
from tokenizers import Tokenizer

from tests.nn.test_subwords import ODD, words_of
from tests.nn.tokenizer_kinds import KINDS, TEXT
from trellis.nn.subwords import SubwordTokenizer

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

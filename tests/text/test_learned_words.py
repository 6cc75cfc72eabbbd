"""Conventions found from the tokens of a corpus, with its raw text or without."""

import pickle

import pytest

from trellis.errors import DataError, DataWarning
from trellis.text import Conventions, Sentence, WordSplitter, learned_words, splitter_from_dict, tokenize
from trellis.untrusted import Fields

TEXTS = ["It's a well-known fact.", "Don't pay $5 for 3.5%!", "Ann's co-worker e-mailed and/or called.", "Stop!!! Now."]


def corpus(conventions: Conventions) -> list[Sentence]:
    return [WordSplitter(conventions).sentence(text) for text in TEXTS]


def test_switches_are_found_from_sentences_with_text() -> None:
    other = Conventions(clitics=False, hyphens=True, slashes=False, percent=False, money=False, runs=True)
    found = learned_words(corpus(other)).conventions
    for switch in ("clitics", "hyphens", "slashes", "percent", "money", "runs"):
        assert getattr(found, switch) == getattr(other, switch), switch


def test_switches_are_found_from_tokens_alone() -> None:
    other = Conventions(clitics=False, percent=False, money=False, slashes=False)
    found = learned_words([sentence.tokens for sentence in corpus(other)]).conventions
    assert (found.clitics, found.percent, found.money, found.slashes) == (False, False, False, False)
    usual = learned_words([sentence.tokens for sentence in corpus(Conventions(hyphens=True))]).conventions
    assert (usual.clitics, usual.percent, usual.money, usual.hyphens) == (True, True, True, True)


def test_a_corpus_without_evidence_gets_the_defaults() -> None:
    assert learned_words([["Anna", "met", "Rome"]]).conventions == Conventions()
    assert learned_words([]).conventions == Conventions()


def test_what_the_rules_get_wrong_twice_becomes_an_exception() -> None:
    texts = [("i dont know", ["i", "do", "nt", "know"]), ("you dont .", ["you", "do", "nt", "."])]
    sentences = []
    for text, tokens in texts:
        places, end = [], 0
        for token in tokens:
            start = text.index(token, end)
            end = start + len(token)
            places.append((start, end))
        sentences.append(Sentence(tokens, text=text, offsets=places))
    assert learned_words(sentences).split("dont!") == ["do", "nt", "!"]
    assert learned_words(sentences[:1]).split("dont!") == ["dont", "!"]


def test_tokens_with_spaces_inside_and_odd_tokens_do_no_harm() -> None:
    words = learned_words([["New York", "", "a\u3000b", "'", "\ud800"], []])
    assert words.split("New York's") == ["New", "York", "'s"]


def test_learning_twice_gives_the_same() -> None:
    sentences = [tokenize(text, "english") for text in TEXTS]
    assert learned_words(sentences) == learned_words(sentences)


@pytest.mark.parametrize(
    ("tokens", "compounds"),
    [
        ([["他", "来到", "北京", "。"]], True),
        ([["他", "来", "到", "北", "京", "。"]], False),
        ([["She", "saw", "Tokyo"]], False),
        ([["He", "said", "北京"], *([["他"]] * 5)], False),  # a rare exception in a corpus of characters
    ],
)
def test_words_of_several_ideographs_are_noticed(tokens: list[list[str]], compounds: bool) -> None:
    how = learned_words(tokens)
    assert how.compounds is compounds
    again = splitter_from_dict(Fields(how.to_dict(), "tokenizer", DataError))
    assert again == how
    assert pickle.loads(pickle.dumps(how)) == how


def test_text_without_spaces_is_not_taken_apart_silently() -> None:
    how = learned_words([["他", "来到", "北京", "。"]])
    with pytest.warns(DataWarning, match=r"words of several ideographs.*--pipe"):
        assert how.split("她来了") == ["她", "来", "了"]
    assert how.split("Hello, 她!") == ["Hello", ",", "她", "!"]  # no warning: nothing was taken apart

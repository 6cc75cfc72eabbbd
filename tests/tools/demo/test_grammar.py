"""The grammar that the corpora were drawn from: how it is read, and what is drawn."""

import itertools

import pytest
from tools.demo.generate import HERE
from tools.demo.grammar import Grammar, Symbol, Writer, to_sentence

from trellis.errors import DataError

TEXT = """\
# greetings
sentence:
    hello <who> .
    # another
    bye <who> .

who:
    Ada | Eva
    --
    Ida
"""


def drawn(text, count, *, held_out=False, seed=1):
    sentences = Writer(Grammar.parse(text), seed).sentences(held_out=held_out)
    return [" ".join(sentence.tokens) for sentence in itertools.islice(sentences, count)]


def test_a_grammar_is_read():
    assert Grammar.parse(TEXT).symbols == {
        "sentence": Symbol(["hello <who> .", "bye <who> ."]),
        "who": Symbol(["Ada", "Eva"], ["Ida"]),
    }


def test_alternatives_are_dealt_like_cards():
    first = drawn(TEXT, 4)
    assert sorted(sentence.split()[0] for sentence in first) == ["Bye", "Bye", "Hello", "Hello"]
    assert sorted(sentence.split()[1] for sentence in first[:2]) == ["Ada", "Eva"]
    assert first == drawn(TEXT, 4)
    assert len({tuple(drawn(TEXT, 4, seed=seed)) for seed in range(20)}) > 5


def test_what_is_held_out_never_comes_up_in_training():
    assert {sentence.split()[1] for sentence in drawn(TEXT, 50)} == {"Ada", "Eva"}
    assert {sentence.split()[1] for sentence in drawn(TEXT, 50, held_out=True)} == {"Ada", "Eva", "Ida"}


def test_references_join_what_they_touch():
    assert drawn("sentence:\n    <a><b>'s <a>\na:\n    x\nb:\n    y\n", 1) == ["Xy's x"]


@pytest.mark.parametrize(
    ("text", "tokens", "tags"),
    [
        ("[PER Ada Hill ] left .", "Ada Hill left .", "B-PER I-PER O O"),
        ("[LOC Ulm ] [LOC Bonn ]", "Ulm Bonn", "B-LOC B-LOC"),
        ("the end", "The end", "O O"),
        ('" no , " he said', '" No , " he said', "O O O O O O"),
        ("~ Is [PER Ada ] in ?", "is ada in ?", "O B-PER O O"),
        ("^ a [ORG Ulm Opera ] row", "AN ULM OPERA ROW", "O B-ORG I-ORG O"),
        ("it is a error", "It is an error", "O O O O"),
    ],
)
def test_a_drawn_sentence_becomes_tokens_and_tags(text, tokens, tags):
    sentence = to_sentence(text)
    assert (sentence.tokens, sentence.tags) == (tuple(tokens.split()), tuple(tags.split()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("words\n", "grammar, line 1: expected a symbol such as 'city:', found 'words'"),
        ("city:\n    Ulm\n", "grammar: there is no symbol 'sentence'"),
        ("sentence:\n    to <city> .\n", "grammar: <city> in 'to <city> .' of 'sentence' is not a symbol"),
        ("sentence:\n    --\n    x\n", "grammar: the symbol 'sentence' has no alternative for training"),
    ],
)
def test_a_grammar_that_cannot_be_used(text, message):
    with pytest.raises(DataError) as caught:
        Grammar.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["english", "chinese"])
def test_every_symbol_of_our_grammars_is_used(name):
    grammar = Grammar.parse((HERE / f"{name}.grammar").read_text("utf-8"))
    text = "\n".join(line for symbol in grammar.symbols.values() for line in (*symbol.seen, *symbol.held_out))
    assert [name for name in grammar.symbols if f"<{name}>" not in text] == ["sentence"]

"""Words with tags as tagged characters, and back."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from trellis.corpus import sentence_from_words, to_characters, to_words
from trellis.errors import DataError
from trellis.tags import Scheme
from trellis.text import Sentence, graphemes

WORDS = [("我们", "PRON"), ("爱", "VERB"), ("北京", "PROPN"), ("烤鸭", "NOUN")]
tagged = st.lists(st.tuples(st.text("ab我们\u0301é", min_size=1, max_size=4), st.sampled_from(["N", "V", "S-E"])))


def sentence(pairs: list[tuple[str, str]], **more: object) -> Sentence:
    return Sentence([word for word, _ in pairs], [tag for _, tag in pairs], **more)


def test_each_character_has_its_place_and_the_tag_of_its_word() -> None:
    found = to_characters(sentence(WORDS))
    assert found.tokens == tuple("我们爱北京烤鸭")
    assert found.tags == ("B-PRON", "E-PRON", "S-VERB", "B-PROPN", "E-PROPN", "B-NOUN", "E-NOUN")
    assert found.text == "我们爱北京烤鸭"


@pytest.mark.parametrize("scheme", [s for s in Scheme if s not in (Scheme.PLAIN, Scheme.IO)])
@given(pairs=tagged)
def test_words_come_back_in_every_scheme_that_can_write_them(scheme: Scheme, pairs: list[tuple[str, str]]) -> None:
    there = to_characters(sentence(pairs), scheme=scheme)
    assert len(there) == sum(len(graphemes(word)) for word, _ in pairs)
    back = to_words(there, scheme=scheme)
    assert list(zip(back.tokens, back.tags or (), strict=True)) == pairs


def test_offsets_are_those_of_the_text() -> None:
    spelled = Sentence(
        tuple("我们爱"), ("B-PRON", "E-PRON", "S-VERB"), "我们 爱", [(0, 1), (1, 2), (3, 4)], path="a", lines=(7,)
    )
    found = to_words(spelled)
    assert found.offsets == ((0, 2), (3, 4))
    assert found.where == "a:7"


def test_what_lies_outside_words_is_a_word_by_itself() -> None:
    assert to_words(Sentence(tuple("我们爱"), ("B-N", "E-N", "O"))).tags == ("N", "O")
    assert to_words(Sentence(tuple("我们爱"), ("O", "O", "O"))) == Sentence(tuple("我们爱"))
    bare = to_words(sentence_from_words(["我们", "爱"]))
    assert (bare.tokens, bare.tags) == (("我们", "爱"), None)


def test_what_cannot_be_spelled_is_named() -> None:
    with pytest.raises(DataError, match=r"a\.txt:3: its words have no tags"):
        to_characters(Sentence(["我们"], path="a.txt", lines=(3,)))
    with pytest.raises(DataError, match="a sentence without tags has no words"):
        to_words(Sentence(tuple("我们")))
    with pytest.raises(DataError, match="not legal BMES"):
        to_words(Sentence(tuple("我们"), ("E-N", "B-N")))

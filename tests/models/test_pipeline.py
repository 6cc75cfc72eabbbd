"""Taggers one after another: tokens, offsets and columns on the way, and what cannot follow what."""

from __future__ import annotations

from pathlib import Path

import pytest

import trellis
from trellis.corpus import sentence_from_words, to_characters
from trellis.errors import ModelError, NotFittedError, StoreError
from trellis.models import CRF, Pipeline, Tagger
from trellis.text import Sentence, graphemes

TEXT = """\
我们/PRON/O 爱/VERB/O 北京/PROPN/B-LOC
他/PRON/O 爱/VERB/O 音乐/NOUN/O
张三/PROPN/B-PER 在/ADP/O 上海/PROPN/B-LOC
北京/PROPN/B-LOC 爱/VERB/O 张三/PROPN/B-PER
"""
ROWS = [[item.split("/") for item in line.split()] for line in TEXT.splitlines()]
RAW = "他爱北京 我们在上海"


@pytest.fixture(scope="module")
def taggers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tagger]:
    words = [[cell[0] for cell in row] for row in ROWS]
    seg = CRF(features="seg", c2=0.01).fit([sentence_from_words(own) for own in words])
    pos = CRF(features="pos", c2=0.01).fit(words, [[cell[1] for cell in row] for row in ROWS])
    tagged = [Sentence([c[0] for c in row], [c[2] for c in row], columns={"pos": [c[1] for c in row]}) for row in ROWS]
    templates = tmp_path_factory.mktemp("templates") / "ner.txt"
    templates.write_text("U00:%x[0,0]\nU01:%x[0,1]\nB\n")
    ner = CRF(features=str(templates), c2=0.01).fit(tagged)
    both = [to_characters(Sentence([c[0] for c in row], [c[1] for c in row])) for row in ROWS]
    return {"seg": seg, "pos": pos, "ner": ner, "joint": CRF(features="seg", c2=0.01).fit(both)}


def test_words_become_tokens_and_offsets_stay_those_of_the_text(taggers: dict[str, Tagger]) -> None:
    pipeline = Pipeline({name: taggers[name] for name in ("seg", "pos", "ner")})
    tagged = pipeline(RAW)
    assert tagged.tokens == ("他", "爱", "北京", "我们", "在", "上海")
    assert tagged.sentence.columns["pos"] == ("PRON", "VERB", "PROPN", "PRON", "ADP", "PROPN")
    assert [(span.start, span.end, span.label) for span in tagged] == [(2, 4, "LOC"), (8, 10, "LOC")]
    assert [RAW[a:b] for a, b in tagged.sentence.offsets] == list(tagged.tokens)
    assert repr(pipeline) == "Pipeline(seg: CRF, pos: CRF, ner: CRF)"


def test_the_answers_are_those_of_one_call_after_another(taggers: dict[str, Tagger]) -> None:
    found = Pipeline([taggers["seg"], taggers["pos"]])([RAW, "", "张三"])
    for text, one in zip([RAW, "", "张三"], found, strict=True):
        words = taggers["seg"](text).to_words()
        assert one == taggers["pos"](words)


def test_a_joint_model_hands_on_words_and_a_column(taggers: dict[str, Tagger]) -> None:
    tagged = Pipeline({"pos": taggers["joint"], "ner": taggers["ner"]})([RAW, ""])[0]
    words = taggers["joint"](RAW).to_words()
    assert (tagged.tokens, tagged.sentence.columns["pos"]) == (words.tokens, words.tags)
    assert words.tags[:3] == ("PRON", "VERB", "PROPN")
    assert [span.text for span in tagged] == ["北京", "上海"]


def test_a_tagger_of_words_leaves_the_tokens(taggers: dict[str, Tagger]) -> None:
    given = Sentence(["张三", "爱", "上海"])
    tagged = Pipeline({"pos": taggers["pos"], "ner": taggers["ner"]}).tag([given])[0]
    assert tagged.tokens == given.tokens
    assert tagged.tags == ("B-PER", "O", "B-LOC")
    assert tagged.columns == {"pos": ("PROPN", "VERB", "PROPN")}


def test_token_lists_without_a_text_are_joined_as_the_first_tagger_does(taggers: dict[str, Tagger]) -> None:
    tagged = Pipeline([taggers["seg"], taggers["pos"]]).annotate([[*"我们爱音乐"]])[0]
    assert tagged.text == "我们爱音乐"
    assert tagged.sentence.offsets == ((0, 2), (2, 3), (3, 5))


def test_a_document_is_answered_as_a_whole(taggers: dict[str, Tagger]) -> None:
    text = "他爱北京。\n\n张三在上海。"
    tagged = Pipeline([taggers["seg"], taggers["pos"]])(text, sentences=True)
    assert tagged.text == text
    assert "张三" in tagged.tokens
    assert all(text[a:b] == token for token, (a, b) in zip(tagged.tokens, tagged.sentence.offsets, strict=True))


def test_white_space_in_raw_text_ends_words_of_a_joint_model_too(taggers: dict[str, Tagger]) -> None:
    joint = taggers["joint"]
    assert joint.makes_words
    for place in range(1, 5):
        text = f"{'我们爱北京'[:place]} {'我们爱北京'[place:]}"
        words = joint(text).to_words()
        assert not any(" " in word for word in words.tokens)
        assert len(graphemes("".join(words.tokens))) == 5
    assert not taggers["ner"].makes_words
    chunker = CRF(features="pos").fit([["a", "dog", "ran"]], [["B-NP", "I-NP", "B-VP"]])
    assert not chunker.makes_words  # every token is in a span, but tokens are words


def test_saved_taggers_are_called_like_their_folders(taggers: dict[str, Tagger], tmp_path: Path) -> None:
    for name in ("seg", "pos"):
        (tmp_path / name).mkdir()
        taggers[name].save(tmp_path / name / "model.safetensors")
    taggers["pos"].save(tmp_path / "other.safetensors")
    pipeline = Pipeline([tmp_path / "seg", str(tmp_path / "pos"), tmp_path / "pos" / "model.safetensors"])
    assert pipeline.names == ("seg", "pos", "pos 3")
    assert Pipeline([tmp_path / "seg", tmp_path / "other.safetensors"]).names == ("seg", "other")
    with pytest.raises(StoreError, match="none"):
        Pipeline([tmp_path / "seg", tmp_path / "none"])


def test_what_cannot_follow_is_refused(taggers: dict[str, Tagger]) -> None:
    for later, why in (("seg", "makes words of characters"), ("joint", "makes words of characters")):
        with pytest.raises(ModelError, match=f"tagger 2 of the pipeline, tagger 2, {why}"):
            Pipeline([taggers["pos"], taggers[later]])
    characters = CRF(features="seg").fit([sentence_from_words(["我们", "爱"]).with_tags(("B-X", "I-X", "O"))])
    with pytest.raises(ModelError, match="reads characters"):
        Pipeline([taggers["seg"], characters])
    with pytest.raises(ModelError, match="at least two taggers, got 1"):
        Pipeline([taggers["seg"]])
    with pytest.raises(ModelError, match="a list of taggers, got one"):
        Pipeline(taggers["seg"])
    with pytest.raises(ModelError, match="taggers or their paths, got a int"):
        Pipeline([taggers["seg"], 3])
    with pytest.raises(ModelError, match="cannot be called 'tokens'"):
        Pipeline({"seg": taggers["seg"], "tokens": taggers["pos"]})
    with pytest.raises(NotFittedError):
        Pipeline([taggers["seg"], trellis.CRF()])

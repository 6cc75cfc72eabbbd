"""Real pipelines of spaCy with taggers in them, found by entry points."""

from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.cli.package import get_meta
from spacy.tokens import DocBin

from trellis import CRF, HMM, Sentence, __version__, demo
from trellis.errors import ConfigError, ModelError

TEXTS = ["Maria Berg flew to Lima.", "", "  \n", "Nobody slept .", "Oslo\n\nis far from Lima."]


@pytest.fixture(scope="session")
def ner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ner")
    CRF(max_iterations=30).fit(demo.english().train[:300]).save(folder / "model.safetensors")
    return folder


@pytest.fixture(scope="session")
def pos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pos")
    tags = ["PROPN", "VERB", "ADP", "PROPN", "PUNCT"]
    sentences = [
        Sentence(f"{name} {verb} to Oslo .".split(), tags) for name in ("Ada", "Bo") for verb in ("ran", "sat")
    ]
    HMM().fit(sentences).save(folder / "model.safetensors")
    return folder


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    CRF(max_iterations=30).fit(demo.chinese().train[:200]).save(folder / "model.safetensors")
    return folder


def blank(factory: str, model: Path, language: str = "en", **settings: object) -> spacy.Language:
    nlp = spacy.blank(language)
    nlp.add_pipe(factory, config={"model": str(model), **settings})
    return nlp


def test_entities_are_those_of_the_tagger_with_its_probabilities(ner: Path) -> None:
    nlp, tagger = blank("trellis_ner", ner), CRF.load(ner / "model.safetensors")
    for doc in map(nlp, TEXTS):
        tokens = [token.text for token in doc if not token.is_space]
        spans = tagger.annotate([tokens])[0].spans
        assert [(ent.label_, ent.text.split()) for ent in doc.ents] == [(s.label, s.text.split()) for s in spans]
        group = doc.spans["trellis"]
        assert [(span.start, span.end, span.label) for span in group] == [(e.start, e.end, e.label) for e in doc.ents]
        np.testing.assert_allclose(group.attrs["scores"], [span.probability for span in spans])
        assert [ent._.probability for ent in doc.ents] == list(group.attrs["scores"])
    assert [ent.text for ent in nlp(TEXTS[0]).ents] == ["Maria Berg", "Lima"]
    assert nlp(TEXTS[0])[0:1]._.probability is None


def test_pipe_gives_what_single_calls_give(ner: Path) -> None:
    nlp = blank("trellis_ner", ner, spans_key="found")
    texts = TEXTS * 3
    expected = [[(e.start, e.end, e.label_, e._.probability) for e in nlp(text).ents] for text in texts]
    docs = list(nlp.pipe(texts, batch_size=4))
    assert [[(e.start, e.end, e.label_, e._.probability) for e in doc.ents] for doc in docs] == expected
    assert [doc.text for doc in docs] == texts
    assert list(docs[0].spans) == ["found"]


def test_a_component_can_be_taken_from_another_pipeline(ner: Path, pos: Path) -> None:
    source = blank("trellis_ner", ner)
    source.add_pipe("trellis_tagger", config={"model": str(pos)})
    nlp = spacy.blank("en")
    nlp.add_pipe("trellis_ner", source=source)
    nlp.add_pipe("trellis_tagger", source=source)
    for text in TEXTS:
        assert nlp(text).to_json() == source(text).to_json()


@pytest.mark.parametrize("overwrite", [False, True])
def test_entities_that_are_there_stay_unless_they_are_to_be_overwritten(ner: Path, overwrite: bool) -> None:
    nlp = spacy.blank("en")
    rules = [{"label": "FIRST", "pattern": "Maria", "id": "m"}, {"label": "LOC", "pattern": "Lima"}]
    nlp.add_pipe("entity_ruler").add_patterns(rules)  # type: ignore[attr-defined]
    nlp.add_pipe("trellis_ner", config={"model": str(ner), "overwrite": overwrite})
    doc, other = nlp.pipe(["Maria Berg flew to Lima.", "Oslo is far from Lima."])
    names = [(ent.text, ent.label_, ent.ent_id_) for ent in doc.ents]
    probabilities = [ent._.probability for ent in doc.ents]
    assert [ent.text for ent in other.ents] == ["Oslo", "Lima"]
    if overwrite:
        assert names == [("Maria Berg", "PER", ""), ("Lima", "LOC", "")]
        assert all(probabilities)
    else:
        assert names == [("Maria", "FIRST", "m"), ("Lima", "LOC", "")]
        assert probabilities[0] is None
        assert probabilities[1] == doc.spans["trellis"].attrs["scores"][0]
        assert [span.text for span in doc.spans["trellis"]] == ["Lima"], "found by both"


def test_a_document_that_is_tagged_twice_keeps_its_probabilities(ner: Path) -> None:
    nlp = blank("trellis_ner", ner)
    once = nlp(TEXTS[0]).to_json()
    assert nlp(nlp(TEXTS[0])).to_json() == once


def test_without_a_group_there_are_entities_alone(ner: Path) -> None:
    doc = blank("trellis_ner", ner, spans_key=None)(TEXTS[0])
    assert [ent.text for ent in doc.ents] == ["Maria Berg", "Lima"]
    assert (dict(doc.spans), doc.user_data, doc.ents[0]._.probability) == ({}, {}, None)


def test_several_processes_give_what_one_gives(ner: Path) -> None:
    nlp = blank("trellis_ner", ner)
    one, two = (list(nlp.pipe(TEXTS * 3, n_process=n, batch_size=2)) for n in (1, 2))
    assert [doc.to_json() for doc in two] == [doc.to_json() for doc in one]
    assert [[e._.probability for e in doc.ents] for doc in two] == [[e._.probability for e in doc.ents] for doc in one]


def test_labels_are_those_of_entities_and_of_tags(ner: Path, pos: Path) -> None:
    nlp = blank("trellis_ner", ner)
    nlp.add_pipe("trellis_tagger", config={"model": str(pos)})
    nlp.add_pipe("trellis_ner", "untrained")
    labels = {"trellis_ner": ["DATE", "LOC", "ORG", "PER"], "trellis_tagger": ["ADP", "PROPN", "PUNCT", "VERB"]}
    assert {name: sorted(own) for name, own in nlp.pipe_labels.items()} == labels | {"untrained": []}
    component = nlp.get_pipe("trellis_ner")
    assert component.add_label("PER") == 0
    with pytest.raises(ModelError, match="trellis_ner: the model knows the labels DATE, LOC, ORG, PER: train one with"):
        component.add_label("GPE")


def test_what_is_packaged_requires_us(ner: Path, words: Path, tmp_path: Path) -> None:
    nlp = blank("trellis_ner", ner)
    nlp.add_pipe("trellis_ner", "second", config={"model": str(ner)})
    nlp.to_disk(tmp_path / "stored")
    required = f"trellis-crf{spacy.util.get_minor_version_range(__version__)}"
    assert get_meta(tmp_path / "stored", {})["requirements"] == [required]
    settings = {"nlp": {"tokenizer": {"@tokenizers": "trellis_segmenter.v1", "model": str(words)}}}
    assert spacy.blank("zh", config=settings).meta["requirements"] == [required]


def test_sentences_are_tagged_one_by_one(ner: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("trellis_ner", config={"model": str(ner)})
    doc = nlp("Maria Berg slept. Lima is far.")
    tagger = CRF.load(ner / "model.safetensors")
    alone = [span.probability for part in ("Maria Berg slept .", "Lima is far .") for span in tagger([part.split()])[0]]
    assert [ent._.probability for ent in doc.ents] == pytest.approx(alone)


@pytest.mark.parametrize(("settings", "attribute"), [({}, "pos_"), ({"attribute": "tag"}, "tag_")])
def test_tags_and_their_probabilities(pos: Path, settings: dict[str, object], attribute: str) -> None:
    nlp, tagger = blank("trellis_tagger", pos, **settings), HMM.load(pos / "model.safetensors")
    doc = nlp("Ada ran  to Oslo.")
    (tagged,) = tagger.annotate([["Ada", "ran", "to", "Oslo", "."]])
    real = [token for token in doc if not token.is_space]
    assert [getattr(token, attribute) for token in real] == list(tagged.tags)
    assert [token._.probability for token in real] == list(tagged.probabilities)
    assert doc[2].is_space
    assert (getattr(doc[2], attribute), doc[2]._.probability) == ("", None)


def test_labels_that_are_no_parts_of_speech(ner: Path) -> None:
    assert [token.tag_ for token in blank("trellis_tagger", ner)(TEXTS[0])][:2] == ["B-PER", "I-PER"]
    with pytest.raises(ModelError, match=r"trellis_tagger: the label 'B-.*' is no part of speech"):
        blank("trellis_tagger", ner, attribute="pos")("Lima")
    with pytest.raises(ConfigError, match="trellis_tagger: attribute must be tag, pos or nothing, got 'lemma'"):
        blank("trellis_tagger", ner, attribute="lemma")


def test_chinese_words_as_a_component_and_as_a_tokenizer(words: Path) -> None:
    tagger = CRF.load(words / "model.safetensors")
    merging = blank("trellis_segmenter", words, "zh")
    making = spacy.blank(
        "zh", config={"nlp": {"tokenizer": {"@tokenizers": "trellis_segmenter.v1", "model": str(words)}}}
    )
    for sentence in demo.chinese().test[:20]:
        text = "".join(sentence.tokens)
        assert [token.text for token in merging(text)] == tagger(text).words
        assert [token.text for token in making(text)] == tagger(text).words
    spaced = "北京  大学 ABC"
    assert making(spaced).text == merging(spaced).text == spaced
    assert making("").text == ""


def test_a_tagger_of_characters_finds_names_in_tokens_of_any_size(tmp_path: Path) -> None:
    tags = ["B-ORG", "I-ORG", "I-ORG", "I-ORG", "O", "B-LOC", "I-LOC"]
    sentences = [Sentence(list("北京大学在上海"), tags), Sentence(list("东方大学在天津"), tags)]
    CRF(tokenizer="characters").fit(sentences).save(tmp_path / "model.safetensors")
    for language in ("en", "zh"):
        doc = blank("trellis_ner", tmp_path, language)("北京大学 在 上海")
        assert [(ent.text, ent.label_) for ent in doc.ents] == [("北京大学", "ORG"), ("上海", "LOC")]
        assert all(0 < ent._.probability <= 1 for ent in doc.ents)
    (whole,) = blank("trellis_ner", tmp_path)("北京大学在上海").ents
    assert (whole.text, whole.label_) == ("北京大学在上海", "ORG")


def test_a_model_for_something_else_is_refused(ner: Path, pos: Path, words: Path) -> None:
    with pytest.raises(
        ModelError, match=r"trellis_ner: this model gives every token a tag \(.*\) .* use trellis_tagger"
    ):
        blank("trellis_ner", pos)("Oslo")
    with pytest.raises(ModelError, match="trellis_ner: this model finds words and no names: use trellis_segmenter"):
        blank("trellis_ner", words)("北京")
    with pytest.raises(
        ModelError, match="trellis_segmenter: this model makes no words of characters; its labels are O"
    ):
        blank("trellis_segmenter", ner)("Lima")


@pytest.mark.parametrize("how", ["disk", "bytes"])
def test_a_stored_pipeline_needs_nothing_else(ner: Path, pos: Path, tmp_path: Path, how: str) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    for name, folder in (("ner", ner), ("pos", pos)):
        (moved / name).mkdir()
        (moved / name / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    nlp = blank("trellis_ner", moved / "ner")
    nlp.add_pipe("trellis_tagger", config={"model": str(moved / "pos")})
    expected = nlp(TEXTS[0]).to_json()
    if how == "disk":
        nlp.to_disk(tmp_path / "stored")
    data = nlp.to_bytes()
    moved.rename(tmp_path / "away")
    again = spacy.load(tmp_path / "stored") if how == "disk" else spacy.blank("en", config=nlp.config)
    if how == "bytes":
        again.from_bytes(data)
    assert again(TEXTS[0]).to_json() == expected


def test_a_stored_tokenizer(words: Path, tmp_path: Path) -> None:
    settings = {"nlp": {"tokenizer": {"@tokenizers": "trellis_segmenter.v1", "model": str(words)}}}
    nlp = spacy.blank("zh", config=settings)
    nlp.to_disk(tmp_path)
    text = "".join(demo.chinese().test[0].tokens)
    assert [token.text for token in spacy.load(tmp_path)(text)] == [token.text for token in nlp(text)]


def test_annotations_survive_a_docbin(ner: Path) -> None:
    nlp = blank("trellis_ner", ner)
    stored = DocBin(docs=[nlp(TEXTS[0])]).to_bytes()
    (doc,) = DocBin().from_bytes(stored).get_docs(nlp.vocab)
    assert [ent._.probability for ent in doc.ents] == [ent._.probability for ent in nlp(TEXTS[0]).ents]
    np.testing.assert_array_equal(doc.spans["trellis"].attrs["scores"], nlp(TEXTS[0]).spans["trellis"].attrs["scores"])


def test_a_component_without_a_model() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("trellis_ner")
    with pytest.raises(ModelError, match="trellis_ner has no model: its setting `model` names no model"):
        nlp("a")
    nlp.add_pipe("trellis_ner", "second", config={"model": "nowhere"})
    with pytest.raises(ModelError, match="second has no model: its setting `model` names 'nowhere', which does not"):
        nlp.get_pipe("second")(nlp.make_doc("a"))

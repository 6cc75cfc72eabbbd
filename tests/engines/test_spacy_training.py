"""Components that learn from spaCy's examples, and the configuration of the guide."""

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from trellis import CRF, Sentence, demo
from trellis.errors import ConfigError, DataError, ModelError

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "libraries.md"


def store(path: Path, sentences: Iterable[Sentence]) -> None:
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=list(s.tokens), ents=list(s.tags or ())) for s in sentences]
    DocBin(docs=docs).to_disk(path)


def test_spacy_trains_with_the_configuration_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (config,) = re.findall(r'```ini title="config.cfg"\n(.*?)```', GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    Path("config.cfg").write_text(config, encoding="utf-8")
    data = demo.english()
    store(Path("train.spacy"), data.train[:300])
    store(Path("dev.spacy"), data.dev[:100])
    train(Path("config.cfg"), Path("runs"), overrides={"components.trellis_ner.train.max_iterations": 30})
    nlp, tagger = spacy.load("runs/model-best"), CRF(max_iterations=30).fit(data.train[:300])
    assert nlp.pipe_labels["trellis_ner"] == sorted({label[2:] for label in tagger.labels_ if label != "O"})
    assert nlp.config["components"]["trellis_ner"]["train"] == {"family": "crf", "max_iterations": 30}
    docs = [Doc(nlp.vocab, words=list(sentence.tokens)) for sentence in data.dev[:100]]
    found = [[(e.start, e.end, e.label_) for e in doc.ents] for doc in nlp.pipe(docs)]
    spans = [[tuple(one.span) for one in tagged.token_spans] for tagged in tagger.annotate(data.dev[:100])]
    assert found == spans
    expected = tagger.evaluate(data.dev[:100]).micro.f1
    assert nlp.meta["performance"]["ents_f"] == pytest.approx(expected, abs=1e-3)


def example(nlp: spacy.Language, words: list[str], **annotations: object) -> Example:
    return Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, words=words, **annotations))


@pytest.mark.parametrize("attribute", ["tag", "pos"])
def test_tags_are_learned_and_scored(attribute: str) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("trellis_tagger", config={"attribute": attribute, "train": {"family": "hmm"}})
    given = {"tags" if attribute == "tag" else "pos": ["PROPN", "VERB", "ADP", "PROPN"]}
    examples = [example(nlp, f"{name} ran to Oslo".split(), **given) for name in ("Ada", "Bo", "Cy")]
    nlp.initialize(lambda: examples)
    assert [getattr(token, f"{attribute}_") for token in nlp("Ada ran to Oslo")] == ["PROPN", "VERB", "ADP", "PROPN"]
    assert nlp.evaluate(examples)[f"{attribute}_acc"] == 1


def test_words_are_learned_and_scored() -> None:
    nlp = spacy.blank("zh")
    nlp.add_pipe("trellis_segmenter", config={"train": {"max_iterations": 30}})
    examples = [
        Example(
            nlp.make_doc("北京大学在上海"), Doc(nlp.vocab, words=["北京", "大学", "在", "上海"], spaces=[False] * 4)
        )
    ] * 3
    nlp.initialize(lambda: examples)
    assert [token.text for token in nlp("北京大学在上海")] == ["北京", "大学", "在", "上海"]
    assert nlp.evaluate(examples)["token_f"] == 1


def test_held_out_data_of_the_configuration_is_watched(tmp_path: Path) -> None:
    store(tmp_path / "dev.spacy", demo.english().dev[:20])
    nlp = spacy.blank(
        "en", config={"initialize": {"components": {"trellis_ner": {"dev": str(tmp_path / "dev.spacy")}}}}
    )
    component = nlp.add_pipe("trellis_ner", config={"train": {"max_iterations": 5}})
    examples = [example(nlp, list(s.tokens), ents=list(s.tags or ())) for s in demo.english().train[:50]]
    nlp.initialize(lambda: examples)
    assert component.tagger.history_.steps[-1].dev is not None


def test_sentences_without_annotations_are_left_out_with_a_warning() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("trellis_ner", config={"train": {"max_iterations": 5}})
    bare = example(nlp, ["Nobody", "slept"])
    named = example(nlp, ["Ada", "slept"], ents=["B-PER", "O"])
    with pytest.warns(UserWarning, match="trellis_ner: left out since they are not annotated: 1 sentence"):
        nlp.initialize(lambda: [bare, named])
    with pytest.raises(DataError, match="trellis_ner: there is nothing to learn from: 1 sentence, none annotated"):
        nlp.initialize(lambda: [bare])


def test_a_component_with_a_model_does_not_learn(tmp_path: Path) -> None:
    CRF(max_iterations=5).fit(demo.english().train[:50]).save(tmp_path / "model.safetensors")
    nlp = spacy.blank("en")
    component = nlp.add_pipe("trellis_ner", config={"model": str(tmp_path)})
    before = component.tagger
    nlp.initialize(lambda: [example(nlp, ["Ada"], ents=["B-X"])])
    assert component.tagger is before


def test_updates_batch_by_batch_are_refused_unless_initialize_has_learned() -> None:
    nlp = spacy.blank("en")
    component = nlp.add_pipe("trellis_ner", config={"train": {"max_iterations": 5}})
    examples = [example(nlp, ["Ada", "slept"], ents=["B-PER", "O"])]
    message = r"trellis_ner is not trained batch by batch: nlp\.initialize\(.*exclude=\['trellis_ner'\]"
    with pytest.raises(ModelError, match=message):
        nlp.update(examples)
    assert nlp.update(examples, exclude=["trellis_ner"]) == {}
    assert (component.add_label("PER"), component.add_label("PER"), component.add_label("LOC")) == (1, 0, 1)
    assert component.labels == ("PER", "LOC")
    with pytest.warns(UserWarning, match="trellis_ner: no example has the labels LOC"):
        nlp.initialize(lambda: examples)
    assert nlp.update(examples) == {"trellis_ner": 0.0}
    assert component.labels == ("PER",)


def test_settings_that_cannot_be_learned_with() -> None:
    nlp = spacy.blank("en")
    with pytest.raises(ConfigError, match=r"trellis_ner: train: unknown model 'crff'.*crf"):
        nlp.add_pipe("trellis_ner", config={"train": {"family": "crff"}})
    with pytest.raises(ConfigError, match=r"trellis_ner: train: .*max_iteration"):
        nlp.add_pipe("trellis_ner", config={"train": {"max_iteration": 3}})
    nlp.add_pipe("trellis_tagger")
    with pytest.raises(ConfigError, match="trellis_tagger: to be trained, it needs the setting attribute: tag or pos"):
        nlp.initialize(lambda: [example(nlp, ["Ada"], tags=["X"])])


def test_documents_of_any_shape_are_tagged_as_their_sentences_are(tmp_path: Path) -> None:
    """White space between tokens, sentences of white space only, empty documents, sentences known or not."""
    tagger = CRF(max_iterations=20).fit(demo.english().train[:200])
    tagger.save(tmp_path / "model.safetensors")
    nlp, random = spacy.blank("en"), np.random.default_rng(5)
    nlp.add_pipe("trellis_ner", config={"model": str(tmp_path)})
    nlp.add_pipe("trellis_tagger", config={"model": str(tmp_path), "attribute": "tag"})
    known = [token for sentence in demo.english().test[:40] for token in sentence.tokens] + ["\n", "  ", "\t"] * 60
    for _ in range(60):
        words = [str(word) for word in random.choice(known, size=random.integers(0, 25))]
        starts = [bool(i == 0 or x) for i, x in enumerate(random.random(len(words)) < 0.2)]
        with_sentences = len(words) > 0 and random.random() < 0.7
        doc = nlp(Doc(nlp.vocab, words=words, sent_starts=starts if with_sentences else None))
        cuts = [i for i, start in enumerate(starts) if start] if with_sentences else [0]
        pieces = [range(a, b) for a, b in zip(cuts, [*cuts[1:], len(words)], strict=True)]
        tags, ents = [""] * len(words), []
        for piece in ([i for i in piece if not words[i].isspace()] for piece in pieces):
            (one,) = tagger.annotate([[words[i] for i in piece]])
            for place, tag in zip(piece, one.tags, strict=True):
                tags[place] = tag
            ents += [(piece[s.start], piece[s.end - 1] + 1, s.label, p) for s, p in one.token_spans]
        assert [token.tag_ for token in doc] == tags
        assert [(e.start, e.end, e.label_, e._.probability) for e in doc.ents] == [
            (a, b, label, pytest.approx(p)) for a, b, label, p in ents
        ]

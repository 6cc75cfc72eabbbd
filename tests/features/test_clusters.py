"""Word clusters as features: a tree of vectors, the template function that reads it, and a CRF that stores it."""

import numpy as np
import pytest

from trellis.errors import ConfigError, TemplateError
from trellis.features import AttributeIndex, Clusters, TemplateExtractor, Templates, get_templates
from trellis.models import CRF, load

WORDS = {f"{kind}{i}": 24 * k + i for k, kind in enumerate(("city", "name", "verb", "noun")) for i in range(24)}


def vectors(seed=0):
    """Four groups of words around four directions."""
    random = np.random.default_rng(seed)
    centres = np.repeat(np.eye(4, 6), 24, axis=0)
    return (centres + 0.05 * random.standard_normal(centres.shape)).astype(np.float32)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "vectors.txt"
    rows = vectors().tolist()
    path.write_text("".join(f"{word} {' '.join(map(str, rows[row]))}\n" for word, row in WORDS.items()))
    return path


def test_words_with_like_vectors_have_paths_that_begin_alike():
    paths = Clusters.of(WORDS, vectors()).column(list(WORDS))
    groups = [{path[:3] for path in paths[24 * k : 24 * (k + 1)]} for k in range(4)]
    assert sum(map(len, groups)) == len(set.union(*groups))  # no two groups share a class


def test_the_length_of_a_vector_does_not_matter_and_zeros_do_no_harm():
    one = Clusters.of(WORDS, vectors())
    scaled = vectors() * np.arange(1, 97, dtype=np.float32)[:, None]
    assert Clusters.of(WORDS, scaled).codes == one.codes
    assert set(Clusters.of(WORDS, np.zeros((96, 6), dtype=np.float32)).column(["city1"])) != {""}


def test_a_word_is_looked_up_as_written_then_in_lower_case():
    clusters = Clusters({"paris": 0b101, "Paris": 0b110})
    assert clusters.column(["Paris", "PARIS", "paris", "rome"]) == ["10", "01", "01", "?"]


def test_a_template_reads_the_first_steps_of_the_path():
    templates = Templates.parse("U0:%cluster1[0,0]/%x[0,0]\nU1:%cluster9[-1,0]")
    extractor = TemplateExtractor(templates, Clusters({"a": 0b101, "b": 0b111}))
    assert extractor.strings(["a", "b"]) == [["U0:0/a", "U1:_B-1"], ["U0:1/b", "U1:01"]]
    index = AttributeIndex()
    assert extractor.compile([["a", "b"]], index, grow=True).tokens == 2


def test_clusters_that_are_missing_or_of_another_column_are_named():
    with pytest.raises(TemplateError, match="looks at clusters of words: set vectors"):
        TemplateExtractor(Templates.parse("U0:%cluster4[0,0]")).strings(["a"])
    with pytest.raises(TemplateError, match="looks at column 1: only tokens, column 0, have clusters"):
        Templates.parse("U0:%cluster4[0,1]")
    with pytest.raises(TemplateError, match="expected the form %cluster3"):
        Templates.parse("U0:%cluster[0,0]")


def test_a_crf_tags_words_that_only_the_vectors_know(file, tmp_path):
    train = [[f"verb{i}", f"city{i}", f"noun{i}"] for i in range(12)]
    model = CRF(vectors=str(file), c2=0.01).fit(train, [["O", "B-LOC", "O"]] * 12)
    new = [["verb20", "city20", "noun20"]]
    assert model.predict(new) == [["O", "B-LOC", "O"]]
    model.save(tmp_path / "model")
    file.unlink()
    again = load(tmp_path / "model")
    assert again.marginals(new)[0].tolist() == model.marginals(new)[0].tolist()


def test_vectors_need_templates(file):
    with pytest.raises(ConfigError, match="vectors need templates, and features are 'given'"):
        CRF(features="given", vectors=str(file)).fit([[["a"], ["b"]]], [["X", "Y"]])


def test_ready_made_sets_look_at_clusters_only_if_wanted():
    assert not get_templates("ner").uses_clusters
    assert get_templates("ner", clusters=True).uses_clusters

"""Scores of tokens against scores of the compiled attributes, which say what is right."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import _native
from trellis.features import TEMPLATE_SETS, AttributeIndex, TemplateExtractor, Templates
from trellis.text import FOLDED_POINTS, Sentence, fold_tokens

LINES = (
    "U00:%x[0,0]",
    "U01:%lower[-1,0]",
    "U02:%x[2,0]!",
    "U03:%x[-1,0]/%x[0,0]",
    "U04:%x[0,0]/%x[1,0]",
    "U05:%x[-1,0]/%x[1,0]",
    "U06:%x[-1,0]/%x[0,0]/%x[1,0]",
    "U07:%type[-1,0]/%type[0,0]",
    "U08:%short[0,0]/%lower[1,0]",
    "U09:%lower[-2,0]/%short[0,0]",
    "U10:%suffix2[0,0]",
    "U11:%prefix1[0,0]/%suffix1[0,0]",
    "U12:%x[0,0]/%x[0,0]",
    "U13:%x[1,0]/%x[0,0]",
    "U14:%x[0,0]/%lower[0,0]/%x[1,0]/%x[-1,0]",
    "U15",
    "U",
    "U1%x[0,0]",
    "U1%x[1,0]",
)
WORDS = ("a", "A", "b", "a/b", "/", "//", "_B-1", "_B+1", "U15", "中", "，", "ｶ", "2026", "a longer word", "\ud800", "")
SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=5)


class Model:
    """Random weights for what the templates say about some sentences."""

    def __init__(self, text, sentences, L=3, single=True, folding=FOLDED_POINTS):
        self.extractor = TemplateExtractor(Templates.parse(text))
        self.index = AttributeIndex()
        self.extractor.compile(sentences, self.index, grow=True)
        random = np.random.default_rng(0)
        counts = random.integers(0, L + 1, len(self.index))
        self.ends = np.cumsum(counts)
        labels = [number for n in counts for number in sorted(random.permutation(L)[:n].tolist())]
        self.labels = np.array(labels, dtype=np.uint16)
        weights = random.normal(size=len(self.labels))
        self.weights = weights.astype(np.float32) if single else weights
        self.L = L
        self.scorer = _native.TokenScorer(self.index.native, self.ends, self.labels, self.weights, L, folding)
        self.ready = _native.Weights(self.ends, self.labels, self.weights.astype(np.float64), L)

    def quick(self, sentences):
        return self.extractor.score(sentences, self.scorer)[0]

    def plain(self, sentences):
        compiled = self.extractor.compile(sentences, self.index, grow=False)
        emissions = np.empty((compiled.tokens, self.L))
        _native.score_dataset(compiled, self.ready, emissions)
        return emissions


def folded(sentences):
    return [list(fold_tokens(sentence)) for sentence in sentences]


@settings(max_examples=150)
@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=8), SENTENCES, SENTENCES, st.booleans())
def test_the_same_scores_as_by_attributes(lines, known, asked, single):
    model = Model("\n".join(lines), folded(known), single=single)
    for _ in range(2):  # remembered or not
        np.testing.assert_allclose(model.quick(asked), model.plain(folded(asked)), atol=1e-12)


@pytest.mark.parametrize("L", [1, 2, 4, 8, 17, 70])
@pytest.mark.parametrize("name", ["ner", "pos", "seg"])
@pytest.mark.usefixtures("instruction_set")
def test_ready_made_sets_on_every_instruction_set(name, L):
    random = np.random.default_rng(1)
    text = [[f"{'Ab中1'[k % 4]}{k % 97 or ''}" for k in random.integers(0, 500, n)] for n in (0, 1, 2, 700, 40)]
    model = Model(TEMPLATE_SETS[name], text[:4], L=L)
    np.testing.assert_allclose(model.quick(text), model.plain(text), atol=1e-12)


@pytest.mark.parametrize(
    "line",
    ["U0:%x[0,0]%x[1,0]", "U:" + "/".join(f"%x[{row},0]" for row in range(-5, 6))],
    ids=["no text between", "many"],
)
def test_values_with_nothing_between_them_and_more_than_64_bits_of_them(line):
    random = np.random.default_rng(3)
    text = [[f"w{k}" for k in random.integers(0, 300, 40)] for _ in range(10)]
    model = Model(line, text)
    np.testing.assert_allclose(model.quick(text), model.plain(text), atol=1e-12)
    assert np.abs(model.quick(text)).max() > 0


def test_further_columns_are_not_folded():
    sentences = [Sentence(["a", "b"], columns={"form": ["１", "1"]})]
    model = Model("U0:%x[0,0]/%x[0,1]\nU1:%x[-1,1]", sentences)
    np.testing.assert_allclose(model.quick(sentences), model.plain(sentences), atol=1e-12)


def test_a_step_may_look_at_a_column_that_no_token_does():
    sentences = [Sentence(["a", "b"], columns={"form": ["x", "y"]})]
    model = Model("U0:%x[0,0]\nB0:%x[0,1]", sentences)
    np.testing.assert_array_equal(model.quick(sentences), model.plain(sentences))


def test_rows_are_forgotten_when_they_are_too_many():
    model = Model("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]", [["a", "b"]], L=3000)
    words = [[f"w{k}" for k in range(i, i + 100)] + ["a", "b"] for i in range(0, 20_000, 100)]
    np.testing.assert_array_equal(model.quick(words)[-2:], model.plain([["w", "a", "b"]])[-2:])
    assert model.scorer.bytes <= model.scorer.most_bytes

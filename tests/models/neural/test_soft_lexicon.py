"""Characters with the words of a file of vectors that begin, go on, end or stand there."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trellis
from trellis import NeuralTagger, corpus, demo
from trellis.corpus import Shards
from trellis.errors import ConfigError, ModelError, StoreError
from trellis.export import to_onnx
from trellis.models.neural.vocabulary import Vocabulary, count_words
from trellis.symbols import FIRST, Symbols

SENTENCES = demo.chinese().train[:60]
TEXTS = st.lists(st.text("abc", max_size=9), max_size=5)
WORDS = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=9, unique=True).map(tuple)


def occurrences(text: str, words: tuple[str, ...]) -> list[tuple[int, int]]:
    return [(i, j) for i in range(len(text)) for j in range(i + 1, len(text) + 1) if text[i:j] in words]


@given(WORDS, TEXTS, TEXTS)
def test_shares_are_those_of_all_substrings(words: tuple[str, ...], learned: list[str], texts: list[str]) -> None:
    counts: Counter[str] = Counter()
    for text in learned:
        found = occurrences(text, words)
        counts.update(text[i:j] for i, j in found if not any(a <= i and j <= b and b - a > j - i for a, b in found))
    vocabulary = Vocabulary(vectors=Symbols(words))
    vocabulary = replace(vocabulary, counts=count_words([list(map(list, learned))], vocabulary))
    assert vocabulary.counts is not None
    assert vocabulary.counts.tolist() == [0] * FIRST + [counts[word] for word in words]
    around = vocabulary.encode(list(map(list, texts))).around
    assert around is not None
    offsets = iter(pairwise(around.offsets.tolist()))
    for text in texts:
        for n, (first, last) in zip(range(len(text)), offsets, strict=False):
            wanted: dict[tuple[int, str], float] = {}
            for i, j in occurrences(text, words):
                if i <= n < j:
                    place = 3 if j == i + 1 else 0 if n == i else 2 if n == j - 1 else 1
                    wanted[place, text[i:j]] = counts[text[i:j]] + 1
            rows = range(first, last)
            names = [words[number - FIRST] for number in around.vector[first:last]]
            found_here = {(int(around.place[r]), name): around.share[r] for r, name in zip(rows, names, strict=True)}
            total = sum(wanted.values())
            assert found_here == pytest.approx({key: 4 * count / total for key, count in wanted.items()})
    assert next(offsets, None) is None


def test_tokens_of_several_characters_are_in_no_word() -> None:
    vocabulary = Vocabulary(vectors=Symbols(("ab", "a", "b" * 11)))
    assert vocabulary.find_words([["a", "ab", "b"], [], ["a", "b"], list("b" * 12)]).tolist() == [
        [0, 1, 3],
        [3, 1, 3],
        [3, 2, 2],
    ]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("vectors") / "v.txt"
    words = sorted({"".join(s.tokens[i : i + n]) for s in SENTENCES for n in (1, 2, 3) for i in range(len(s) - n)})
    random = np.random.default_rng(0)
    rows = (f"{word} {' '.join(map(str, random.normal(size=4).round(3)))}\n" for word in words[::3])
    path.write_text("".join(rows), encoding="utf-8")
    return path


def tagger(vectors: Path, **training: Any) -> NeuralTagger:
    encoder: dict[str, Any] = {"words": {"vectors": str(vectors)}, "hidden": 8}
    return NeuralTagger(encoder=encoder, training={"epochs": 2, **training})


def test_a_tagger_of_characters_reads_them_by_default(vectors: Path, tmp_path: Path) -> None:
    model = tagger(vectors).fit(SENTENCES)
    assert model.settings_.encoder.words.soft_lexicon == 64
    X = [s.tokens for s in demo.chinese().test[:50]]
    model.save(tmp_path / "m")
    loaded = trellis.load(tmp_path / "m")
    assert isinstance(loaded, NeuralTagger)
    np.testing.assert_array_equal(np.concatenate(loaded.marginals(X)), np.concatenate(model.marginals(X)))
    native = np.concatenate(loaded.marginals(X))
    assert "lexicon" in loaded.model_.network.encoder.parts  # from now on torch answers
    np.testing.assert_allclose(np.concatenate(loaded.marginals(X)), native, atol=1e-5)
    vocabulary = loaded.model_.vocabulary
    loaded.model_.vocabulary = replace(vocabulary, counts=10**6 * np.arange(len(vocabulary.vectors)))
    assert np.abs(np.concatenate(loaded.marginals(X)) - native).max() > 1e-4
    with pytest.raises(ModelError, match="soft_lexicon cannot be exported"):
        to_onnx(model, tmp_path / "m.onnx")


def test_streamed_sentences_are_counted_window_by_window(vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    corpus.write(tmp_path / "in" / "part.jsonl", SENTENCES)
    models = [tagger(vectors, window=size).fit(Shards(tmp_path / "in")) for size in (13, 1000)]
    small, whole = (model.model_.vocabulary.counts for model in models)
    assert small is not None
    assert whole is not None
    assert small.tolist() == whole.tolist()
    assert whole.sum() > 100


def test_words_of_several_characters_have_none_unless_asked(vectors: Path) -> None:
    english = demo.english().train[:20]
    assert tagger(vectors).fit(english).model_.vocabulary.counts is None
    with pytest.raises(ConfigError, match="soft_lexicon = 8 needs vectors"):
        NeuralTagger(encoder={"words": {"soft_lexicon": 8}})


def test_a_damaged_file_is_refused(vectors: Path, tmp_path: Path) -> None:
    model = tagger(vectors).fit(SENTENCES)
    counts = model.model_.vocabulary.counts
    assert counts is not None
    model.model_.vocabulary = replace(model.model_.vocabulary, counts=-1 - counts)
    model.save(tmp_path / "m")
    with pytest.raises(StoreError, match="counts"):
        trellis.load(tmp_path / "m")

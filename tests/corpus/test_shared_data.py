"""Real corpora, where they are at hand: the counts that their SOURCE.md states."""

from __future__ import annotations

import pytest

from tests.corpora import shared
from trellis import corpus
from trellis.tags import fit_schemes, spans_from_sequences

# file: format, sentences, tokens, entities (None where none are stated)
COUNTS = {
    "wnut17/wnut17train.conll": ("conll", 3394, 62730, 1975),
    "wnut17/emerging.dev.conll": ("conll", 1009, 15733, 836),
    "wnut17/emerging.test.annotated": ("conll", 1287, 23394, 1079),
    "wikigold/wikigold.conll.txt": ("conll", 1696, 39007, 3558),
    "bc5cdr/train.tsv": ("conll", 4560, 118170, 9385),
    "bc5cdr/devel.tsv": ("conll", 4581, 117453, 9593),
    "bc5cdr/test.tsv": ("conll", 4797, 124750, 9809),
    "ud_english_ewt/en_ewt-ud-train.conllu": ("conllu", 12544, 204577, None),
    "ud_english_ewt/en_ewt-ud-dev.conllu": ("conllu", 2001, 25147, None),
    "ud_english_ewt/en_ewt-ud-test.conllu": ("conllu", 2077, 25094, None),
    "ud_chinese_gsd/udc-simplified-v1.4-train.conll": ("conllu", 3997, 98608, None),
    "ud_chinese_gsd/udc-simplified-v1.4-dev.conll": ("conllu", 500, 12663, None),
    "ud_chinese_gsd/udc-simplified-v1.4-test.conll": ("conllu", 500, 12012, None),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_those_of_the_source(name: str) -> None:
    read = corpus.read(shared(name))
    format, sentences, tokens, entities = COUNTS[name]
    assert (read.format, len(read), sum(map(len, read))) == (format, sentences, tokens)
    assert read.report.skipped == 0
    if entities is not None:
        tags = [sentence.tags or () for sentence in read]
        spans = spans_from_sequences(tags, fit_schemes(tags)[0].scheme)
        assert sum(map(len, spans)) == entities


@pytest.mark.parametrize(
    ("name", "tags", "labels"),
    [
        ("ud_english_ewt/en_ewt-ud-train.conllu", "upos", 17),
        ("ud_chinese_gsd/udc-simplified-v1.4-train.conll", "upos", 15),
        ("ud_chinese_gsd/udc-simplified-v1.4-train.conll", "xpos", 42),
    ],
)
def test_label_counts_are_those_of_the_source(name: str, tags: str, labels: int) -> None:
    stream = corpus.iterate(shared(name), tags=tags, columns=())
    assert len({tag for sentence in stream for tag in sentence.tags or ()}) == labels


@pytest.mark.parametrize("name", COUNTS)
def test_lines_are_those_of_the_file(name: str) -> None:
    path = shared(name)
    lines = path.read_bytes().decode().split("\n")
    for sentence in corpus.iterate(path):
        for position, token in enumerate(sentence.tokens):
            number = sentence.line_of(position)
            assert number is not None
            assert token in lines[number - 1]


def test_segmentation_of_chinese_spells_the_words_again() -> None:
    path = shared("ud_chinese_gsd/udc-simplified-v1.4-dev.conll")
    words = corpus.iterate(path)
    for characters, sentence in zip(corpus.iterate(path, tags="form"), words, strict=True):
        assert corpus.words_from_sentence(characters) == list(sentence.tokens)

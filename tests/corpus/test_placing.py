"""Tokens and tags that are not where a reader looks for them: told, never learned from in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trellis import corpus
from trellis.corpus import CorpusError
from trellis.errors import DataError

NAMES = ["Ada", "Bo", "Cy", "Dee", "Eve", "Fay"]
SENTENCES = [
    [(name, "NNP", "B-PER"), (verb, "VBD", "O"), (place, "NNP", "B-LOC"), (".", ".", "O")]
    for name in NAMES
    for verb, place in (("left", "Oslo"), ("saw", "Rome"))
]


def written(path: Path, *order: int, separator: str = "\t", counted: bool = False) -> Path:
    """The sentences with the parts of their tokens in this order."""
    rows = [
        [
            separator.join([*([str(number)] if counted else []), *(token[part] for part in order)])
            for number, token in enumerate(sentence, 1)
        ]
        for sentence in SENTENCES
    ]
    path.write_text("\n\n".join("\n".join(own) for own in rows) + "\n")
    return path


def inline(path: Path, *order: int, delimiter: str) -> Path:
    items = [" ".join(delimiter.join(token[part] for part in order) for token in sentence) for sentence in SENTENCES]
    path.write_text("\n".join(items) + "\n")
    return path


@pytest.mark.parametrize("separator", [" ", "\t"])
@pytest.mark.parametrize("tag", [1, 2])
def test_a_tag_before_its_token_is_refused_with_the_options_that_read_it(
    tmp_path: Path, tag: int, separator: str
) -> None:
    path = written(tmp_path / "a.conll", tag, 0, separator=separator)
    with pytest.raises(DataError, match=r"a\.conll: .*tags in the first \('.*give --tokens -1 --tags 0"):
        corpus.read(path)
    assert corpus.read(path, tokens=-1, tags=0).sentences[0].tokens == ("Ada", "left", "Oslo", ".")
    assert corpus.read(path, tokens=0).sentences[0].tokens == tuple(token[tag] for token in SENTENCES[0])


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (lambda i, token: f"0.9{i % 10}", "numbers; give --tags -2 "),
        (
            lambda i, token: f"{token.lower()}{i}",
            "'ada0' and the like, and what looks like tags in column 1; give --tags 1 ",
        ),
    ],
)
def test_what_is_no_tag_in_the_last_column_is_refused(tmp_path: Path, last: Any, found: str) -> None:
    tokens = [token for sentence in SENTENCES for token in sentence]
    path = tmp_path / "a.conll"
    path.write_text("".join(f"{name}\t{tag}\t{last(i, name)}\n" for i, (name, _, tag) in enumerate(tokens)))
    with pytest.raises(DataError, match=rf"a\.conll: expected tags in the last column, found {found}"):
        corpus.read(path)
    assert corpus.read(path, tags=1).sentences[0].tags[0] == "B-PER"
    assert corpus.read(path, tags=2).sentences[0].tags[0] == last(0, "Ada")


def test_labels_of_whole_texts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("I like this film a lot\tgood\nAn evening that is lost\tbad\n" * 5)
    with pytest.raises(DataError, match=r"a\.tsv: expected a token and its tag per line, found texts such as 'I like"):
        corpus.read(path)
    assert len(corpus.read(path, tokens=0).sentences[0]) == 10


@pytest.mark.parametrize("content", ['{\n "tokens": ["a"],\n "tags": ["O"]\n}\n', '["Ada", "B-PER"]\n'])
def test_json_of_another_shape_is_not_taken_for_words(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(DataError, match=r"a\.jsonl:1: expected (a )?JSON"):
        corpus.read(path)


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_numbers_before_the_tokens_are_refused(tmp_path: Path, separator: str) -> None:
    path = written(tmp_path / "a.conll", 0, 2, separator=separator, counted=True)
    with pytest.raises(DataError, match="numbers that count them or their sentences; give --tokens 1"):
        corpus.read(path)
    with pytest.raises(DataError, match="numbers that count them"):
        corpus.read(path, tags=None)
    assert corpus.read(path, tokens=1).sentences[0].tokens == ("Ada", "left", "Oslo", ".")


def test_numbers_of_sentences_before_the_tokens_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    rows = [f"{number}\t{word}\t{tag}" for number, sentence in enumerate(SENTENCES, 47959) for word, tag, _ in sentence]
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(DataError, match="numbers that count them or their sentences; give --tokens 1"):
        corpus.read(path)


@pytest.mark.parametrize(
    "rows",
    [
        ["3 1 C", "1 2 H", "1 4 H", "2 5 C"] * 20,
        ["3 C", "1 H", "1 H", "2 C"] * 20,  # Eisner's ice creams
        [f"{number} NUM" for number in (1, 7, 4, 2, 9, 3)],
        ["A AE1", "B B", "O OW0", "X K"] * 9,
        ["I O", "B B-VIT", "E I-VIT", "O O"] * 9,
        [f"{'ACGT'[i % 4]} {i}" for i in range(200)],
        ["王 B-PER", "伟 I-PER", "去 O"] * 9,
    ],
)
def test_few_tokens_and_many_numbers_are_read(tmp_path: Path, rows: list[str]) -> None:
    path = tmp_path / "a.conll"
    path.write_text("\n".join(rows) + "\n")
    assert corpus.read(path).sentences[0].tokens == tuple(row.split()[0] for row in rows)


@pytest.mark.parametrize("name", ["a.txt", "a.conll", "a.pos"])
@pytest.mark.parametrize("delimiter", ["/", "|", "_"])
@pytest.mark.parametrize("tag", [1, 2])
def test_tags_behind_a_slash_a_bar_or_an_underline_are_read(
    tmp_path: Path, tag: int, delimiter: str, name: str
) -> None:
    path = inline(tmp_path / name, 0, tag, delimiter=delimiter)
    read = corpus.read(path)
    assert read.format == "wordtag"
    assert read.sentences[0].tokens == ("Ada", "left", "Oslo", ".")
    assert read.sentences[0].tags == tuple(token[tag] for token in SENTENCES[0])
    assert corpus.read(path, format="wordtag").sentences == read.sentences


@pytest.mark.parametrize("delimiter", ["/", "|", "_"])
def test_items_of_three_parts_are_refused(tmp_path: Path, delimiter: str) -> None:
    path = inline(tmp_path / "a.iob", 0, 1, 2, delimiter=delimiter)
    with pytest.raises(CorpusError, match=r"a\.iob:1: expected items of two parts, word.TAG, found more parts: 'Ada"):
        corpus.read(path)


@pytest.mark.parametrize("text", ["snake_case big_words\n", "snake_case new_york old_word one_more\n", "a|b c|d\n"])
def test_words_with_underlines_are_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert corpus.iterate(path).format == "segmented"


@pytest.mark.parametrize("format", [None, "conll", "segmented"])
def test_lines_that_end_in_carriage_returns_are_refused(tmp_path: Path, format: str | None) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(b"Ada\tB-PER\rleft\tO\r\rBo\tB-PER\r")
    with pytest.raises(DataError, match=r"a\.conll: expected text, found text whose lines end in CR \(\\r\) alone"):
        corpus.read(path, format=format)


def test_names_of_columns_say_where_the_tokens_are(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", 0, 2, counted=True)
    sentence = corpus.read(path, columns=["number", "word", "ner"]).sentences[0]
    assert (sentence.tokens[0], sentence.tags and sentence.tags[0]) == ("Ada", "B-PER")


@pytest.mark.parametrize("options", [{"tags": 2}, {"tags": "ner", "columns": ["number", "token", "ner"]}])
def test_a_file_to_be_tagged_may_lack_the_column_of_the_tags(tmp_path: Path, options: dict[str, object]) -> None:
    path = written(tmp_path / "a.conll", 0, counted=True)
    with pytest.raises(CorpusError):
        corpus.read(path, tokens=1, **options)
    sentence = corpus.read(path, tokens=1, gold=False, **options).sentences[0]
    assert (sentence.tokens, sentence.tags) == (("Ada", "left", "Oslo", "."), None)
    whole = written(tmp_path / "b.conll", 0, 2, counted=True)
    assert corpus.read(whole, tokens=1, gold=False, **options).sentences[0].tags == ("B-PER", "O", "B-LOC", "O")

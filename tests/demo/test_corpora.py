"""The corpora of the demo: what users are promised of them."""

import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

import trellis
from trellis import demo
from trellis.errors import DataError
from trellis.tags import Scheme, spans_from_tags, validate_tags
from trellis.text import characters, tokenize

PACKAGE = Path(demo.__file__).parent


@pytest.fixture(scope="module")
def english():
    return demo.english()


@pytest.fixture(scope="module")
def chinese():
    return demo.chinese()


def parts(corpus):
    return {"train": corpus.train, "dev": corpus.dev, "test": corpus.test}


def test_sizes(english, chinese):
    assert {name: len(part) for name, part in parts(english).items()} == {"train": 800, "dev": 150, "test": 200}
    assert {name: len(part) for name, part in parts(chinese).items()} == {"train": 600, "dev": 100, "test": 150}


def test_the_files_are_copied_as_they_are(tmp_path):
    written = demo.write(tmp_path)
    assert [path.name for path in written] == sorted(path.name for path in (PACKAGE / "data").iterdir())
    for path in written:
        assert path.read_bytes() == (PACKAGE / "data" / path.name).read_bytes()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file cannot be made a folder: File exists"):
        demo.write(tmp_path / "file")


@pytest.mark.parametrize("language", ["english", "chinese"])
def test_no_sentence_occurs_twice(language, request):
    corpus = request.getfixturevalue(language)
    texts = Counter(" ".join(s.tokens).lower() for part in parts(corpus).values() for s in part)
    assert [text for text, count in texts.items() if count > 1] == []


def test_english_tags_are_legal_and_every_kind_is_everywhere(english):
    for name, part in parts(english).items():
        assert [s.tokens for s in part if validate_tags(s.tags, Scheme.IOB2)] == []
        kinds = Counter(span.label for s in part for span in spans_from_tags(s.tags, Scheme.IOB2))
        assert set(kinds) == {"PER", "LOC", "ORG", "DATE"}
        assert min(kinds.values()) > 0.1 * sum(kinds.values()), (name, kinds)
        assert 0.05 < sum(set(s.tags) == {"O"} for s in part) / len(part) < 0.25


def test_english_tokens_are_those_of_the_tokenizer(english):
    """So that raw text gives models the words that they have seen."""
    for s in (s for part in parts(english).values() for s in part):
        assert tokenize(" ".join(s.tokens)).tokens == s.tokens


def test_chinese_tokens_are_characters_with_places_in_words(chinese):
    for s in (s for part in parts(chinese).values() for s in part):
        assert s.text == "".join(s.tokens)
        assert list(s.offsets) == characters(s.text)
        assert validate_tags(s.tags, Scheme.BMES) == []


def test_words_are_ambiguous_on_purpose(english):
    kinds = {}
    for s in english.train:
        for token, tag in zip(s.tokens, s.tags, strict=True):
            kinds.setdefault(token, set()).add(tag[2:])
    assert kinds["Jordan"] >= {"PER", "LOC", "ORG"}
    assert kinds["Washington"] >= {"PER", "LOC", "ORG"}
    assert kinds["May"] >= {"PER", "DATE"}
    assert kinds["may"] >= {""}


def test_characters_are_cut_in_more_than_one_way(chinese):
    lines = (PACKAGE / "data" / "chinese-train.txt").read_text("utf-8")
    for one, other in [("研究 生命", "研究生"), ("学生 会", "学生会"), ("一 起", "一起"), ("中 国家", "中国")]:
        assert one in lines
        assert other in lines


@pytest.mark.parametrize(("language", "share"), [("english", 0.05), ("chinese", 0.02)])
def test_some_words_of_the_test_part_are_new(language, share, request):
    corpus = request.getfixturevalue(language)
    known = {token for s in corpus.train for token in s.tokens}
    tokens = [token for s in corpus.test for token in s.tokens]
    assert share < sum(token not in known for token in tokens) / len(tokens) < 3 * share


def test_the_corpora_are_read_from_an_archive(tmp_path):
    """A package may lie in a zip file: nothing here may take a resource for a path."""
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in PACKAGE.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                file.write(path, f"zipped_demo/{path.relative_to(PACKAGE)}")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import zipped_demo; print(len(zipped_demo.english().dev))"
    done = subprocess.run([sys.executable, "-c", code, archive], capture_output=True, text=True, check=True)
    assert done.stdout == "150\n"


def test_demo_is_a_part_of_trellis():
    assert trellis.demo is demo

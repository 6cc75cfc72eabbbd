"""Bytes: compression, byte-order marks, line ends, encodings, standard streams, and files that are not whole."""

from __future__ import annotations

import io
import os
import re
import sys
import threading
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.corpus.strategies import COMPRESS
from trellis import corpus
from trellis.corpus import jsonl
from trellis.corpus import source as source_module
from trellis.errors import DataError
from trellis.text import Sentence

CONTENT = "Ada\tB-PER\nlächelt\tO\n\n好\tO\n"
SENTENCES = [Sentence(["Ada", "lächelt"], ["B-PER", "O"]), Sentence(["好"], ["O"])]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_file_with_the_wrong_suffix_is_an_error_that_names_it(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.conll{suffix}"
    path.write_text(CONTENT * 9)
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}: "):
        corpus.read(path)


def test_zstd_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = tmp_path / "a.conll.zst"
    path.write_bytes(b"")
    expected = rf"^{path}: zstd files need zstandard: pip install 'trellis-crf\[zstd\]'$"
    with pytest.raises(DataError, match=expected):
        corpus.read(path)


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n", "\n\n\n", "\n \t\n"])
def test_byte_order_mark_and_line_ends_do_not_show(tmp_path: Path, bom: str, end: str, last: str) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes((bom + CONTENT.rstrip("\n") + last).replace("\n", end).encode())
    assert corpus.read(path).sentences == SENTENCES


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_byte_order_mark_that_is_text_survives(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.conll"
    sentences = [Sentence(["\ufeffa"], ["O"]), Sentence(["\ufeff"], ["O"])]
    corpus.write(path, sentences, encoding=encoding)
    assert corpus.read(path, encoding=encoding).sentences == sentences


@pytest.mark.parametrize("odd", "\u0085\u2028\u2029\u00a0\u3000\u2009\x0b\x0c\x1c\x1d\x1e\x1f\r")
def test_odd_spaces_inside_a_token_do_not_shift_columns(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "a.conll"
    for separator in "\t ":
        path.write_bytes(f"a{odd}b{separator}X{separator}O\n{odd}{separator}X{separator}O\n".encode())
        (sentence,) = corpus.read(path, format="conll")
        assert sentence.tokens == (f"a{odd}b", odd)
        assert sentence.tags == ("O", "O")
        assert sentence.lines == range(1, 3)


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "gbk", "big5", "utf-16", "utf-16-le", "utf-32"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.seg"
    path.write_bytes("我 好\n大\r\n".encode(encoding))
    read = corpus.read(path, encoding=encoding, unit="words")
    assert [sentence.tokens for sentence in read] == [("我", "好"), ("大",)]
    corpus.write(path, read, encoding=encoding)
    assert path.read_bytes().decode(encoding) == "我 好\n大\n"


def test_standard_input_and_output(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(CONTENT.encode())))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=output))
    stream = corpus.iterate("-")
    assert stream.format == "conll"
    assert corpus.write("-", stream, format="jsonl") == 2
    assert output.getvalue().decode().splitlines()[1] == '{"tokens": ["好"], "tags": ["O"]}'


def test_errors_in_standard_input_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\tO\nb\n")))
    with pytest.raises(DataError, match=r"^<stdin>:2: expected 2 columns"):
        corpus.read("-", format="conll")


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.conll: No such file or directory$"):
        corpus.read(tmp_path / "none.conll")
    with pytest.raises(DataError, match=r"Is a directory$"):
        corpus.read(tmp_path)
    with pytest.raises(DataError, match=r"No such file or directory$"):
        corpus.write(tmp_path / "none" / "a.conll", SENTENCES)


def test_a_failed_write_leaves_the_file_as_it_was_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    corpus.write(path, SENTENCES)
    with pytest.raises(DataError, match=r"^sentence '': a sentence without tokens cannot be written"):
        corpus.write(path, [*SENTENCES, Sentence([], [])])
    assert corpus.read(path).sentences == SENTENCES
    assert [item.name for item in tmp_path.iterdir()] == ["a.conll"]


def test_a_file_can_be_converted_into_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    corpus.write(path, SENTENCES)
    corpus.write(path, corpus.iterate(path))
    assert corpus.read(path).sentences == SENTENCES


@pytest.mark.parametrize("suffix", [".conll", ".conllu", ".jsonl", ".seg"])
def test_streaming_takes_memory_that_does_not_grow_with_the_file(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "_BLOCK", 1 << 14)
    path = tmp_path / f"a{suffix}"
    line = Sentence([f"token{i}" for i in range(40)], None if suffix == ".seg" else ["NN"] * 40)

    def peak(count: int) -> int:
        corpus.write(path, (line for _ in range(count)))
        tracemalloc.start()
        assert sum(len(sentence) > 0 for sentence in corpus.iterate(path)) == count
        high = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return high

    small = peak(150)
    assert peak(600) < 1.2 * small


@pytest.mark.parametrize(
    "encoding", ["idna", "punycode", "undefined", "rot13", "zlib", "bz2", "base64", "hex", "quopri", "uu"]
)
def test_a_codec_that_is_none_for_files_of_text_is_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.conll"
    path.write_text(CONTENT)
    expected = f"^the encoding '{encoding}' is not one for files of text$"
    with pytest.raises(DataError, match=expected):
        corpus.read(path, encoding=encoding)
    with pytest.raises(DataError, match=expected):
        corpus.write(path, SENTENCES, encoding=encoding)


@pytest.mark.parametrize("encoding", ["", "a\0b", "é", "x" * 1000, None, 3])
def test_an_encoding_that_does_not_exist_is_refused(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(DataError, match=r"^unknown encoding "):
        corpus.read(tmp_path / "a.conll", encoding=encoding)


@pytest.mark.parametrize(
    ("encoding", "bad"), [("raw_unicode_escape", rb"\ud800"), ("unicode_escape", rb"\ud800"), ("utf-7", b"+2AA-")]
)
def test_a_codec_that_gives_lone_surrogates_costs_their_sentences_alone(
    tmp_path: Path, encoding: str, bad: bytes
) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(b"a\tO\n\nb" + bad + b"\tO\n\nc\tO\n")
    message = f"a.conll:3: expected text in {encoding}, found the surrogate U.D800 at character 2"
    with pytest.raises(DataError, match=message):
        corpus.read(path, encoding=encoding)
    read = corpus.read(path, encoding=encoding, on_error="skip")
    assert [sentence.tokens for sentence in read] == [("a",), ("c",)]
    assert read.report.skipped == 1


def test_bytes_that_no_mark_can_stand_for_are_named_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes("a\tO\n".encode("utf-16-le") + b"\x00\xd8")
    expected = r"a\.conll: expected text in utf-16-le, found unexpected end of data at byte 8; pass the right encoding$"
    with pytest.raises(DataError, match=expected):
        corpus.read(path, encoding="utf-16-le")


@pytest.mark.parametrize("path", ["a\0b.conll", "a\0b"])
def test_a_name_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(DataError, match="embedded null byte"):
        corpus.read(path)
    with pytest.raises(DataError, match="cannot be written: expected the name of a file"):
        corpus.write(path, SENTENCES, format="conll")


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written: expected the name of a file"):
        corpus.write(tmp_path, SENTENCES, format="conll")
    assert list(tmp_path.iterdir()) == []


def test_a_link_goes_on_pointing_to_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "a.conll"
    link.symlink_to(tmp_path / "folder" / "b.conll")
    corpus.write(link, SENTENCES)
    assert link.is_symlink()
    assert corpus.read(tmp_path / "folder" / "b.conll").sentences == SENTENCES
    assert [item.name for item in (tmp_path / "folder").iterdir()] == ["b.conll"]


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    os.mkfifo(path)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    corpus.write(path, SENTENCES)
    reader.join()
    assert found == [b"Ada\tB-PER\nl\xc3\xa4chelt\tO\n\n\xe5\xa5\xbd\tO\n\n"]
    assert path.is_fifo()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
def test_a_full_device_is_an_error_that_names_it() -> None:
    with pytest.raises(DataError, match=r"^/dev/full cannot be written: No space left on device$"):
        corpus.write("/dev/full", [SENTENCES[0]] * 9999, format="conll")


def test_paragraphs_are_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_BLOCK", 100)
    searched: list[int] = []
    blank = source_module._BLANK_LINE
    counting = SimpleNamespace(sub=lambda new, text: searched.append(len(text)) or blank.sub(new, text))
    monkeypatch.setattr(source_module, "_BLANK_LINE", counting)
    path = tmp_path / "a.conll"
    path.write_text(" a\tO\n" * 1000)
    assert [len(lines) for lines, _ in corpus.Source(path).paragraphs()] == [1000]
    assert sum(searched) == 5000


def test_little_of_an_array_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "_PIECE", 100)
    held: list[int] = []
    parse = jsonl.parse_json_prefix
    monkeypatch.setattr(jsonl, "parse_json_prefix", lambda text, at: held.append(len(text)) or parse(text, at))
    path = tmp_path / "a.json"
    path.write_text("[" + ",".join(['{"tokens": ["a"]}'] * 1000) + "]")
    assert len(corpus.read(path)) == 1000
    assert max(held) < 300
    assert len(held) < 1500

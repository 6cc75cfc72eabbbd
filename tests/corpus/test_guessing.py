"""One guesser for all commands, and files that are no text named as what they are."""

from __future__ import annotations

import gzip
import io
import pickle
import sys
import warnings
import zipfile
import zlib
from pathlib import Path

import pytest

from trellis import corpus
from trellis.corpus.sniff import guess_content
from trellis.errors import DataError, DataWarning

NO_MARK = "text in UTF-16 without a byte-order mark; pass --encoding utf-16"
ROWS = [("Ada", "NNP", "B-PER"), ("wrote", "VBD", "O"), (".", ".", "O")]


def table(width: int, separator: str, *, marked: bool) -> str:
    filler = ["x"] * max(0, width - 3)
    rows = [separator.join([row[0], *filler, *row[max(1, 4 - width) :]]) for row in ROWS]
    mark = separator.join(["-DOCSTART-", *["-X-"] * (width - 1)]) + "\n\n" if marked else ""
    return mark + "\n".join([*rows, "", *rows]) + "\n"


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("separator", [" ", "\t", "  "])
@pytest.mark.parametrize("width", range(2, 11))
def test_columns_by_tabs_or_spaces_are_conll(width: int, separator: str, marked: bool) -> None:
    found = guess_content(table(width, separator, marked=marked))
    assert found is not None
    assert found[0] == "conll"
    assert "columns" in found[1]


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("Hello world\n", "segmented"),
        ("Ada met Bob .\n" * 300, "segmented"),
        ("Ada met Bob .\n\nEve saw Zoe .\n", "segmented"),
        ("NEW YORK\nLOS ANGELES\n", "segmented"),
        ("take vitamin B-12\ntake vitamin B-6\n", "segmented"),
        ("and/or\n", "segmented"),
        ("我们在野生动物园玩\n\n他也来\n", "segmented"),
        ("7\tThe whole sentence in one cell.\n8\tAnd another one that is long.\n", "segmented"),
        ("Ada\nwrote\nit\n.\n\nShe\nslept\n.\n", "conll"),
        ("我 b\n们 e\n\n好 s\n", "conll"),
        ("Ada 1\nmet 0\n\nEve 1\n" + "ran 0\n\nAda 1\n" * 20, "conll"),
        ("Time/NN flies/VBZ ./.\n", "wordtag"),
        ("迈向/v 充满/v 希望/n\n", "wordtag"),
        ("Ada B-PER\nmet O\n" * 30 + "broken\n", "conll"),
    ],
)
def test_what_looks_like_tags_tells_and_texts_are_no_columns(text: str, format: str) -> None:
    guess = guess_content(text)
    assert guess is not None
    assert guess[0] == format
    assert format != "segmented" or guess[1] == "it has lines of words, not columns or JSON"


def archive() -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as zipped:
            zipped.writestr("a", "b")
        return file.getvalue()


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image"),
        (pickle.dumps([1]), "a Python pickle, which is never opened"),
        (archive(), "a ZIP archive, as docx, xlsx, odt and npz files are, too"),
        ("Ada\tO\nlief\tO\n".encode("utf-16-le"), f"{NO_MARK}-le"),
        ("我们 喜欢\n北京\n".encode("utf-16-be"), f"{NO_MARK}-be"),
        ("Привет миру\n".encode("utf-16-le"), f"{NO_MARK}-le"),
        ("Ada\tO\n".encode("utf-16"), "text in UTF-16; pass --encoding utf-16"),
        (b"\x1f\x8b\x08\0", "gzip data; its name must end in .gz"),
        (zlib.compress(b"hello"), "zlib-compressed data"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b"PAR1\x15\x04", "a Parquet file, which train --stream and tag --out read"),
        (b"\x40\0\0\0\0\0\0\0" + b'{"__metadata__":{}}', "a safetensors file: is it a model?"),
    ],
)  # fmt: skip
def test_binary_files_are_named(tmp_path: Path, data: bytes, name: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(data)
    with pytest.raises(DataError) as error:
        corpus.read(path)
    assert str(error.value) == f"{path}: expected text, found {name}"


def test_a_stray_zero_does_not_make_utf16(tmp_path: Path) -> None:
    path = tmp_path / "f.conll"
    path.write_bytes("Ma\0ria\tB-PER\nhört\tO\n\n".encode())
    assert corpus.read(path).sentences[0].tokens == ("Ma\0ria", "hört")


def test_the_right_encoding_reads_what_has_no_mark(tmp_path: Path) -> None:
    path = tmp_path / "f.conll"
    path.write_bytes("Ada\tO\n".encode("utf-16-le"))
    assert corpus.read(path, encoding="utf-16-le").sentences[0].tokens == ("Ada",)


def docbin() -> bytes:
    """The beginning of what spaCy writes: MessagePack of a map whose second entry is "attrs"."""
    return zlib.compress(b"\x87\xa7version\xa30.1\xa5attrs\x91\x01\xa6tokens\xc4\x00")


class Token:
    def __init__(self, text: str, idx: int, iob: str = "O", kind: str = "", pos: str = "X") -> None:
        self.text, self.idx, self.ent_iob_, self.ent_type_, self.pos_ = text, idx, iob, kind, pos
        self.tag_ = self.lemma_ = ""


class Document(list):  # type: ignore[type-arg]
    text = "Ada King \n met"

    @property
    def doc(self) -> Document:
        return self

    def has_annotation(self, name: str) -> bool:
        return False


class DocBin:
    def from_bytes(self, data: bytes) -> DocBin:
        assert data == docbin()
        return self

    def get_docs(self, vocabulary: object) -> list[Document]:
        tokens = [Token("Ada", 0, "B", "PER"), Token("King", 4, "I", "PER"), Token("\n", 9), Token("met", 11)]
        return [Document(tokens)]


def test_a_docbin_is_read_by_spacy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spaCy itself is too large for the environment of the tests; this stands for what is used of it."""
    path = tmp_path / "a.spacy"
    path.write_bytes(docbin())
    for name in ("spacy", "spacy.tokens", "spacy.vocab"):  # other tests of the same process may have imported them
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DataError, match=r"a.spacy: .spacy files need spaCy: pip install spacy"):
        corpus.read(path)
    with pytest.raises(DataError, match=r"a.spacy: expected conll, found a spaCy DocBin"):
        corpus.read(path, format="conll")
    for name, content in {"spacy": {}, "spacy.tokens": {"DocBin": DocBin}, "spacy.vocab": {"Vocab": object}}.items():
        monkeypatch.setitem(sys.modules, name, type(sys)(name))
        vars(sys.modules[name]).update(content)
    found = corpus.read(path)
    assert (found.format, found.report.reason) == ("spacy", "it is a spaCy DocBin")
    (sentence,) = found
    assert (sentence.tokens, sentence.tags) == (("Ada", "King", "met"), ("B-PER", "I-PER", "O"))
    assert (sentence.text, sentence.columns) == ("Ada King \n met", {"pos": ("X", "X", "X")})
    assert found.report.ignored == {"tokens of white space": 1}
    with pytest.raises(DataError, match="only read"):
        corpus.write(tmp_path / "b.spacy", found)


def test_tabs_in_some_lines_and_spaces_in_others_separate_alike(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("Ada\tB-PER\nmet O\nBob\tB-PER\n")
    assert corpus.read(path).sentences[0].tags == ("B-PER", "O", "B-PER")
    path.write_text("New York\tB-LOC\nfell\n")
    with pytest.raises(DataError, match="expected 2 columns separated by tabs, as in line 1, found 1"):
        corpus.read(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "Ada,B-PER\nleft,O\n"),
        ("a.csv.gz", "a,b\n"),
        ("a.txt", "Ada,B-PER\nleft,O\n\nBo,B-PER\nsat,O\n"),
    ],
)
def test_columns_separated_by_commas_are_refused_instead_of_taken_for_words(
    tmp_path: Path, name: str, content: str
) -> None:
    data = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(DataError, match="--columns token,tag"):
        corpus.read(tmp_path / name)
    assert len(corpus.read(tmp_path / name, format="segmented")) > 0


@pytest.mark.parametrize("content", ["Yes, he said.\nNo, she said.\nWell, they did.\n", "a b\tc\n", "1,000 2,000\n"])
def test_commas_within_sentences_are_no_columns(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.txt").write_text(content)
    assert corpus.iterate(tmp_path / "a.txt").format in ("segmented", "conll")


def test_lines_that_are_only_taken_for_a_segmentation_are_warned_of(tmp_path: Path) -> None:
    text = "the first line\nand one more of them\n"
    (tmp_path / "prose.txt").write_text(text)
    with pytest.warns(DataWarning, match=r'prose\.txt: its lines are read as words .* format="segmented" says so'):
        corpus.read(tmp_path / "prose.txt")
    (tmp_path / "words.seg").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(corpus.read(tmp_path / "prose.txt", format="segmented")) == len(corpus.read(tmp_path / "words.seg"))

"""Files that were damaged on the way: whatever the bytes, sentences or an error of ours, and nothing else."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.corpus import strategies
from trellis import corpus
from trellis.corpus.check import CheckedFile, check_files
from trellis.errors import TrellisError
from trellis.text import Sentence

# Byte-order marks, line ends, separators, NULs, bytes that are not UTF-8, surrogates in UTF-8, and bits of syntax.
ODD = [
    *(b"\xef\xbb\xbf", b"\xff\xfe", b"\r", b"\n", b"\r\n", b"\n\n", b"\t", b" ", b"\0", b"\xff", b"\xe4"),
    *(b"\\ud800", b"\\u", b'"', b"{", b"}", b"[", b"]", b"[{", b",", b":", b"#", b"-DOCSTART-", b"/", b"1-2\t"),
    *(b"1e999", b"-1", b"9" * 4301, b"[" * 2000, b'{"a":' * 2000, b"NaN", b"null", b'"tokens":', b'"text":'),
    *(b"\xe2\x80\x8d", b"\xed\xa0\x80", b"1.1\t"),
]
TAGS = st.sampled_from(["O", "B-PER", "I-PER", "E-PER", "S", "_"])
SENTENCES: dict[str, SearchStrategy[Sentence]] = {
    "conll": strategies.sentences(strategies.cells(" "), TAGS, ("1", "2")),
    "conllu": strategies.sentences(strategies.cells(" "), TAGS, ("lemma",)),
    "jsonl": strategies.sentences(st.text(max_size=5), TAGS, ("pos",), min_size=0),
    "csv": strategies.sentences(strategies.cells(" \u3000"), TAGS, ("pos",)),
    "spans": strategies.annotated("words"),
    "segmented": strategies.segmented(),
    "wordtag": strategies.sentences(strategies.cells(" \u3000/"), st.sampled_from(["O", "NN"])),
}


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with a few of them changed, left out, repeated, put elsewhere or put in."""
    for _ in range(draw(st.integers(0, 4))):
        start, end = sorted(draw(st.tuples(st.integers(0, len(data)), st.integers(0, len(data)))))
        part, put_in = data[start:end], draw(st.one_of(st.sampled_from(ODD), st.binary(max_size=4)))
        middle = draw(st.sampled_from([b"", part + part, part[::-1], put_in, put_in + part, put_in.join([part] * 3)]))
        data = data[:start] + middle + data[end:]
    return data


@st.composite
def files(draw: st.DrawFn, format: str) -> tuple[str, bytes]:
    """The name and the content of a file of that format, damaged before it was compressed, or behind, or not."""
    sentences = draw(st.lists(SENTENCES[format], max_size=4))
    options = {"scheme": "IOB2"} if format == "spans" else {}
    whole = "".join(corpus.FORMATS[format].write(sentences, **options)).encode()
    if format in ("jsonl", "spans") and draw(st.booleans()):
        whole = b"[" + b",\n".join(whole.splitlines()) + b"]"
    suffix = draw(st.sampled_from(["", "", *strategies.COMPRESS]))
    packed = draw(damaged(whole))
    packed = strategies.COMPRESS[suffix](packed) if suffix else packed
    return f"f{suffix}", draw(damaged(packed)) if suffix else packed


@pytest.mark.parametrize("format", sorted({*SENTENCES}))
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_damaged_file_gives_sentences_or_an_error_of_ours(tmp_path: Path, format: str, data: st.DataObject) -> None:
    name, content = data.draw(files(format))
    path = tmp_path / name
    path.write_bytes(content)
    chosen = data.draw(st.sampled_from([format, format, None, *corpus.FORMATS]))
    encoding = data.draw(st.sampled_from(["utf-8", "utf-8", "utf-16", "latin-1", "gb18030", "utf-7", "unicode_escape"]))
    for on_error in ("raise", "skip"):
        with warnings.catch_warnings(action="ignore"):  # of unicode_escape, and of lines taken for words
            read_and_use(path, chosen, encoding, on_error)


def read_and_use(path: Path, format: str | None, encoding: str, on_error: str) -> None:
    """Read a file, check it, and write it in every format."""
    try:
        found = corpus.read(path, format=format, encoding=encoding, on_error=on_error)  # type: ignore[arg-type]
    except TrellisError:
        return
    assert len(found.report.errors) == min(found.report.skipped, 100)
    check_files([CheckedFile("f", found.sentences, found.report)])
    for name in corpus.FORMATS:
        try:
            corpus.write(path.with_name("out"), found, format=name)
        except TrellisError:
            continue
    assert [item.name for item in path.parent.iterdir() if item.suffix == ".partial"] == []

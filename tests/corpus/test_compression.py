"""Compressed files in bounded memory: bombs, streams cut off anywhere, windows and frames of all kinds."""

from __future__ import annotations

import io
import lzma
import tracemalloc
import zlib
from pathlib import Path

import pytest
import zstandard

from tests.corpus.strategies import COMPRESS
from trellis import corpus
from trellis.corpus import source as source_module
from trellis.corpus.source import unpacked
from trellis.errors import DataError
from trellis.text import Sentence

CONTENT = b"".join(b"token%d\tO\n" % (i * i) for i in range(300))


def frame(*blocks: bytes, window: int = 0) -> bytes:
    """A zstd frame of raw blocks, which looks back ``2 ** (10 + window)`` bytes."""
    last = len(blocks) - 1
    headers = [(len(block) << 3 | (i == last)).to_bytes(3, "little") for i, block in enumerate(blocks)]
    body = b"".join(header + block for header, block in zip(headers, blocks, strict=True))
    return b"\x28\xb5\x2f\xfd\x00" + bytes([window << 3]) + body


def read(path: Path, data: bytes) -> list[Sentence]:
    path.write_bytes(data)
    return corpus.read(path).sentences


@pytest.mark.parametrize("suffix", COMPRESS)
def test_what_a_stream_unpacks_to_is_never_all_in_memory(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "_BLOCK", 1 << 14)
    path = tmp_path / f"bomb.conll{suffix}"
    path.write_bytes(COMPRESS[suffix](b"a\tO\n\n" * 5_000_000))
    tracemalloc.start()
    sentences = iter(corpus.iterate(path))
    assert [next(sentences).tokens for _ in range(10)] == [("a",)] * 10
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000  # of 25; the window of xz alone takes 8


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_stream_may_be_cut_off_nowhere(tmp_path: Path, suffix: str) -> None:
    whole = COMPRESS[suffix](CONTENT)
    for end in {*range(1, 40), *range(40, len(whole), 37), *range(len(whole) - 12, len(whole))}:
        with pytest.raises(DataError):
            read(tmp_path / f"a.conll{suffix}", whole[:end])
    with pytest.raises(DataError, match="Compressed file ended before the end-of-stream marker was reached"):
        read(tmp_path / f"a.conll{suffix}", whole[: len(whole) // 2])
    assert len(read(tmp_path / f"a.conll{suffix}", whole)[0]) == 300


@pytest.mark.parametrize("suffix", COMPRESS)
def test_an_empty_file_has_no_sentences_compressed_or_not(tmp_path: Path, suffix: str) -> None:
    assert read(tmp_path / f"a.conll{suffix}", b"") == []
    assert read(tmp_path / f"a.conll{suffix}", COMPRESS[suffix](b"")) == []


@pytest.mark.parametrize("suffix", COMPRESS)
def test_what_follows_a_stream_is_never_lost_silently(tmp_path: Path, suffix: str) -> None:
    whole = COMPRESS[suffix](b"a\tO\n\n")
    with pytest.raises(DataError, match=rf"^{tmp_path}/a\.conll\{suffix}: "):
        read(tmp_path / f"a.conll{suffix}", whole + b"rest")


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_zeros_between_streams_and_behind_them_are_padding(tmp_path: Path, suffix: str) -> None:
    parts = [COMPRESS[suffix](b"%c\tO\n\n" % letter) for letter in b"abcd"]
    data = parts[0] + parts[1] + bytes(8) + parts[2] + bytes(3 << 20) + parts[3] + bytes(4)
    assert [sentence.tokens for sentence in read(tmp_path / f"a.conll{suffix}", data)] == [(c,) for c in "abcd"]


def test_zstd_frames_of_every_kind_are_read(tmp_path: Path) -> None:
    skippable = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"12345"
    streamed = zstandard.ZstdCompressor(level=19, write_checksum=True).compressobj()
    parts = [
        skippable,
        frame(b"a\tO\n", b"b\tO\n"),
        frame(b""),
        zstandard.ZstdCompressor(write_content_size=False).compress(b"c\tO\n"),
        zstandard.ZstdCompressor().compress(b"d\tO\n" * 100_000),
        streamed.compress(b"e\tO\n" * 3) + streamed.flush(),
        skippable,
    ]
    (sentence,) = read(tmp_path / "a.conll.zst", b"".join(parts))
    assert "".join(sentence.tokens) == "abc" + "d" * 100_000 + "eee"


def test_a_window_beyond_128_mib_is_refused(tmp_path: Path) -> None:
    assert len(read(tmp_path / "a.conll.zst", frame(b"a\tO\n", window=17))) == 1
    with pytest.raises(DataError, match=r"a\.conll\.zst: this zstd stream cannot be read: .*too much memory"):
        read(tmp_path / "a.conll.zst", frame(b"a\tO\n", window=18))
    packed = bytearray(lzma.compress(b"a\tO\n"))
    packed[16] = 38  # the size of the dictionary: 2 GiB
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    with pytest.raises(DataError, match=r"a\.conll\.xz: Memory usage limit exceeded"):
        read(tmp_path / "a.conll.xz", bytes(packed))


def test_a_zstd_stream_with_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    whole = COMPRESS[".zst"](CONTENT)
    with pytest.raises(DataError, match="this zstd stream cannot be read"):
        read(tmp_path / "a.conll.zst", whole[:-1] + bytes([whole[-1] ^ 1]))


def test_what_is_written_depends_on_the_content_alone(tmp_path: Path) -> None:
    sentences = [Sentence(["a"], ["O"])]
    for suffix in COMPRESS:
        paths = [tmp_path / f"one.conll{suffix}", tmp_path / f"other.conll{suffix}"]
        for path in paths:
            corpus.write(path, sentences)
        assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("suffix", COMPRESS)
def test_reading_in_small_pieces_gives_the_same_bytes(suffix: str) -> None:
    file = unpacked(io.BytesIO(COMPRESS[suffix](CONTENT * 99)), suffix, "f")
    parts = iter(lambda: file.read(1000), b"")
    assert b"".join(parts) == CONTENT * 99

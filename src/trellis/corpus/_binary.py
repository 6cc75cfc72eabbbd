"""Files that are not text, known by their first bytes, so that an error can name them."""

from __future__ import annotations

import codecs
import re
import zlib

DOCBIN = "a spaCy DocBin"
"""The one binary format that is read: see `trellis.corpus.spacy`."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive, as docx, xlsx, odt and npz files are, too"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"{\\rtf", "an RTF document"),
    (b"\x1f\x8b\x08", "gzip data; its name must end in .gz"),
    (b"BZh91AY&SY", "bzip2 data; its name must end in .bz2"),
    (b"\xfd7zXZ\x00", "xz data; its name must end in .xz"),
    (b"\x28\xb5\x2f\xfd", "zstd data; its name must end in .zst"),
    *((bytes((0x80, version)), "a Python pickle, which is never opened") for version in (2, 3, 4, 5)),
    (b"PAR1\x15", "a Parquet file, which train --stream and tag --out read"),
    (b"ARROW1\x00\x00", "an Arrow file, which train --stream reads"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"\x7fELF", "a program"),
    (b"\xff\xfe\x00\x00", "text in UTF-32; pass --encoding utf-32"),
    (b"\x00\x00\xfe\xff", "text in UTF-32; pass --encoding utf-32"),
    (b"\xff\xfe", "text in UTF-16; pass --encoding utf-16"),
    (b"\xfe\xff", "text in UTF-16; pass --encoding utf-16"),
)
_SAMPLE = 1 << 12
_MOSTLY = 0.95
_CONTROL = re.compile(rb"[\x01-\x08\x0b\x0c\x0e-\x1f]")


def binary_kind(head: bytes) -> str | None:
    """What a file that begins so is, or None if it may be text in an encoding that extends ASCII."""
    head = head[:_SAMPLE]
    named = next((name for magic, name in _MAGIC if head.startswith(magic)), None)
    return named or _zlib_kind(head) or _safetensors_kind(head) or _utf16_kind(head) or _old_mac_kind(head)


def _zlib_kind(head: bytes) -> str | None:
    if len(head) < 3 or head[0] != 0x78 or int.from_bytes(head[:2], "big") % 31 or head[1:2].isalnum():
        return None
    try:
        start = zlib.decompressobj().decompress(head, _SAMPLE)
    except zlib.error:
        return None
    # MessagePack: a map of up to 15 entries, among the first the attributes of the tokens.
    is_docbin = start[:1] and 0x80 <= start[0] <= 0x8F and b"\xa5attrs" in start
    return DOCBIN if is_docbin else "zlib-compressed data"


def _safetensors_kind(head: bytes) -> str | None:
    """A length in eight bytes, then JSON."""
    is_one = len(head) > 10 and head[8:10] == b'{"' and head[4:8] == b"\0\0\0\0"
    return "a safetensors file: is it a model?" if is_one else None


def _utf16_kind(head: bytes) -> str | None:
    """UTF-16 without a mark: every other byte of its ASCII characters is zero."""
    if b"\0" not in head or _has_stray_zeros(head):
        return None
    for order in ("le", "be"):
        text = head[: len(head) // 2 * 2].decode(f"utf-16-{order}", "replace")
        usual = sum(c.isalnum() or c.isspace() or (c.isprintable() and c < "\u3100") for c in text)
        ascii_zeros = head[1 if order == "le" else 0 :: 2].count(0)
        if usual >= _MOSTLY * len(text) and ascii_zeros and not head[0 if order == "le" else 1 :: 2].count(0):
            return f"text in UTF-16 without a byte-order mark; pass --encoding utf-16-{order}"
    return None


def _old_mac_kind(head: bytes) -> str | None:
    """Lines that end as on old Macs would all be one line."""
    if b"\n" in head or head.count(b"\r") < 2:
        return None
    return r"text whose lines end in CR (\r) alone; convert them to LF (\n), for example by tr '\r' '\n'"


def _has_stray_zeros(head: bytes) -> bool:
    """Whether this is UTF-8 but for a few zeros; UTF-16 of scripts whose bytes are all ASCII has control characters."""
    rest = head.replace(b"\0", b"")
    if 4 * len(rest) <= 3 * len(head) or _CONTROL.search(rest):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(rest)
    except UnicodeDecodeError:
        return False
    return True

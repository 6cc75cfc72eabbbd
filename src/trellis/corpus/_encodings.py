"""Which encoding text that is not in the one expected is probably in, so that an error can suggest it."""

from __future__ import annotations

import codecs
import re

_SAMPLE = 1 << 14
_FEW = 4  # bytes that are not ASCII, fewer of which show no script
_IN_A_LATIN_WORD = re.compile(rb"[A-Za-z][\x80-\xfe]")
_CANDIDATES = ["utf_8", "gb18030", "big5", "euc_kr", "shift_jis", "euc_jp", "cp1251", "koi8_r", "cp1252"]


def suggest_encoding(data: bytes) -> str | None:
    """The encoding of text, where one fits well."""
    from charset_normalizer import from_bytes

    # Tags in ASCII make words of another script look improbable; Latin words are better known by those around them.
    words = data.split()
    samples = (_start([word for word in words if not word.isascii()]), _start(words))
    matches = next(filter(None, (list(from_bytes(sample, cp_isolation=_CANDIDATES)) for sample in samples)), [])
    best = [
        match.encoding
        for match in matches
        if (match.chaos, match.coherence) == (matches[0].chaos, matches[0].coherence)
    ]
    few = sum(byte > 0x7F for byte in samples[0]) < _FEW
    if "cp1252" in best and (len(best) > 1 or few):  # a few accents, which might be anything
        return "cp1252" if _IN_A_LATIN_WORD.search(samples[0]) else None
    return codecs.lookup(best[0]).name if best and not few else None


def _start(words: list[bytes]) -> bytes:
    """The first words, as many as a sample takes."""
    sample = b" ".join(words)
    return sample if len(sample) <= _SAMPLE else sample[:_SAMPLE].rpartition(b" ")[0] or sample[:_SAMPLE]

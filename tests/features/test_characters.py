"""Properties of characters in templates are those of one version of Unicode, whatever Python builds or runs Trellis."""

import re
import sys
import unicodedata

from tools.unicode_tables import ALPHA, DECIMAL, PLACE, UPPER, properties, table

from trellis import _native
from trellis.features import TemplateExtractor, Templates

FILE = PLACE.read_text(encoding="ascii")
KEPT = {
    code: (flags, lower)
    for first, last, flags, lower in (map(int, run) for run in re.findall(r"\{(\d+),(\d+),(\d+),(-?\d+)\}", FILE))
    for code in range(first, last + 1)
}
"""Flags, and how far the lower case form is away, of each character of the tables in the tree."""
CHARACTERS = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) != "Cs"]


def kept(code: int) -> tuple[int, int]:
    return KEPT.get(code, (0, 0))


def test_the_tables_in_the_tree_are_what_their_tool_writes_of_these_properties() -> None:
    assert table(_native.unicode_version, kept) == FILE


def test_native_code_reads_every_character_as_the_tables_say() -> None:
    def shape(character: str) -> str:
        flags = kept(ord(character))[0]
        return "X" if flags & UPPER else "x" if flags & ALPHA else "d" if flags & DECIMAL else character

    found = TemplateExtractor(Templates.parse("US:%shape[0,0]\nUL:%lower[0,0]")).strings(CHARACTERS)
    for c, names in zip(CHARACTERS, found, strict=True):
        assert names == [f"US:{shape(c)}", f"UL:{chr(ord(c) + kept(ord(c))[1])}"], hex(ord(c))


def test_the_tables_have_the_properties_that_python_gives() -> None:
    # Python knows another version of Unicode: it lacks or has other characters, and a few have changed.
    assigned = [code for code in map(ord, CHARACTERS) if unicodedata.category(chr(code)) not in ("Cn", "Co")]
    different = [code for code in assigned if kept(code) != properties(code)]
    if unicodedata.unidata_version == _native.unicode_version:
        assert not different
    else:
        older = unicodedata.unidata_version < _native.unicode_version
        assert len(different) <= (10 if older else 20_000), different[:20]

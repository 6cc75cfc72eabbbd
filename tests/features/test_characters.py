"""Properties of characters in templates are those of one version of Unicode, whatever Python builds or runs Trellis."""

import sys
import unicodedata

import pytest
from tools.unicode_tables import PLACE, table

from trellis import _native
from trellis.features import TemplateExtractor, Templates

CHARACTERS = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) not in ("Cn", "Cs", "Co")]


def shape(character: str) -> str:
    if character.isupper() or character.istitle():
        return "X"
    return "x" if character.isalpha() else "d" if character.isdecimal() else character


def test_the_tables_in_the_tree_are_the_ones_in_use() -> None:
    assert f'kUnicodeVersion = "{_native.unicode_version}"' in PLACE.read_text(encoding="ascii")


@pytest.mark.skipif(
    unicodedata.unidata_version != _native.unicode_version, reason="this Python has another version of Unicode"
)
def test_the_tables_are_those_of_a_python_with_the_same_unicode() -> None:
    assert PLACE.read_text(encoding="ascii") == table()


def test_shapes_and_lower_case_are_those_of_python() -> None:
    # Other versions of Unicode know other characters, and have changed their minds about a few.
    extractor = TemplateExtractor(Templates.parse("US:%shape[0,0]\nUL:%lower[0,0]"))
    found = extractor.strings(CHARACTERS)
    expected = [[f"US:{shape(c)}", f"UL:{c.lower()[0]}"] for c in CHARACTERS]
    different = [c for c, a, b in zip(CHARACTERS, found, expected, strict=True) if a != b]
    known = unicodedata.unidata_version <= _native.unicode_version
    assert len(different) <= (10 if known else 20_000), different[:20]

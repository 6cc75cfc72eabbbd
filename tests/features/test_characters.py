"""Properties of characters in templates are Python's, for every character that Unicode has assigned."""

import sys
import unicodedata

from trellis.features.extraction import TemplateExtractor
from trellis.features.templates import Templates

CHARACTERS = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) not in ("Cn", "Cs", "Co")]


def shape(character: str) -> str:
    if character.isupper() or character.istitle():
        return "X"
    return "x" if character.isalpha() else "d" if character.isdecimal() else character


def test_shapes_and_lower_case_are_those_of_python() -> None:
    # The tables are those of the Python that built the package; a newer one may know more characters.
    extractor = TemplateExtractor(Templates.parse("US:%shape[0,0]\nUL:%lower[0,0]"))
    found = extractor.strings(CHARACTERS)
    expected = [[f"US:{shape(c)}", f"UL:{c.lower()[0]}"] for c in CHARACTERS]
    different = [c for c, a, b in zip(CHARACTERS, found, expected, strict=True) if a != b]
    assert len(different) <= (0 if sys.version_info < (3, 12) else 2000), different[:20]

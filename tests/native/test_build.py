"""What is measured is what is shipped: one dispatch at run time, and the same code for every Python."""

import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "native"


def test_nothing_chooses_instructions_or_a_python_when_it_is_compiled() -> None:
    """A second dispatch ignores `use_instruction_set`; code for one ABI is missing from the wheel by the other."""
    files = [file for file in SOURCES.rglob("*") if file.suffix in (".h", ".cpp", ".txt")]
    assert len(files) > 50
    second = re.compile(r"target_clones|__attribute__\(\(target|Py_LIMITED_API|PY_VERSION_HEX|-march=native")
    assert [str(file) for file in files if second.search(file.read_text(encoding="utf-8"))] == []

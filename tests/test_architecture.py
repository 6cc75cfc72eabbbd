"""docs/architecture.md is true: every file it names exists, and has what the page says it has."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
HOPS = re.findall(r"^\| .* \| `(\S+)` \| `(\S+)` \|$", PAGE, re.MULTILINE)


def names_of(file: Path) -> set[str]:
    """Functions, classes, their methods, and values of a module, by dotted names."""
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, FUNCTIONS | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{own.name}" for own in node.body if isinstance(own, FUNCTIONS)}
    return names


def test_the_page_follows_four_walks() -> None:
    assert re.findall(r"^## `(.*?)`", PAGE, re.MULTILINE) == [
        "trellis train",
        "trellis tag",
        "crf.nll(...).backward()",
        "CRF.fit",
    ]
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.endswith("| file | name |")]
    assert len(HOPS) == len(rows) > 30


@pytest.mark.parametrize(("path", "name"), HOPS)
def test_every_hop_leads_to_a_file_and_a_name_in_it(path: str, name: str) -> None:
    file = ROOT / path
    assert file.is_file()
    found = names_of(file) if path.endswith(".py") else set(re.findall(r"\w+", file.read_text()))
    assert name in found

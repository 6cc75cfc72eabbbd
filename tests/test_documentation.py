"""Every Python snippet of the documentation runs, in the order of its page."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import trellis

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGE = Path(trellis.__file__).parent
FILES = (path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py"))
MODULES = sorted(".".join(file.parts).removesuffix(".__init__") for file in FILES)


@pytest.mark.parametrize("page", [page for page in PAGES if SNIPPET.search((ROOT / page).read_text())])
def test_snippets_of_a_page_run(page: str) -> None:
    names: dict[str, object] = {}
    for snippet in SNIPPET.findall((ROOT / page).read_text()):
        exec(compile(snippet, page, "exec"), names)


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!http|#)([^)#]+)", (ROOT / page).read_text())
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_give_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0

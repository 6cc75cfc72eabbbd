"""Notebooks are the pages that they are made from."""

import json

import pytest
from tools import notebook, pages


@pytest.mark.parametrize("page", notebook.PAGES)
def test_a_notebook_is_up_to_date(page):
    assert notebook.path_of(page).read_text(encoding="utf-8") == notebook.notebook(page), "python -m tools.notebook"


@pytest.mark.parametrize("page", notebook.PAGES)
def test_a_notebook_has_the_code_and_the_outputs_of_its_page(page):
    cells = json.loads(notebook.notebook(page))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code == [block.text.rstrip("\n") for block in pages.snippets(notebook.ROOT / page, "python")]
    outputs = ["".join(output["text"]) for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    assert outputs == [block.text for block in pages.snippets(notebook.ROOT / page, "text")]
    assert len({cell["id"] for cell in cells}) == len(cells)

"""A package that is missing is named with the extra that has it, and by nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trellis.corpus.rows import opened_parquet
from trellis.errors import ConfigError
from trellis.nn.transformer import load_pretrained


def test_a_parquet_file_is_not_blamed_for_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"^a table in Arrow's format needs pyarrow: pip install 'trellis-crf"):
        opened_parquet(str(tmp_path / "a.parquet")).__enter__()


@pytest.mark.parametrize("name", ["owner/name", "."])
def test_transformers_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"a pretrained encoder needs transformers: pip install 'trellis-crf\[neural"):
        load_pretrained(name)

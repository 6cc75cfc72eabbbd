"""Sentences as a `datasets.Dataset` of Hugging Face, tags as ids with names (``ClassLabel``).

`trellis.corpus.from_rows` reads such a dataset: it finds the names in the features.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from trellis.corpus import to_rows
from trellis.errors import DataError, needed
from trellis.text import Sentence

__all__ = ["label_names", "to_dataset"]


def to_dataset(sentences: Iterable[Sentence], *, tags: str = "ner_tags", names: Sequence[str] | None = None) -> Any:
    """A `datasets.Dataset` with a row per sentence: tokens, tags, text and offsets if known, and other columns.

    Args:
        sentences: all with the same columns, and all with tags or none with.
        tags: the field of the tags.
        names: of the tags, in the order of their ids; by default those that occur, in the order of `label_names`.

    """
    datasets = needed("datasets", "datasets", "to_dataset")
    given = list(sentences)
    if names is None and any(sentence.tags is not None for sentence in given):
        names = label_names(given)
    rows = list(to_rows(given, tags=tags, names=names))
    for number, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            raise DataError(f"sentence {number}: expected the fields {', '.join(rows[0])}, found {', '.join(row)}")
    # Types that do not depend on what the first rows happen to hold.
    fields = rows[0] if rows else {"tokens": [], **({} if names is None else {tags: []})}
    text, whole = datasets.Value("string"), datasets.Value("int64")
    known = {"text": text, "offsets": datasets.Sequence(datasets.Sequence(whole, length=2))}
    if names is not None:
        known[tags] = datasets.Sequence(datasets.ClassLabel(names=list(names)))
    features = datasets.Features({field: known.get(field, datasets.Sequence(text)) for field in fields})
    columns = {field: [row[field] for row in rows] for field in features}
    return datasets.Dataset.from_dict(columns, features=features)


def label_names(sentences: Iterable[Sentence]) -> list[str]:
    """The tags that occur: O first, as most scripts expect, the others sorted by what follows their prefix."""
    occurring = {tag for sentence in sentences for tag in sentence.tags or ()}
    return sorted(occurring, key=lambda tag: (tag != "O", tag.partition("-")[2], tag))

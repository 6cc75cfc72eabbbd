"""The model card: what the Hub shows of a model, and what it can be searched by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from trellis import __version__
from trellis.errors import number_of
from trellis.models import Tagger
from trellis.report import Grid
from trellis.tags import Scheme

_USE = """\
## Use

```python
from trellis.compat.transformers import pipeline

tagger = pipeline("token-classification", model="{name}", aggregation_strategy="simple")
tagger("...")
```
"""


def model_card(
    tagger: Tagger[Any], name: str, *, license: str | None, language: str | None, record: Mapping[str, Any]
) -> str:
    """README.md with its front matter; figures are those of the training record."""
    front = "\n".join(_front_matter(tagger, license, language))
    kind = record.get("model") or type(tagger).__name__
    about = f"A sequence labeller of the family `{kind}`, made with Trellis {__version__} (`pip install trellis-crf`)."
    parts = [
        f"---\n{front}\n---\n",
        f"# {name}\n",
        f"{about}\n",
        _labels(tagger),
        _figures(record),
        _USE.format(name=name),
    ]
    return "\n".join(part for part in parts if part)


def _front_matter(tagger: Tagger[Any], license: str | None, language: str | None) -> Iterator[str]:
    """Lines of YAML; strings are quoted as in JSON, which is YAML too."""
    if license is not None:
        yield f"license: {json.dumps(license)}"
    if language is not None:
        yield f"language: {json.dumps(language)}"
    yield "library_name: trellis"
    yield "pipeline_tag: token-classification"
    yield f"tags: {json.dumps(['trellis', 'sequence-labelling', tagger.kind])}"


def _labels(tagger: Tagger[Any]) -> str:
    tags = tagger.tagset_
    scheme = "" if tags.scheme is Scheme.PLAIN else f", in the scheme {tags.scheme.value}"
    spelled = ", ".join(f"`{label}`" for label in tags.labels)
    return f"## Labels\n\n{number_of(len(tags), 'label')}{scheme}: {spelled}\n"


def _figures(record: Mapping[str, Any]) -> str:
    """The figures of the held-out files, by their names without folders; nothing if there are none."""
    figures, data = record.get("figures") or {}, record.get("data") or {}
    if not figures:
        return ""
    names = tuple(dict.fromkeys(name for found in figures.values() for name in found))
    rows = [
        (_file(data.get(role)) or role, *(f"{found[name]:.4f}" if name in found else "" for name in names))
        for role, found in figures.items()
    ]
    return f"## Figures\n\n{Grid('Figures', ('data', *names), tuple(rows)).to_markdown()}\n"


def _file(entry: Mapping[str, Any] | None) -> str:
    return PurePath(entry["path"]).name if entry else ""

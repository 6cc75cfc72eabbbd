"""Taggers where programs expect transformers: its pipeline, and folders of the Hugging Face Hub.

    pipeline("token-classification", model=...)       texts to dicts, as transformers writes them
    save_pretrained, from_pretrained, push_to_hub     a folder with a model card, here or on the Hub

A tagger labels words, so there are no subwords to bring together: the strategies ``simple``, ``first``, ``average`` and
``max`` give the same spans. The score of a span is its exact probability, that of a token the probability of its tag.

The folder is an ordinary one of Trellis, so ``trellis tag FOLDER`` works too. Files of the Hub are opened like any
others: nothing in them is run. Nothing here imports transformers; names of the Hub need ``huggingface_hub`` (extra
``hub``).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, overload

from trellis import __version__, files
from trellis.errors import ConfigError, DataError, StoreError, did_you_mean, needed, number_of, shown
from trellis.models import Tagged, Tagger, load
from trellis.models.folder import prepare, read_record, save_model, save_record
from trellis.results import Grid
from trellis.tags import Scheme
from trellis.text import Sentence

__all__ = ["TokenClassificationPipeline", "from_pretrained", "pipeline", "push_to_hub", "save_pretrained"]

Entity = dict[str, Any]

STRATEGIES = ("none", "simple", "first", "average", "max")
_TASKS = ("token-classification", "ner")
_USE = """\
## Use

```python
from trellis.compat.transformers import pipeline

tagger = pipeline("token-classification", model="{name}", aggregation_strategy="simple")
tagger("...")
```
"""


class TokenClassificationPipeline:
    """Texts in, dicts out.

    Args:
        model: the tagger.
        aggregation_strategy: "none" for one dict per token, all others for one per span.
        ignore_labels: tags, or with spans their labels, that are left out.
        batch_size: texts that are tagged at a time where they come from an iterator.

    """

    def __init__(
        self,
        model: Tagger[Any],
        *,
        aggregation_strategy: str = "none",
        ignore_labels: Collection[str] = ("O",),
        batch_size: int = 256,
    ) -> None:
        if isinstance(ignore_labels, str):
            raise ConfigError(f"ignore_labels must be a list of labels, got the text {ignore_labels!r}")
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, got {batch_size}")
        self.model = model
        self.aggregation_strategy = _checked(aggregation_strategy, STRATEGIES, "aggregation_strategy")
        self.ignore_labels = frozenset(ignore_labels)
        self.batch_size = batch_size

    @overload
    def __call__(self, inputs: str | Sentence, *, aggregation_strategy: str | None = None) -> list[Entity]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, inputs: list[Any] | tuple[Any, ...], *, aggregation_strategy: str | None = None
    ) -> list[list[Entity]]: ...
    @overload
    def __call__(self, inputs: Iterable[Any], *, aggregation_strategy: str | None = None) -> Iterator[list[Entity]]: ...
    def __call__(
        self, inputs: Any, *, aggregation_strategy: str | None = None
    ) -> list[Entity] | list[list[Entity]] | Iterator[list[Entity]]:
        """A list of dicts for a text or a `Sentence`; a list of those for a list; an iterator for an iterable."""
        how = self.aggregation_strategy
        if aggregation_strategy is not None:
            how = _checked(aggregation_strategy, STRATEGIES, "aggregation_strategy")
        if isinstance(inputs, str | Sentence):
            return self._entities(self.model(inputs), how)
        if isinstance(inputs, list | tuple):
            return [self._entities(one, how) for one in self.model.annotate(inputs)]
        if not isinstance(inputs, Iterable) or isinstance(inputs, bytes | Mapping):
            raise DataError(f"expected a text, or texts in a list or another iterable, got {shown(inputs)}")
        return self._stream(iter(inputs), how)

    def _stream(self, inputs: Iterator[Any], how: str) -> Iterator[list[Entity]]:
        while batch := list(islice(inputs, self.batch_size)):
            for one in self.model.annotate(batch):
                yield self._entities(one, how)

    def _entities(self, tagged: Tagged, how: str) -> list[Entity]:
        """Dicts of one sentence; tokens are counted from 1: transformers counts a special token before them."""
        if how == "none":
            rows = zip(tagged.tags, tagged.probabilities, tagged.tokens, tagged.sentence.offsets or (), strict=True)
            return [
                {"entity": tag, "score": probability, "index": index, "word": word, "start": start, "end": end}
                for index, (tag, probability, word, (start, end)) in enumerate(rows, 1)
                if tag not in self.ignore_labels
            ]
        return [
            {"entity_group": label, "score": probability, "word": text, "start": start, "end": end}
            for start, end, label, text, probability in tagged.spans
            if label not in self.ignore_labels
        ]


def pipeline(
    task: str,
    model: str | Path | Tagger[Any],
    *,
    aggregation_strategy: str = "none",
    ignore_labels: Collection[str] = ("O",),
    batch_size: int = 256,
) -> TokenClassificationPipeline:
    """The pipeline of a tagger, of a model file or folder, or of a model of the Hub by its name."""
    _checked(task, _TASKS, "task")
    tagger = model if isinstance(model, Tagger) else from_pretrained(model)
    return TokenClassificationPipeline(
        tagger, aggregation_strategy=aggregation_strategy, ignore_labels=ignore_labels, batch_size=batch_size
    )


def _checked(value: str, known: tuple[str, ...], name: str) -> str:
    if value not in known:
        raise ConfigError(f"{name} must be one of {', '.join(known)}, got {value!r}{did_you_mean(value, known)}")
    return value


def save_pretrained(
    model: Tagger[Any] | str | Path,
    folder: str | Path,
    *,
    license: str | None = None,
    name: str | None = None,
    language: str | None = None,
    record: Mapping[str, Any] | None = None,
) -> Path:
    """Write a tagger and its model card to a folder, which is made if it does not exist.

    Args:
        model: the tagger, or the folder that ``trellis train`` left, whose figures then stand on the card.
        folder: where to.
        license: the licence of the model as the Hub spells it ("mit", "apache-2.0"); the card says nothing without it.
        name: the heading of the card; by default the name of the folder.
        language: the language of the texts as the Hub spells it ("en", "zh").
        record: a training record, whose figures stand on the card; by default that of the folder `model`.

    """
    if not isinstance(model, Tagger):
        record = read_record(model) if record is None else record
        model = load(model)
    target = prepare(folder)
    save_model(target, model)
    if record:
        # Without what is known of the machine: the command, and the folders of the data.
        data = {role: {**file, "path": PurePath(file["path"]).name} for role, file in record.get("data", {}).items()}
        public = {name: value for name, value in record.items() if name != "command"}
        save_record(target, public | ({"data": data} if data else {}))
    title = target.resolve().name if name is None else name
    card = _model_card(model, title, license=license, language=language, record=record or {})
    files.write_text(target / "README.md", card)
    return target


def from_pretrained(
    name: str | Path, *, revision: str | None = None, token: str | None = None, local_files_only: bool = False
) -> Tagger[Any]:
    """Open a model file or folder, or a model of the Hub by its name, ``owner/model``.

    Args:
        name: a path, or a name of the Hub if nothing is at that path.
        revision: a branch, tag or commit of the Hub.
        token: for private models.
        local_files_only: take only what was fetched before.

    """
    if Path(name).exists():
        return load(name)
    if isinstance(name, Path) or name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise StoreError(
            f"no model at {str(name)!r}: expected a file, a folder, or a name of the Hub such as owner/model"
        )
    hub = needed("huggingface_hub", "hub", f"the model {name!r} of the Hub")
    try:
        folder = hub.snapshot_download(name, revision=revision, token=token, local_files_only=local_files_only)
    except Exception as error:  # the library below raises errors of many kinds, those of the network among them
        raise StoreError(
            f"the model {name!r} is neither a file or folder here nor could it be fetched from the Hub: "
            f"{type(error).__name__}: {error}"
        ) from error
    return load(folder)


def push_to_hub(
    model: Tagger[Any] | str | Path,
    repository: str,
    *,
    license: str | None = None,
    language: str | None = None,
    private: bool | None = None,
    token: str | None = None,
    commit_message: str = "Add a Trellis tagger",
) -> str:
    """Put what `save_pretrained` writes on the Hub as ``owner/model``, which is made if it does not exist.

    Returns the address of the commit.
    """
    api = needed("huggingface_hub", "hub", "push_to_hub").HfApi(token=token)
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(model, folder, license=license, language=language, name=repository)
        api.create_repo(repository, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message=commit_message))


def _model_card(
    tagger: Tagger[Any], name: str, *, license: str | None, language: str | None, record: Mapping[str, Any]
) -> str:
    """README.md with its front matter; figures are those of the training record."""
    # Lines of YAML; strings are quoted as in JSON, which is YAML too.
    stated = {"license": license, "language": language}
    front = [f"{key}: {json.dumps(value)}" for key, value in stated.items() if value is not None]
    front += ["library_name: trellis", "pipeline_tag: token-classification"]
    front.append(f"tags: {json.dumps(['trellis', 'sequence-labelling', tagger.kind])}")
    tags = tagger.tagset_
    scheme = "" if tags.scheme is Scheme.PLAIN else f", in the scheme {tags.scheme.value}"
    spelled = ", ".join(f"`{label}`" for label in tags.labels)
    kind = record.get("model") or type(tagger).__name__
    about = f"A sequence labeller of the family `{kind}`, made with Trellis {__version__} (`pip install trellis-crf`)."
    parts = [
        "\n".join(["---", *front, "---\n"]),
        f"# {name}\n",
        f"{about}\n",
        f"## Labels\n\n{number_of(len(tags), 'label')}{scheme}: {spelled}\n",
        _figures(record),
        _USE.format(name=name),
    ]
    return "\n".join(part for part in parts if part)


def _figures(record: Mapping[str, Any]) -> str:
    """The figures of the held-out files, by their names without folders; nothing if there are none."""
    figures, data = record.get("figures") or {}, record.get("data") or {}
    if not figures:
        return ""
    names = tuple(dict.fromkeys(name for values in figures.values() for name in values))
    rows = []
    for role, values in figures.items():
        entry = data.get(role)
        file = (PurePath(entry["path"]).name if entry else "") or role
        rows.append((file, *(f"{values[name]:.4f}" if name in values else "" for name in names)))
    return f"## Figures\n\n{Grid('Figures', ('data', *names), tuple(rows)).to_markdown()}\n"

"""Model folders that are ready for the Hugging Face Hub: the files of a training and a model card, README.md.

The folder is an ordinary one of Trellis, so ``trellis tag FOLDER`` works too. Files of the Hub are opened like any
others: nothing in them is run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from trellis import files
from trellis.compat.transformers.card import model_card
from trellis.errors import StoreError
from trellis.models import Tagger, load
from trellis.models.folder import prepare, read_record, save_model, save_record
from trellis.optional import needed


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
        save_record(target, _public(record))
    title = target.resolve().name if name is None else name
    card = model_card(model, title, license=license, language=language, record=record or {})
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
        found = hub.snapshot_download(name, revision=revision, token=token, local_files_only=local_files_only)
    except Exception as error:  # the library below raises errors of many kinds, those of the network among them
        raise StoreError(
            f"the model {name!r} is neither a file or folder here nor could it be fetched from the Hub: "
            f"{type(error).__name__}: {error}"
        ) from error
    return load(found)


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


def _public(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without what is known of the machine: the command, and the folders of the data."""
    data = {role: {**file, "path": PurePath(file["path"]).name} for role, file in record.get("data", {}).items()}
    return {name: value for name, value in record.items() if name != "command"} | ({"data": data} if data else {})

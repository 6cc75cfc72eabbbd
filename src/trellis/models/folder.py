"""Model folders: what a training leaves behind. This is the one place that names their files, writes and reads them.

    model.safetensors      the model, as `Tagger.save` writes it; the only file that tagging needs
    config.toml            all settings it was trained with, explained
    history.json           the steps of its training, and learning-curve.svg, a picture of them
    training.json          the record of ``trellis train``: command, data, formats, scheme, figures
    checkpoints/           while it is trained, and after a kill: what it can continue from (training/checkpoint.py)
    .lock, .owner.json     while it is trained: who does it (training/checkpoint.py)

Each file appears under its name only once it is whole. An older model stays in use until the new one takes its place.
Fingerprints tell whether a training that is resumed learns from the same data.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis import config, files, store
from trellis.arrays import AnyArray, Arrays
from trellis.errors import ModelError, StoreError
from trellis.models.data import Label, Labelled
from trellis.models.families import FAMILIES, tagger_class
from trellis.text import Sentence
from trellis.training.checkpoint import TrainingFolder, has_checkpoints, locked, owner_of, read_state
from trellis.training.history import CURVE, HISTORY, history_texts
from trellis.training.process_group import is_first_process
from trellis.untrusted import Fields, read_json

if TYPE_CHECKING:
    from trellis.models.tagger import FitOptions, Tagger


MODEL, CONFIG, RECORD, CHECKPOINTS = "model.safetensors", "config.toml", "training.json", "checkpoints"
_TEXTS = ("trellis", "command", "model", "task", "scheme", "tokenizer", "started", "reason")  # of the record
_FILE = {"path": (str,), "format": (str,), "sentences": (int,), "tokens": (int,)}  # of each file in it


class ModelFolder:
    """A folder that is locked for a training, which will leave its model there."""

    def __init__(self, path: Path, model: str, kind: str, *, resume: bool, overwrite: bool, is_main: bool) -> None:
        """Refuse at once what would lose or mix work."""
        self.path, self._is_main = path, is_main
        if is_main:
            files.remove_partial(path)
            if (path / MODEL).exists() and not overwrite:
                family = _family_in(path, model)
                if family not in (model, kind):
                    other = "a file that is not a model" if family is None else f"a {family} model"
                    raise ModelError(
                        f"{path} holds {other}, not a {model} model: replace it with --overwrite (in Python "
                        "overwrite=True), or choose another folder"
                    )
                if resume and not (path / CHECKPOINTS).exists():
                    raise ModelError(
                        f"{path} holds a finished training: there is nothing to resume. To train its model further, "
                        f"use --warm-start {path} (in Python, warm_start=True)"
                    )
        self.training = TrainingFolder(path / CHECKPOINTS, model, resume=resume, overwrite=overwrite, is_main=is_main)

    def save(self, tagger: Tagger[Any], record: Mapping[str, Any] | None = None) -> bool:
        """Leave the model, unless training was interrupted before there was one; says whether it was left.

        Checkpoints are removed when the model is safe, and stay if training can continue from them.
        """
        history = getattr(tagger, "history_", None)
        interrupted = history is not None and history.reason == "interrupted"
        if interrupted and history is not None and history.kept < 0:
            return False
        if self._is_main:
            save_model(self.path, tagger)
            self.save_record(record)
        if not interrupted:
            self.training.finish()
        return True

    def save_record(self, record: Mapping[str, Any] | None) -> None:
        """Write the record of the training; that of an earlier one does not stay next to another model."""
        if self._is_main and record is not None:
            save_record(self.path, record)
        elif self._is_main:
            (self.path / RECORD).unlink(missing_ok=True)


@contextmanager
def training(
    path: str | Path, model: str, kind: str, *, resume: bool = False, overwrite: bool = False
) -> Iterator[ModelFolder]:
    """The folder, made if it does not exist, locked and cleaned up for a training of this model.

    Args:
        path: the folder.
        model: the name of its family, or the kind if that is all that is known.
        kind: under which it is stored.
        resume: continue the training in the folder, if there is one that did not end.
        overwrite: discard such a training, and replace a model of another family.

    """
    made = [folder for folder in (Path(path), *Path(path).parents) if not folder.exists()]
    target = prepare(path)
    is_main = is_first_process()
    try:
        with locked(target) if is_main else nullcontext():
            folder = ModelFolder(target, model, kind, resume=resume, overwrite=overwrite, is_main=is_main)
            try:
                yield folder
            finally:
                folder.training.close()
    finally:
        for empty in made if is_main else ():  # of a training that was refused
            with suppress(OSError):
                empty.rmdir()


def model_file(path: str | Path) -> Path:
    """The file that holds the model: the path itself, or the one in the folder."""
    given = Path(path)
    if not given.is_dir():
        return given
    if not (given / MODEL).is_file():
        raise StoreError(f"the folder {path} holds no model{_training_in(given)}")
    return given / MODEL


def load(path: str | Path, *, verify: bool = True) -> Tagger[Any]:
    """Open a saved model of any kind: a file that `save` or CRFsuite wrote, or a folder that ``trellis train`` made."""
    file = model_file(path)
    try:
        stored = store.load(file, verify=verify)
    except StoreError:
        from trellis.models import crfsuite  # not needed for files of ours

        if not crfsuite.is_file_of_crfsuite(file):
            raise
        stored = crfsuite.read_file(file)
    try:
        cls = tagger_class(stored.kind)
    except StoreError as error:
        raise StoreError(f"{path} holds {error}") from None
    return cls.from_stored(stored)


def prepare(folder: str | Path) -> Path:
    """The folder, made if it does not exist, and tested with a file: training is too long to fail at its end."""
    target = Path(folder)
    if target.is_file():
        raise StoreError(f"{target} is a file: expected a folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=target).close()
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}") from None
    return target


def save_model(folder: Path, tagger: Tagger[Any]) -> None:
    """Write model, settings and history, all or none."""
    history = getattr(tagger, "history_", None)
    texts = {CONFIG: config.to_toml(tagger.settings_), **({} if history is None else history_texts(history))}
    files.write_together({folder / MODEL: tagger.save, **{folder / name: text for name, text in texts.items()}})
    for name in {HISTORY, CURVE} - texts.keys():
        (folder / name).unlink(missing_ok=True)


def save_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write the record of the training."""
    files.write_json(folder / RECORD, record)


def read_record(path: str | Path) -> dict[str, Any]:
    """The record of a model folder, empty for a model file without one.

    Each field is of its type, since anybody may have changed the file; unknown fields stay.
    """
    file = Path(path) / RECORD
    values = read_json(file)
    if values is None:
        return {}
    record = Fields(values, f"{file}, the record of a training,")
    for name in record.values.keys() & set(_TEXTS):
        record.value(name, str, type(None))
    for name in record.values.keys() & {"seconds", "iterations"}:
        record.value(name, int, float, type(None))
    if "labels" in record:
        record.texts("labels")
    if "reading" in record:
        record.table("reading")

    def tables(name: str) -> list[Fields]:
        return [record.table(name).table(role) for role in record.table(name).values] if name in record else []

    for data_file in tables("data"):
        for name, kinds in _FILE.items():
            data_file.value(name, *kinds)
    for figures in tables("figures"):
        for name in figures.values:
            figures.value(name, int, float)
    return record.values


def _family_in(path: Path, wanted: str) -> str | None:
    """The family of the model in a folder, by its record; else the kind under which it is stored, if it can be read."""
    try:
        kind = store.read_kind(path / MODEL)
    except StoreError:
        return None
    with suppress(StoreError):
        name = read_record(path).get("model")
        if name in FAMILIES and wanted in FAMILIES and FAMILIES[name].kind == kind:
            return str(name)
    return kind


def _training_in(path: Path) -> str:
    """The end of a message about a folder without a model: that it is being trained, or was interrupted."""
    expected = f": expected {MODEL} in it"
    with suppress(StoreError):
        state, owner = read_state(path / CHECKPOINTS), owner_of(path)
        if state is None:
            return expected
        if owner is not None:
            return f" yet: {owner}, is training it"
        how = "continue it with trellis train --resume" if has_checkpoints(path / CHECKPOINTS) else "train it again"
        return f": it holds {state}; {how}"
    return expected


class DataDigest:
    """A fingerprint of tokens, further columns and labels, in their order; it says how many there are, for people."""

    def __init__(self) -> None:
        self._digest = _sha256()
        self._sentences = self._tokens = 0

    def add(self, item: Any, labels: Sequence[Any]) -> None:
        """Add the next sentence."""
        self._digest.update(json.dumps([_input(item), list(labels)], default=repr).encode())
        self._sentences += 1
        self._tokens += len(labels)

    def separate(self, text: str) -> None:
        """Mark the end of a file, so that sentences cannot move from one to the next unnoticed."""
        self._digest.update(text.encode())

    def __str__(self) -> str:
        return f"{self._sentences} sentences, {self._tokens} tokens, {_short(self._digest)}"


def data_fingerprint(data: Labelled) -> str:
    """The fingerprint of sentences with their labels, in their order."""
    digest = DataDigest()
    for item, labels in zip(data.inputs, data.labels, strict=True):
        digest.add(item, [_label(label) for label in labels] if data.partial else labels)
    return str(digest)


@dataclass(frozen=True, slots=True)
class SentenceSum:
    """A fingerprint of sentences in any order: those of several parts add up."""

    total: int = 0
    sentences: int = 0
    tokens: int = 0

    @classmethod
    def of(cls, data: Labelled, *, hashed: bool = True) -> SentenceSum:
        """The fingerprint of these sentences; if they are not `hashed`, only their number."""
        total = 0
        for item, labels in zip(data.inputs, data.labels, strict=True) if hashed else ():
            text = json.dumps([_input(item), list(map(_label, labels))], default=repr)
            total += int.from_bytes(_sha256(text.encode()).digest()[:8], "big")
        return cls(total, len(data.inputs), int(data.lengths.sum()))

    def __add__(self, other: SentenceSum) -> SentenceSum:
        return SentenceSum(self.total + other.total, self.sentences + other.sentences, self.tokens + other.tokens)

    def __str__(self) -> str:
        return f"{self.sentences} sentences, {self.tokens} tokens, {self.total % 2**64:016x}"


def training_fingerprints(
    data: Labelled, dev: Labelled | None, options: FitOptions, start: Arrays | None, *, ordered: bool
) -> dict[str, str | None]:
    """Fingerprints of everything that a training depends on besides settings, by what messages call it.

    `start` are the weights of a model that learns on. If the order of sentences does not matter, they may be those of
    several processes.
    """
    weights, lexicon = options.sentence_weights, options.lexicon
    if options.stream is not None:
        sentences = options.stream.fingerprint
    else:
        parts = [] if ordered else options.group.gather(SentenceSum.of(data))
        sentences = data_fingerprint(data) if ordered else str(sum(parts, SentenceSum()))
    return {
        "training data": sentences,
        "dev data": None if dev is None else data_fingerprint(dev),
        "sentence weights": None if weights is None else _short(_sha256(weights.tobytes())),
        "lexicon": None if lexicon is None else array_fingerprint(lexicon.to_stored()[1]),
        "weights of the model to start from": None if start is None else array_fingerprint(start),
    }


def array_fingerprint(arrays: Mapping[str, AnyArray]) -> str:
    """The fingerprint of arrays with their names, types and shapes."""
    digest = _sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode("utf-8", "surrogatepass"))
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return _short(digest)


def _input(item: Any) -> list[Any]:
    return [item.tokens, item.columns] if isinstance(item, Sentence) else list(item)


def _label(label: Label) -> str | Sequence[str] | None:
    return label if label is None or isinstance(label, str) else sorted(label)


def _short(digest: Any) -> str:
    text: str = digest.hexdigest()
    return text[:16]


def _sha256(data: bytes = b"") -> Any:
    import hashlib  # not needed to tag

    return hashlib.sha256(data)

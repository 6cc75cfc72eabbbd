"""`BulkTagger`: a model as a function of tables, for engines that move tables between machines."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trellis.chain import set_num_threads
from trellis.corpus.tables import arrow
from trellis.distributed.answers import Item, RowAnswers, answer_rows
from trellis.distributed.tables import (
    ERROR,
    OUTPUTS,
    NameTaken,
    arrow_type,
    check_columns,
    check_table,
    column_names,
    column_names_of,
    sentences_of,
    texts_of,
    with_answers,
)
from trellis.errors import ConfigError, DataError, ModelError, StoreError, TrellisError, did_you_mean
from trellis.models import Tagger, load
from trellis.models.folder import model_file
from trellis.tags import Scheme

_PYTHON_OPTION = "{0}="
"""How errors name a setting to those who call from Python only."""
OnBadRow = Literal["raise", "mark"]


@dataclass(frozen=True)
class BulkTagger:
    """A model that adds columns to tables; it is pickled as a path, and opened once in each process.

    It takes Arrow tables and record batches, pandas frames, and dicts of columns, and gives the same kind with more
    columns: ``tokens`` if the input was text, ``tags``, ``spans``, ``probabilities``. Rows keep their order.

    Args:
        path: a model folder or file, at this place on every machine.
        text: the column of raw texts; by default ``text``, unless there is a column ``tokens``.
        tokens: the column of token lists. Other columns of string lists as long as these are the model's columns.
        outputs: any of "tags", "spans" and "probabilities"; by default tags, and spans if the model finds spans.
        sentences: each text is a document: it is split into sentences, which are tagged one by one.
        batch_tokens: tokens that are answered at a time.
        on_error: at a row that cannot be tagged, "raise" an error that names it, or "mark": its answers are null, and
            the column ``error`` says why.
        prefix: stands before the names of all added columns.

    """

    path: str
    text: str | None = field(default=None, kw_only=True)
    tokens: str | None = field(default=None, kw_only=True)
    outputs: Sequence[str] | None = field(default=None, kw_only=True)
    sentences: bool = field(default=False, kw_only=True)
    batch_tokens: int = field(default=20_000, kw_only=True)
    on_error: OnBadRow = field(default="raise", kw_only=True)
    prefix: str = field(default="", kw_only=True)
    fingerprint: str = field(default="", kw_only=True)
    """The SHA-256 of the model's file, which every worker compares; that of the file as it is now if not given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))
        if self.text is not None and self.tokens is not None:
            raise ConfigError(f"text={self.text!r} and tokens={self.tokens!r}: give one of them")
        if self.sentences and self.tokens is not None:
            raise ConfigError("sentences splits raw texts, and tokens names a column of tokens: give one of them")
        if isinstance(self.batch_tokens, bool) or not isinstance(self.batch_tokens, int) or self.batch_tokens < 1:
            raise ConfigError(f"batch_tokens must be a whole number from 1 on, got {self.batch_tokens!r}")
        if self.on_error not in ("raise", "mark"):
            raise ConfigError(f"on_error must be 'raise' or 'mark', got {self.on_error!r}")
        if self.outputs is not None:
            if isinstance(self.outputs, str) or not self.outputs:
                raise ConfigError(f"outputs must be a list of some of {', '.join(OUTPUTS)}, got {self.outputs!r}")
            for name in self.outputs:
                if name not in OUTPUTS:
                    meant = did_you_mean(name, OUTPUTS)
                    raise ConfigError(f"unknown output {name!r}, expected some of {', '.join(OUTPUTS)}{meant}")
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", file_digest(model_file(self.path)))

    def __call__(self, table: Any) -> Any:
        """The table with the columns of answers."""
        answers, names = self.ask(table)
        if answers.refused and self.on_error == "raise":
            row = min(answers.refused)
            raise DataError(f"row {row}: {answers.refused[row]}")
        return with_answers(table, answers, names, self.prefix, scored=self.scored, errors=self.on_error == "mark")

    def on_one_core(self, table: Any) -> Any:
        """The same, for a worker process that has one core to itself: the model uses one thread from then on."""
        set_num_threads(1)
        return self(table)

    def ask(self, table: Any) -> tuple[RowAnswers, list[str]]:
        """The answers for the rows of a table, and the names of the columns that they make."""
        check_table(table)
        name, is_text = self._input(column_names_of(table))
        items = texts_of(table, name) if is_text else sentences_of(table, name)
        return self.answer(items), column_names(self.wanted, with_tokens=is_text)

    def answer(self, items: Sequence[Item | TrellisError]) -> RowAnswers:
        """The answers for texts or sentences."""
        return answer_rows(
            self.tagger,
            items,
            spans="spans" in self.wanted,
            probabilities=self.scored,
            sentences=self.sentences,
            batch_tokens=self.batch_tokens,
        )

    def schema(self, given: Any, option: str = _PYTHON_OPTION) -> Any:
        """The Arrow schema of the tables that it gives for tables of a schema; `option` is how errors call settings."""
        column, is_text = self._input(given.names, option)
        check_columns(given, column, is_text=is_text)
        pa, schema = arrow(), given
        for name in column_names(self.wanted, with_tokens=is_text):
            schema = schema.append(pa.field(self.prefix + name, arrow_type(name, scored=self.scored)))
        return schema.append(pa.field(self.prefix + ERROR, pa.string())) if self.on_error == "mark" else schema

    @property
    def tagger(self) -> Tagger[Any]:
        """The model, opened when this process first asks for it."""
        return _opened(self.path, self.fingerprint)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The outputs, with the default filled in: spans of a model whose tags stand alone say nothing more."""
        if self.outputs is not None:
            return tuple(self.outputs)
        return ("tags",) if self.tagger.tagset_.scheme is Scheme.PLAIN else ("tags", "spans")

    @property
    def scored(self) -> bool:
        """Whether probabilities are asked for."""
        return "probabilities" in self.wanted

    def _input(self, names: Sequence[str], option: str = _PYTHON_OPTION) -> tuple[str, bool]:
        """The column to be tagged, and whether it holds texts."""
        is_text = self.text is not None or (self.tokens is None and (self.sentences or "tokens" not in names))
        name = (self.text or "text") if is_text else (self.tokens or "tokens")
        if name not in names:
            expected = repr(name) if self.text or self.tokens else "'text' or 'tokens'"
            called = " or ".join(map(option.format, ("text", "tokens")))
            raise DataError(f"expected a column {expected}, found {', '.join(names) or 'none'}; name it with {called}")
        added = column_names(self.wanted, with_tokens=is_text)
        if self.on_error == "mark":
            added.append(ERROR)
        taken = next((self.prefix + new for new in added if self.prefix + new in names), None)
        if taken is not None:
            called = option.format("prefix")
            raise NameTaken(f"the table has a column {taken!r} already: give {called} for the names of new columns")
        return name, is_text


def file_digest(path: str | Path) -> str:
    """The SHA-256 of a file, as ``sha256sum`` prints it."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from None


_MOST_MODELS = 4
_models: OrderedDict[tuple[str, str], Tagger[Any]] = OrderedDict()
_opening = threading.Lock()


def _opened(path: str, expected: str) -> Tagger[Any]:
    """The model, opened when this process first asks for it; a file with another SHA-256 than expected is refused."""
    with _opening:
        if (path, expected) not in _models:
            found = file_digest(model_file(path))
            if found != expected:
                raise ModelError(
                    f"{path} is not the model that this run began with: expected the SHA-256 {expected[:16]}..., found "
                    f"{found[:16]}...; was it replaced, or is it another file on this machine?"
                )
            _models[path, expected] = load(path)
            while len(_models) > _MOST_MODELS:
                _models.popitem(last=False)
        _models.move_to_end((path, expected))
        return _models[path, expected]

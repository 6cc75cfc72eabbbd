"""`BulkTagger`: a model as a function of tables, for engines that move tables between machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from trellis.chain import set_num_threads
from trellis.corpus.tables import arrow
from trellis.distributed.answering import Answered, Item, Wanted, answer
from trellis.distributed.columns import ERROR, OUTPUTS, PYTHON_OPTION, NameTaken, arrow_type, column_names
from trellis.distributed.opening import fingerprint, opened
from trellis.distributed.tables import check_columns, check_table, column_names_of, sentences_of, texts_of, with_answers
from trellis.errors import ConfigError, DataError, TrellisError, did_you_mean
from trellis.models import Tagger
from trellis.tags import Scheme

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
        self._check()
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", fingerprint(self.path))

    def _check(self) -> None:
        if self.text is not None and self.tokens is not None:
            raise ConfigError(f"text={self.text!r} and tokens={self.tokens!r}: give one of them")
        if self.sentences and self.tokens is not None:
            raise ConfigError("sentences splits raw texts, and tokens names a column of tokens: give one of them")
        if isinstance(self.batch_tokens, bool) or not isinstance(self.batch_tokens, int) or self.batch_tokens < 1:
            raise ConfigError(f"batch_tokens must be a whole number from 1 on, got {self.batch_tokens!r}")
        if self.on_error not in ("raise", "mark"):
            raise ConfigError(f"on_error must be 'raise' or 'mark', got {self.on_error!r}")
        if self.outputs is not None:
            check_outputs(self.outputs)

    def __call__(self, table: Any) -> Any:
        """The table with the columns of answers."""
        answered, names = self.ask(table)
        if answered.refused and self.on_error == "raise":
            row = min(answered.refused)
            raise DataError(f"row {row}: {answered.refused[row]}")
        return with_answers(table, answered, names, self.prefix, scored=self.scored, errors=self.on_error == "mark")

    def on_one_core(self, table: Any) -> Any:
        """The same, for a worker process that has one core to itself: the model uses one thread from then on."""
        set_num_threads(1)
        return self(table)

    def ask(self, table: Any) -> tuple[Answered, list[str]]:
        """The answers for the rows of a table, and the names of the columns that they make."""
        check_table(table)
        name, is_text = self._input(column_names_of(table))
        items = texts_of(table, name) if is_text else sentences_of(table, name)
        return self.answer(items), column_names(self.wanted, with_tokens=is_text)

    def answer(self, items: Sequence[Item | TrellisError]) -> Answered:
        """The answers for texts or sentences."""
        question = Wanted("spans" in self.wanted, self.scored, self.sentences, self.batch_tokens)
        return answer(self.tagger, items, question)

    def schema(self, given: Any, option: str = PYTHON_OPTION) -> Any:
        """The Arrow schema of the tables that it gives for tables of a schema; `option` is how errors call settings."""
        own, is_text = self._input(given.names, option)
        check_columns(given, own, is_text=is_text)
        pa, schema = arrow(), given
        for name in column_names(self.wanted, with_tokens=is_text):
            schema = schema.append(pa.field(self.prefix + name, arrow_type(name, scored=self.scored)))
        return schema.append(pa.field(self.prefix + ERROR, pa.string())) if self.on_error == "mark" else schema

    @property
    def tagger(self) -> Tagger[Any]:
        """The model, opened when this process first asks for it."""
        return opened(self.path, self.fingerprint)

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

    def _input(self, names: Sequence[str], option: str = PYTHON_OPTION) -> tuple[str, bool]:
        """The column to be tagged, and whether it holds texts."""
        is_text = self.text is not None or (self.tokens is None and (self.sentences or "tokens" not in names))
        name = (self.text or "text") if is_text else (self.tokens or "tokens")
        if name not in names:
            expected = repr(name) if self.text or self.tokens else "'text' or 'tokens'"
            called = " or ".join(map(option.format, ("text", "tokens")))
            raise DataError(f"expected a column {expected}, found {', '.join(names) or 'none'}; name it with {called}")
        added = column_names(self.wanted, with_tokens=is_text)
        taken = next((self.prefix + own for own in (*added, ERROR) if self.prefix + own in names), None)
        if taken is not None and (taken != self.prefix + ERROR or self.on_error == "mark"):
            called = option.format("prefix")
            raise NameTaken(f"the table has a column {taken!r} already: give {called} for the names of new columns")
        return name, is_text


def check_outputs(outputs: Sequence[str]) -> None:
    """Refuse a name that is not an output, and none at all."""
    if isinstance(outputs, str) or not outputs:
        raise ConfigError(f"outputs must be a list of some of {', '.join(OUTPUTS)}, got {outputs!r}")
    for name in outputs:
        if name not in OUTPUTS:
            raise ConfigError(
                f"unknown output {name!r}, expected some of {', '.join(OUTPUTS)}{did_you_mean(name, OUTPUTS)}"
            )

"""``trellis eval``: a model against the right tags."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from trellis.cli.io import Reader, remembered_options, tell_notes, tell_reading
from trellis.cli.options import (
    Annotations,
    Columns,
    Figures,
    FormatOption,
    ModelArgument,
    QuietOption,
    TaskOption,
    check_order,
)
from trellis.cli.score import judge, show
from trellis.cli.tasks import Setting, Task, find_setting, in_scheme, vocabulary
from trellis.corpus import OnBadTags
from trellis.errors import DataError, number_of, shown
from trellis.models import Tagger, folder, load
from trellis.models.data import unseen_labels
from trellis.text import Sentence, Splitter, splitter

_OTHER_TOKENS = 0.01
"""The share of tokens that a model may split differently from a file without a note."""


def evaluate(
    model: ModelArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File with the right tags; - is standard input.")],
    task: TaskOption = None,
    figures: Figures = Figures(),
    format: FormatOption = None,
    columns: Columns = Columns(),
    annotations: Annotations = Annotations(),
    quiet: QuietOption = False,
) -> None:
    """Tag a file with a model and score the result against the tags it has.

    The task is the one the model was trained for: spans, words of segmented text, or one tag per token.

    \b
    Examples:
      trellis eval model test.conll
      trellis eval model test.conll --errors --interval
      trellis eval seg-model test.seg --train train.seg --json
    """  # noqa: D301 - \b tells click to keep the lines
    check_order(model, [file])
    tagger = load(model)
    setting = model_setting(tagger, model, task)
    remembered = remembered_options(model)
    tokenizer, scheme = splitter(tagger.tokenizer_), setting.scheme.value
    reader = Reader(format, columns.encoding, columns.given, scheme, tokenizer, remembered, annotations.spans)
    how, known = annotations.bad_tags, tagger.labels_
    truth = _tagged(reader, file, setting, how, quiet)
    unseen = unseen_labels(file, (one.tags or () for one in truth), known)
    if not quiet:
        tell_notes(file, unseen)
        if setting.task not in (Task.SEG, Task.SEG_POS) and (note := split_differently(truth, tokenizer)):
            tell_notes(file, [note])
    seen = None
    if figures.train is not None:
        seen = vocabulary(_tagged(reader, figures.train, setting, how, quiet), setting)
    show(judge(truth, tagger.tag(truth), setting, figures, seen), setting, figures)


def model_setting(tagger: Tagger[Any], path: str, task: Task | None = None) -> Setting:
    """How the tags of a model are read: as its record says, or as its labels look."""
    known = folder.read_record(path).get("task")
    if task is None and known is not None:
        if known not in list(Task):
            problem = f"the record of its training has the task {shown(known)}, expected {', '.join(Task)}"
            raise DataError(f"{path}: {problem}: give --task")
        task = Task(known)
    scheme, style = tagger.tagset_.scheme, tagger.tagset_.style
    if task is None:
        task = find_setting(None, scheme.value, [Sentence(tagger.labels_, tagger.labels_)]).task
    return Setting(task, scheme, style)


def split_differently(sentences: list[Sentence], tokenizer: Splitter) -> str | None:
    """A note if a model splits the texts of a file into other tokens than the file has; their tags may suffer."""
    tokens = Counter(token for sentence in sentences for token in sentence.tokens)
    pieces = {token: tokenizer.split(token) for token in tokens}
    other = Counter({token: count for token, count in tokens.items() if len(pieces[token]) > 1})
    joined: Counter[str] = Counter()  # tokens of the model that the file splits
    for sentence in sentences:
        if sentence.text is not None and sentence.offsets is not None:
            starts = {start for start, _ in sentence.offsets}
            made = tokenizer.sentence(sentence.text)
            for token, (start, end) in zip(made.tokens, made.offsets or (), strict=True):
                joined[token] += not starts.isdisjoint(range(start + 1, end))
    if other.total() + joined.total() <= _OTHER_TOKENS * tokens.total():
        return None
    examples = [f"{shown(token)} as {' '.join(pieces[token])}" for token, _ in other.most_common(3)]
    examples += [f"{shown(token)} as one token" for token, _ in joined.most_common(3)]
    count = f"{number_of(other.total() + joined.total(), 'token')} of {tokens.total():,}"
    return f"the model splits raw text differently from this file, {count}: {', '.join(examples)}"


def _tagged(reader: Reader, path: str, setting: Setting, how: OnBadTags, quiet: bool) -> list[Sentence]:
    data = reader.read(path)
    tell_reading(path, data.report, given=reader.format is not None, quiet=quiet)
    if not data.sentences:
        raise DataError(f"{path}: there is no sentence to score")
    mended, notes = in_scheme(data.sentences, setting, how)
    if not quiet:
        tell_notes(path, notes)
    if not mended:
        raise DataError(f"{path}: there is no sentence left to score")
    return mended

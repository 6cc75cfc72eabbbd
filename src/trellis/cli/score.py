"""``trellis score``: compare predicted tags with gold tags."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from trellis import metrics
from trellis.cli.io import Reader, output, tell_reading
from trellis.cli.options import Columns, Figures, FormatOption, QuietOption, SchemeOption, TaskOption
from trellis.cli.tasks import Setting, Task, counts, find_setting, mistakes, scores, vocabulary
from trellis.errors import DataError, number_of, shown
from trellis.text import Sentence


def score(
    gold: Annotated[str, typer.Argument(help="File with the right tags; - is standard input.")],
    pred: Annotated[str, typer.Argument(help="File with the predicted tags, for the same tokens.")],
    task: TaskOption = None,
    scheme: SchemeOption = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Count only well-formed spans, as seqeval's strict mode.")
    ] = False,
    versus: Annotated[str | None, typer.Option(help="Predictions of a second system: is it better than PRED?")] = None,
    figures: Figures = Figures(),
    format: FormatOption = None,
    columns: Columns = Columns(),
    quiet: QuietOption = False,
) -> None:
    """Score predicted tags against gold tags.

    [bold]ner[/bold] gives precision, recall and F1 of spans as conlleval and seqeval do; [bold]seg[/bold] those
    of words as the SIGHAN scorer does, each file either segmented text or tagged characters; [bold]seg-pos[/bold]
    those of words and of words with their tags; [bold]pos[/bold] gives accuracy overall and for each tag.

    \b
    Examples:
      trellis score test.conll predicted.conll
      trellis score test.conll predicted.conll --scheme bioes --strict --errors --interval
      trellis score gold.txt segmented.txt --task seg --train train.txt
      trellis score test.conllu tagged.conllu --task pos --train train.conllu --json
      trellis score test.conll old.conll --versus new.conll
    """  # noqa: D301 - \b tells click to keep the lines
    reader = Reader(format, columns.encoding, columns.given)
    truth, system = _read(reader, gold, quiet), _read(reader, pred, quiet)
    setting = find_setting(task, scheme, truth, strict=strict)
    _check_tokens(truth, system, setting)
    seen = None if figures.train is None else vocabulary(_read(reader, figures.train, quiet), setting)
    results = judge(truth, system, setting, figures, seen)
    if versus is not None:
        rival = _read(reader, versus, quiet)
        _check_tokens(truth, rival, setting)
        (first, statistic), (second, _) = (counts(truth, side, setting) for side in (system, rival))
        results["versus"] = metrics.paired_significance(first, second, statistic)
    show(results, setting, figures)


def judge(
    truth: list[Sentence], system: list[Sentence], setting: Setting, figures: Figures, seen: set[str] | None
) -> dict[str, metrics.Report]:
    results = {"scores": scores(truth, system, setting, seen)}
    if figures.errors:
        results["errors"] = mistakes(truth, system, setting)
    if figures.interval:
        results["interval"] = metrics.bootstrap_interval(*counts(truth, system, setting))
    return results


def _read(reader: Reader, path: str, quiet: bool) -> list[Sentence]:
    data = reader.read(path)
    tell_reading(path, data.report, given=reader.format is not None, quiet=quiet)
    return data.sentences


def _check_tokens(gold: list[Sentence], predicted: list[Sentence], setting: Setting) -> None:
    """Refuse a prediction for other tokens; for segmentation the metric itself compares the texts."""
    if setting.task in (Task.SEG, Task.SEG_POS):
        return
    if len(gold) != len(predicted):
        raise DataError(
            f"gold has {number_of(len(gold), 'sentence')}, predicted has {len(predicted)}: expected the same number"
        )
    for right, guess in zip(gold, predicted, strict=True):
        if right.tokens != guess.tokens:
            raise DataError(
                f"{guess.where}: other tokens than {right.where} has: "
                f"expected {shown(' '.join(right.tokens))}, got {shown(' '.join(guess.tokens))}"
            )


def show(results: dict[str, metrics.Report], setting: Setting, figures: Figures) -> None:
    """Write the results as JSON, Markdown or tables."""
    if figures.json:
        how = {"task": setting.task.value, "scheme": setting.scheme.value, "strict": setting.strict}
        values = {name: report.to_dict() for name, report in results.items()}
        typer.echo(json.dumps(how | values, ensure_ascii=False, indent=2))
    elif figures.markdown:
        grids = [report.grid() for report in results.values()]
        typer.echo("\n\n".join(f"{grid.title}\n\n{grid.to_markdown()}" for grid in grids))
    else:
        console = output()
        console.print(f"Read as {setting.task}, scheme {setting.scheme.value}.")
        for report in results.values():
            console.print(report.to_rich())

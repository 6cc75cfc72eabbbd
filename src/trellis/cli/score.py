"""``trellis score``: compare predicted tags with gold tags."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from trellis import metrics, tags
from trellis.errors import ConfigError, DataError

if TYPE_CHECKING:
    from trellis.text import Sentence

Units = list[list[str]]


class Task(enum.StrEnum):
    """What the tags say."""

    NER = "ner"
    SEG = "seg"
    POS = "pos"


class Output(enum.StrEnum):
    """How the answer is written."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


def score(
    gold: Annotated[str, typer.Argument(help="File with the right tags; - is standard input.")],
    pred: Annotated[str, typer.Argument(help="File with the predicted tags, for the same tokens.")],
    task: Annotated[
        Task | None, typer.Option(help="Spans, word segmentation or one tag a token; guessed unless given.")
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(help="Scheme of the tags: bio, bioes, bmes, iob1... Detected unless given.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Count only well-formed spans, as seqeval's strict mode.")
    ] = False,
    train: Annotated[
        str | None, typer.Option(help="Training file, for recall or accuracy of known and unknown words.")
    ] = None,
    versus: Annotated[str | None, typer.Option(help="Predictions of a second system: is it better than PRED?")] = None,
    format: Annotated[
        str | None, typer.Option(help="Format of the files; guessed from name and content unless given.")
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Also count the kinds of mistakes.")] = False,
    interval: Annotated[
        bool, typer.Option("--interval", help="Also give a 95% bootstrap interval of the main figure.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of tables.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write Markdown tables.")] = False,
) -> None:
    """Score predicted tags against gold tags.

    [bold]ner[/bold] gives precision, recall and F1 of spans as conlleval and seqeval do; [bold]seg[/bold] those
    of words as the SIGHAN scorer does, each file either segmented text or tagged characters; [bold]pos[/bold]
    gives accuracy overall and for each tag.

    For example:

      trellis score test.conll predicted.conll

      trellis score test.conll predicted.conll --scheme bioes --strict --errors --interval

      trellis score gold.txt segmented.txt --task seg --train train.txt

      trellis score test.conllu tagged.conllu --task pos --train train.conllu --json

      trellis score test.conll old.conll --versus new.conll
    """
    truth, system = _read(gold, format), _read(pred, format)
    setting = _setting(task, scheme, strict, truth)
    right, guessed = _units(truth, setting), _units(system, setting)
    _check_tokens(truth, system, setting)
    seen = None if train is None else _vocabulary(_read(train, format), setting)
    results = {"scores": _scores(right, guessed, truth, seen, setting)}
    if errors:
        results["errors"] = _mistakes(right, guessed, setting)
    if interval:
        counts, statistic = _counts(right, guessed, setting)
        results["interval"] = metrics.bootstrap_interval(counts, statistic)
    if versus is not None:
        rival = _read(versus, format)
        _check_tokens(truth, rival, setting)
        results["versus"] = _compare(right, guessed, _units(rival, setting), setting)
    _show(results, setting, Output.JSON if as_json else Output.MARKDOWN if markdown else Output.TABLE)


class _Reading(TypedDict):
    scheme: tags.Scheme
    style: tags.Style
    strict: bool


@dataclass(frozen=True)
class _Setting:
    """How the tags are read."""

    task: Task
    scheme: tags.Scheme
    style: tags.Style
    strict: bool

    @property
    def reading(self) -> _Reading:
        """The options of the functions that read spans."""
        return {"scheme": self.scheme, "style": self.style, "strict": self.strict}


def _read(path: str, format: str | None) -> list[Sentence]:
    from trellis.corpus import read

    return read(path, format=format).sentences


def _setting(task: Task | None, scheme: str | None, strict: bool, gold: list[Sentence]) -> _Setting:
    """What was asked for, and for the rest what fits the gold tags best."""
    sequences = [sentence.tags for sentence in gold if sentence.tags]
    fit = tags.fit_schemes(sequences)[0]
    chosen = fit.scheme if scheme is None else tags.Scheme.parse(scheme)
    if task is None:
        bare = all(len(label) == 1 and label != "O" for labels in sequences for label in labels)
        task = Task.POS if chosen is tags.Scheme.PLAIN else Task.SEG if bare else Task.NER
    if task is Task.NER and chosen is tags.Scheme.PLAIN:
        raise DataError("the gold tags fit no span scheme: give --scheme, or --task pos for one tag a token")
    return _Setting(task, chosen, fit.style, strict)


def _units(sentences: list[Sentence], setting: _Setting) -> Units:
    """What is compared: the words of each sentence for segmentation, its tags otherwise."""
    from trellis.corpus import words_from_sentence

    if setting.task is Task.SEG:
        plain = setting.scheme is tags.Scheme.PLAIN
        return [
            list(sentence.tokens)
            if plain or sentence.tags is None
            else words_from_sentence(sentence, scheme=setting.scheme)
            for sentence in sentences
        ]
    return [_tags(sentence) for sentence in sentences]


def _tags(sentence: Sentence) -> list[str]:
    if sentence.tags is None:
        raise DataError(f"{sentence.where}: the sentence has no tags to score")
    return list(sentence.tags)


def _check_tokens(gold: list[Sentence], predicted: list[Sentence], setting: _Setting) -> None:
    """Refuse a prediction for other tokens; for segmentation the metric itself compares the texts."""
    if setting.task is Task.SEG:
        return
    if len(gold) != len(predicted):
        raise DataError(f"gold has {len(gold)} sentences, predicted has {len(predicted)}: expected as many")
    for right, guess in zip(gold, predicted, strict=True):
        if right.tokens != guess.tokens:
            raise DataError(
                f"{guess.where}: other tokens than {right.where} has: "
                f"expected {' '.join(right.tokens)!r}, got {' '.join(guess.tokens)!r}"
            )


def _vocabulary(train: list[Sentence], setting: _Setting) -> set[str]:
    if setting.task is Task.SEG:
        return set().union(*_units(train, setting))
    return {token for sentence in train for token in sentence.tokens}


def _scores(
    gold: Units, predicted: Units, truth: list[Sentence], seen: set[str] | None, setting: _Setting
) -> metrics.Report:
    if setting.task is Task.SEG:
        return metrics.segmentation_scores(gold, predicted, vocabulary=seen)
    if setting.task is Task.POS:
        tokens = [sentence.tokens for sentence in truth]
        return metrics.tagging_scores(gold, predicted, tokens=tokens, vocabulary=seen)
    return metrics.entity_scores(gold, predicted, **setting.reading)


def _counts(gold: Units, predicted: Units, setting: _Setting) -> tuple[metrics.IntArray, metrics.Statistic]:
    """Counts a sentence, and the figure the task is judged by."""
    if setting.task is Task.SEG:
        return metrics.segmentation_counts(gold, predicted), metrics.f1
    if setting.task is Task.POS:
        return metrics.token_counts(gold, predicted), metrics.accuracy
    return metrics.entity_counts(gold, predicted, **setting.reading), metrics.f1


def _mistakes(gold: Units, predicted: Units, setting: _Setting) -> metrics.Report:
    if setting.task is not Task.NER:
        raise ConfigError(f"--errors names mistakes about spans, and the task is {setting.task}")
    return metrics.entity_errors(gold, predicted, **setting.reading)


def _compare(gold: Units, first: Units, second: Units, setting: _Setting) -> metrics.Report:
    (before, statistic), (after, _) = (_counts(gold, side, setting) for side in (first, second))
    return metrics.paired_significance(before, after, statistic)


def _show(results: dict[str, metrics.Report], setting: _Setting, output: Output) -> None:
    if output is Output.JSON:
        how = {"task": setting.task.value, "scheme": setting.scheme.value, "strict": setting.strict}
        figures = {name: report.to_dict() for name, report in results.items()}
        typer.echo(json.dumps(how | figures, ensure_ascii=False, indent=2))
    elif output is Output.MARKDOWN:
        grids = [report.grid() for report in results.values()]
        typer.echo("\n\n".join(f"{grid.title}\n\n{grid.to_markdown()}" for grid in grids))
    else:
        from rich.console import Console

        console = Console()
        console.print(f"Read as {setting.task}, scheme {setting.scheme.value}.")
        for report in results.values():
            console.print(report.to_rich())

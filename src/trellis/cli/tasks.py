"""What the tags are for, and what follows from it: how data is prepared, which settings fit, which figures count."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypedDict

from trellis import metrics
from trellis.corpus import OnBadTags, mend_tags, sentence_from_words, to_characters, to_words, words_from_sentence
from trellis.errors import ConfigError, DataError, some_of
from trellis.models.data import are_characters
from trellis.tags import Detection, Scheme, Style, convert_tags, detect
from trellis.tags.detection import MOST_ODD, respelled
from trellis.tags.scheme import ALL_LETTERS
from trellis.text import Sentence

Units = list[list[str]]
TaggedWords = list[list[tuple[str, str]]]


class Task(enum.StrEnum):
    """The kinds of tags: names, words, parts of speech, chunks, words with parts of speech."""

    NER = "ner"
    SEG = "seg"
    POS = "pos"
    CHUNK = "chunk"
    SEG_POS = "seg-pos"


FEATURES = {Task.NER: "ner", Task.SEG: "seg", Task.POS: "pos", Task.CHUNK: "chunk", Task.SEG_POS: "seg"}
"""The template set of a feature CRF for each task."""


_CHUNKS = frozenset(
    "NP VP PP ADVP ADJP SBAR PRT CONJP INTJ LST UCP NX QP WHNP WHPP WHADVP WHADJP PNP VC".split()  # noqa: SIM905
)
"""Types of phrases, which are chunks and not names."""


class _Reading(TypedDict):
    scheme: Scheme
    style: Style
    strict: bool


@dataclass(frozen=True)
class Setting:
    task: Task
    scheme: Scheme
    style: Style
    strict: bool = False
    detection: Detection | None = None
    """What was detected in the tags from which this setting was made."""

    @property
    def reading(self) -> _Reading:
        return {"scheme": self.scheme, "style": self.style, "strict": self.strict}


def find_setting(
    task: Task | None, scheme: str | None, sentences: Iterable[Sentence], *, strict: bool = False
) -> Setting:
    """Task and scheme as they were given; if not, those that fit the tags best."""
    sentences = list(sentences)
    asked = None if scheme is None else Scheme.parse(scheme)
    if task is Task.SEG_POS and not _is_joint(sentences):
        if asked in (Scheme.PLAIN, Scheme.IO):
            raise ConfigError(f"--scheme {scheme} does not say where words begin and end: expected bmes, bioes, bio...")
        return Setting(task, asked or Scheme.BMES, Style.PREFIX, strict)
    sequences = [sentence.tags for sentence in sentences if sentence.tags]
    fit = detect(sequences, scheme=asked)
    chosen = fit.scheme
    if task is None:
        labels = {label for tags in sequences for label in tags} - set(fit.odd)
        bare = not sequences or (bool(labels) and all(len(label) == 1 and label != "O" for label in labels))
        task = Task.POS if chosen is Scheme.PLAIN else Task.SEG if bare else Task.NER
        kinds = {label.partition("-")[2].upper() for label in labels} - {""}
        task = Task.CHUNK if task is Task.NER and {"NP", "VP"} <= kinds <= _CHUNKS else task
    if task in (Task.NER, Task.CHUNK) and chosen is Scheme.PLAIN:
        raise DataError("the tags fit no span scheme: give --scheme, or --task pos for one tag per token")
    if asked is None and task is Task.POS:
        chosen = Scheme.PLAIN
    elif asked is None and (
        (task is Task.SEG_POS and detect(sequences, scheme=Scheme.BMES).is_clean)
        or (task is Task.SEG and _are_letters(sequences, Scheme.BMES.letters))
    ):
        chosen = Scheme.BMES  # without long words, BIOES fits as well
    return Setting(task, chosen, fit.style, strict, fit)


def training_setting(task: Task | None, scheme: str | None, sentences: list[Sentence]) -> Setting:
    """Like `find_setting`; for segmentation with whole words as tokens, the scheme is BMES unless one is given."""
    if task is not Task.SEG or is_spelled(sentences):
        return find_setting(task, scheme, sentences)
    return Setting(task, Scheme.BMES if scheme is None else Scheme.parse(scheme), Style.PREFIX)


def _is_joint(sentences: list[Sentence]) -> bool:
    """Whether the tokens are characters and the tags say where words begin and end, and what they are."""
    tagged = [sentence for sentence in sentences if sentence.tags]
    if not tagged or not are_characters(tagged):
        return False
    labels = {respelled(tag) or "" for sentence in tagged for tag in sentence.tags or ()}
    return all(len(label) > 1 for label in labels)


def is_spelled(sentences: list[Sentence]) -> bool:
    """Whether the tags are bare letters, which say where words begin and end."""
    return any(s.tags for s in sentences) and _are_letters([s.tags or () for s in sentences], ALL_LETTERS)


def _are_letters(sequences: Iterable[Sequence[str]], letters: Container[str]) -> bool:
    tags = Counter(tag for tags in sequences for tag in tags)
    bare = sum(count for tag, count in tags.items() if (respelled(tag) or tag) in letters)
    return bare >= (1 - MOST_ODD) * tags.total()


def in_scheme(
    sentences: list[Sentence], setting: Setting, how: OnBadTags, detection: Detection | None = None
) -> tuple[list[Sentence], list[str]]:
    """Sentences with the right tags in the scheme of a model, and what was done for it.

    The scheme that they have is detected unless the detection is given.
    """
    if setting.task is Task.SEG_POS and not _is_joint(sentences):
        if is_spelled(sentences) and are_characters(sentences):  # of segmented text
            raise DataError(
                f"{sentences[0].where}: the words have no tags, which --task seg-pos learns: expected word/TAG or "
                "CoNLL-U; for words alone, give --task seg"
            )
        return [to_characters(sentence, scheme=setting.scheme) for sentence in sentences], []
    if setting.scheme is Scheme.PLAIN:
        return [sentence.with_tags(tags_of(sentence)) for sentence in sentences], []
    if setting.task is not Task.SEG:
        for sentence in sentences:
            tags_of(sentence)
    sequences = [sentence.tags for sentence in sentences if sentence.tags is not None]
    fit = detection or detect(sequences, scheme=setting.scheme, style=setting.style)
    if fit.scheme is not setting.scheme or fit.spelling or not fit.is_clean:
        best = detect(sequences)
        fit = fit if detection is not None and best.scheme is Scheme.PLAIN else best
    mended = mend_tags(sentences, on_bad_tags=how, detection=fit)
    sentences = mended.sentences
    if setting.task is Task.SEG:
        if not is_spelled(sentences):  # the tokens are the words
            if fit.scheme is not Scheme.PLAIN and (labels := sorted(set(chain.from_iterable(sequences)))):
                told = f"the tokens are the right words, and the labels {some_of(labels)} count for nothing"
                mended.notes.append(told)
            sentences = [
                sentence_from_words(one.tokens, scheme=setting.scheme, path=one.path, line=one.line_of(0))
                for one in sentences
            ]
    elif fit.scheme is not Scheme.PLAIN and (fit.scheme, fit.style) != (setting.scheme, setting.style):

        def converted(tags: list[str]) -> list[str]:
            return convert_tags(tags, fit.scheme, setting.scheme, style=fit.style, target_style=setting.style)

        sentences = [sentence.with_tags(converted(tags_of(sentence))) for sentence in sentences]
    return sentences, mended.notes


def units(sentences: list[Sentence], setting: Setting) -> Units:
    """The units of each sentence that are compared: its words for segmentation, its tags otherwise."""
    if setting.task is not Task.SEG:
        return [tags_of(sentence) for sentence in sentences]
    plain = setting.scheme is Scheme.PLAIN
    return [
        list(sentence.tokens)
        if plain or sentence.tags is None
        else words_from_sentence(sentence, scheme=setting.scheme)
        for sentence in sentences
    ]


def tagged_words(sentences: list[Sentence], setting: Setting) -> TaggedWords:
    """The words of each sentence with their tags, from tagged words or from tagged characters."""
    if _is_joint(sentences):
        sentences = [to_words(sentence, scheme=setting.scheme, style=setting.style) for sentence in sentences]
    return [list(zip(sentence.tokens, tags_of(sentence), strict=True)) for sentence in sentences]


def tags_of(sentence: Sentence) -> list[str]:
    """The tags, which must exist."""
    if sentence.tags is None:
        raise DataError(f"{sentence.where}: the sentence has no tags to score")
    return list(sentence.tags)


def vocabulary(train: list[Sentence], setting: Setting) -> set[str]:
    if setting.task is Task.SEG:
        return set().union(*units(train, setting))
    if setting.task is Task.SEG_POS:
        return {word for sentence in tagged_words(train, setting) for word, _ in sentence}
    return {token for sentence in train for token in sentence.tokens}


def scores(
    gold: list[Sentence], predicted: list[Sentence], setting: Setting, seen: set[str] | None = None
) -> metrics.Report:
    """The figures that the field reports for the task."""
    if setting.task is Task.SEG_POS:
        both = (tagged_words(side, setting) for side in (gold, predicted))
        return metrics.joint_scores(*both, vocabulary=seen)
    right, guessed = units(gold, setting), units(predicted, setting)
    if setting.task is Task.SEG:
        return metrics.segmentation_scores(right, guessed, vocabulary=seen)
    if setting.task is Task.POS:
        tokens = [sentence.tokens for sentence in gold]
        return metrics.tagging_scores(right, guessed, tokens=tokens, vocabulary=seen)
    return metrics.entity_scores(right, guessed, **setting.reading)


def counts(
    gold: list[Sentence], predicted: list[Sentence], setting: Setting
) -> tuple[metrics.IntArray, metrics.Statistic]:
    """Counts per sentence, and the figure that the task is judged by."""
    if setting.task is Task.SEG_POS:
        return metrics.joint_counts(*(tagged_words(side, setting) for side in (gold, predicted))), metrics.f1
    right, guessed = units(gold, setting), units(predicted, setting)
    if setting.task is Task.SEG:
        return metrics.segmentation_counts(right, guessed), metrics.f1
    if setting.task is Task.POS:
        return metrics.token_counts(right, guessed), metrics.accuracy
    return metrics.entity_counts(right, guessed, **setting.reading), metrics.f1


def mistakes(gold: list[Sentence], predicted: list[Sentence], setting: Setting) -> metrics.Report:
    """The kinds of mistakes about spans."""
    if setting.task not in (Task.NER, Task.CHUNK):
        raise ConfigError(f"--errors names mistakes about spans, and the task is {setting.task}")
    return metrics.entity_errors(units(gold, setting), units(predicted, setting), **setting.reading)


def headline(report: metrics.Report) -> dict[str, float]:
    """The few figures that people look at, by name."""
    figures: dict[str, float | None]
    match report:
        case metrics.EntityScores(micro=score) | metrics.SegmentationScores(words=score):
            figures = {"precision": score.precision, "recall": score.recall, "F1": score.f1}
            figures["OOV recall"] = getattr(report, "oov_recall", None)
        case metrics.JointScores(words=words):
            figures = {"segmentation F1": words.words.f1, "joint F1": report.tagged.f1, "OOV recall": words.oov_recall}
        case metrics.TaggingScores():
            figures = {"accuracy": report.accuracy, "unknown words": report.unknown_accuracy}
        case _:
            raise AssertionError(f"no figures for {type(report).__name__}")
    return {name: value for name, value in figures.items() if value is not None}

"""What the tags are for, and what follows from it: how data is prepared, which settings fit, which figures count."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from trellis import metrics
from trellis.corpus import OnBadTags, mend_tags, sentence_from_words, to_characters, to_words, words_from_sentence
from trellis.errors import ConfigError, DataError
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


class _Reading(TypedDict):
    scheme: Scheme
    style: Style
    strict: bool


@dataclass(frozen=True)
class Setting:
    """How tags are read."""

    task: Task
    scheme: Scheme
    style: Style
    strict: bool = False
    found: Detection | None = None
    """What was detected in the tags from which this setting was made."""

    @property
    def reading(self) -> _Reading:
        """The options of the functions that read spans."""
        return {"scheme": self.scheme, "style": self.style, "strict": self.strict}


def find_setting(
    task: Task | None, scheme: str | None, sentences: Iterable[Sentence], *, strict: bool = False
) -> Setting:
    """Task and scheme as they were given; if not, those that fit the tags best."""
    sentences = list(sentences)
    if task is Task.SEG_POS and not _is_joint(sentences):
        return Setting(task, Scheme.BMES if scheme is None else _of_words(scheme), Style.PREFIX, strict)
    sequences = [sentence.tags for sentence in sentences if sentence.tags]
    fit = detect(sequences, scheme=None if scheme is None else Scheme.parse(scheme))
    chosen = fit.scheme
    if task is None:
        read = {label for labels in sequences for label in labels} - set(fit.odd)
        bare = not sequences or (bool(read) and all(len(label) == 1 and label != "O" for label in read))
        task = Task.POS if chosen is Scheme.PLAIN else Task.SEG if bare else Task.NER
    if task in (Task.NER, Task.CHUNK) and chosen is Scheme.PLAIN:
        raise DataError("the tags fit no span scheme: give --scheme, or --task pos for one tag per token")
    if task is Task.POS and scheme is None:
        chosen = Scheme.PLAIN
    if task is Task.SEG_POS and scheme is None and detect(sequences, scheme=Scheme.BMES).is_clean:
        chosen = Scheme.BMES  # without long words, BIOES fits as well
    if task is Task.SEG and scheme is None and _are_letters(sequences, Scheme.BMES):
        chosen = Scheme.BMES  # without long words, BIOES fits as well
    return Setting(task, chosen, fit.style, strict, fit)


def training_setting(task: Task | None, scheme: str | None, sentences: list[Sentence]) -> Setting:
    """Like `find_setting`; for segmentation with whole words as tokens, the scheme is BMES unless one is given."""
    if task is not Task.SEG or is_spelled(sentences):
        return find_setting(task, scheme, sentences)
    return Setting(task, Scheme.BMES if scheme is None else Scheme.parse(scheme), Style.PREFIX)


def _of_words(name: str) -> Scheme:
    """A scheme in which characters can be tagged with their places in words."""
    scheme = Scheme.parse(name)
    if scheme in (Scheme.PLAIN, Scheme.IO):
        raise ConfigError(f"--scheme {name} does not say where words begin and end: expected bmes, bioes, bio...")
    return scheme


def _is_joint(sentences: list[Sentence]) -> bool:
    """Whether the tokens are characters and the tags say where words begin and end, and what they are."""
    tagged = [sentence for sentence in sentences if sentence.tags]
    if not tagged or not are_characters(tagged):
        return False
    labels = {respelled(tag) or "" for sentence in tagged for tag in sentence.tags or ()}
    return all(len(label) > 1 for label in labels)


def _refuse_bare(sentences: list[Sentence]) -> None:
    """Segmented text says nothing about its words but where they are."""
    if is_spelled(sentences) and are_characters(sentences):
        raise DataError(
            f"{sentences[0].where}: the words have no tags, which --task seg-pos learns: expected word/TAG or CoNLL-U; "
            "for words alone, give --task seg"
        )


def characters(sentences: list[Sentence], scheme: Scheme) -> list[Sentence]:
    """The sentences as tagged characters: unchanged, or made of their tokens if these are the words."""
    if is_spelled(sentences):
        return sentences
    return [
        sentence_from_words(sentence.tokens, scheme=scheme, path=sentence.path, line=sentence.line_of(0))
        for sentence in sentences
    ]


def is_spelled(sentences: list[Sentence]) -> bool:
    """Whether the tags are bare letters, which say where words begin and end."""
    return any(s.tags for s in sentences) and _are_letters([s.tags or () for s in sentences], None)


def _are_letters(sequences: Iterable[Sequence[str]], scheme: Scheme | None) -> bool:
    letters = ALL_LETTERS if scheme is None else scheme.letters
    counts = Counter(tag for tags in sequences for tag in tags)
    read = sum(count for tag, count in counts.items() if (respelled(tag) or tag) in letters)
    return read >= (1 - MOST_ODD) * counts.total()


def in_scheme(
    sentences: list[Sentence], setting: Setting, how: OnBadTags, found: Detection | None = None
) -> tuple[list[Sentence], list[str]]:
    """Sentences with the right tags in the scheme of a model, and what was done for it.

    Their own scheme is detected unless it was `found`.
    """
    if setting.task is Task.SEG_POS and not _is_joint(sentences):
        _refuse_bare(sentences)
        return [to_characters(sentence, scheme=setting.scheme) for sentence in sentences], []
    if setting.scheme is Scheme.PLAIN:
        return [sentence.with_tags(tags_of(sentence)) for sentence in sentences], []
    if setting.task is not Task.SEG:
        for sentence in sentences:
            tags_of(sentence)
    sequences = [sentence.tags for sentence in sentences if sentence.tags is not None]
    own = found or detect(sequences, scheme=setting.scheme, style=setting.style)
    if own.scheme is not setting.scheme or own.spelling or not own.is_clean:
        other = detect(sequences)
        own = own if found is not None and other.scheme is Scheme.PLAIN else other
    mended = mend_tags(sentences, on_bad_tags=how, found=own)
    if setting.task is Task.SEG:
        return characters(mended.sentences, setting.scheme), mended.notes
    if Scheme.PLAIN is own.scheme or (own.scheme, own.style) == (setting.scheme, setting.style):
        return mended.sentences, mended.notes
    return [_converted(sentence, own.scheme, own.style, setting) for sentence in mended.sentences], mended.notes


def _converted(sentence: Sentence, scheme: Scheme, style: Style, to: Setting) -> Sentence:
    return sentence.with_tags(convert_tags(tags_of(sentence), scheme, to.scheme, style=style, target_style=to.style))


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
    """The words of the training data."""
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
    match report:
        case metrics.EntityScores(micro=score) | metrics.SegmentationScores(words=score):
            figures = {"precision": score.precision, "recall": score.recall, "F1": score.f1}
            return figures | (_of_unknown(report) if isinstance(report, metrics.SegmentationScores) else {})
        case metrics.JointScores():
            figures = {"segmentation F1": report.words.words.f1, "joint F1": report.tagged.f1}
            return figures | _of_unknown(report.words)
        case metrics.TaggingScores():
            unknown = report.unknown_accuracy
            return {"accuracy": report.accuracy} | ({} if unknown is None else {"unknown words": unknown})
    raise AssertionError(f"no figures for {type(report).__name__}")


def _of_unknown(report: metrics.SegmentationScores) -> dict[str, float]:
    return {} if report.oov_recall is None else {"OOV recall": report.oov_recall}

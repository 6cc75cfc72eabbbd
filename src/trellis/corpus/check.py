"""What a careful colleague would tell you about your files before you train on them.

Errors are what training or evaluation would trip over or get wrong: lines that cannot be read, steps from tag
to tag that the scheme forbids, sentences without tags beside others with them, a file without sentences.
Warnings are what you should know: duplicates, sentences of one file in another, labels the first file (the
training data) lacks, empty and enormous sentences, invisible characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from trellis.corpus.annotation_tools import SPAN_FIELDS
from trellis.corpus.source import ReadReport
from trellis.errors import number_of, shown
from trellis.tags import Detection, Scheme, detect, fit_schemes, spans_from_sequences, validate_tags
from trellis.text import Sentence

Severity = Literal["error", "warning"]

_JOINERS_AND_TAGS = re.compile("(?<=.)[\u200c\u200d](?=.)|[\U000e0020-\U000e007f]")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found, at a line where it has one; `count` is how often, `line` then the first time."""

    severity: Severity
    kind: str
    path: str
    line: int | None
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class FileSummary:
    path: str
    format: str
    reason: str
    sentences: int
    tokens: int
    longest: int
    vocabulary: int
    unknown: float | None
    """Share of the tokens that the first file does not have; None for the first file itself."""
    tags: dict[str, int]
    spans: dict[str, int]
    """Spans by type; empty where the tags are plain labels."""
    notes: list[str]
    """What reading left out or changed, one line per kind, below it the first ten changes."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Figures of each file, the tag scheme they were checked against, and the findings, errors first."""

    files: list[FileSummary]
    scheme: str | None
    fitting: list[str]
    """All schemes, plain labels apart, in which every step of the data is legal."""
    findings: list[Finding]

    @property
    def errors(self) -> int:
        return sum(finding.count for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> int:
        """How many findings are warnings; one that occurs often counts once."""
        return sum(finding.severity == "warning" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain types, for JSON."""
        return {**asdict(self), "errors": self.errors, "warnings": self.warnings}


@dataclass(slots=True)
class CheckedFile:
    """One file to check: its sentences, read with ``on_error="skip"``, and the report of reading them."""

    path: str
    sentences: Sequence[Sentence]
    report: ReadReport
    vocabulary: Counter[str] = field(init=False)
    tags: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.vocabulary = Counter(token for sentence in self.sentences for token in sentence.tokens)
        self.tags = Counter(tag for sentence in self.sentences for tag in sentence.tags or ())


def check_files(files: Sequence[CheckedFile], *, scheme: Scheme | None = None, longest: int = 500) -> CheckReport:
    """Check files that belong together, the training data first; the scheme is the best fitting unless given."""
    files, spellings = _respelled(files)
    sequences = [sentence.tags for file in files for sentence in file.sentences if sentence.tags]
    chosen = detect(sequences, scheme=scheme) if sequences else None
    findings = [*spellings, *_repeats(files), *_unseen_labels(files)]
    for file in files:
        findings += [*_reading(file), *_tagging(file, chosen), *_tokens(file, longest)]
    return CheckReport(
        files=[_summary(file, files[0], chosen) for file in files],
        scheme=chosen.scheme.value if chosen else None,
        fitting=[
            fit.scheme.value
            for fit in (fit_schemes(sequences) if sequences else [])
            if not fit.violations and fit.scheme is not Scheme.PLAIN
        ],
        findings=sorted(findings, key=lambda finding: (finding.severity, finding.kind)),
    )


def _respelled(files: Sequence[CheckedFile]) -> tuple[Sequence[CheckedFile], list[Finding]]:
    """The files with tags as their scheme writes them, where nearly all are written in another way."""
    detection = detect([sentence.tags for file in files for sentence in file.sentences if sentence.tags])
    if not detection.spelling:
        return files, []
    some = ", ".join(f"{label} for {spelled}" for label, spelled in list(detection.spelling.items())[:4])
    message = f"the tags are {detection.scheme.value} in another spelling, as {some}; they are read so"
    finding = Finding("warning", "spelling", files[0].path, None, message, len(detection.spelling))

    def respell(sentence: Sentence) -> Sentence:
        tags = sentence.tags
        return sentence if tags is None else sentence.with_tags([detection.spelling.get(tag, tag) for tag in tags])

    return [CheckedFile(file.path, list(map(respell, file.sentences)), file.report) for file in files], [finding]


def _reading(file: CheckedFile) -> Iterator[Finding]:
    for error in file.report.errors:
        yield Finding("error", "unreadable", file.path, error.line, f"{error.problem}: {error.text[:80]!r}")
    more = file.report.skipped - len(file.report.errors)
    if more:
        yield Finding("error", "unreadable", file.path, None, f"{number_of(more, 'more line')} cannot be read", more)
    if not file.sentences:
        yield Finding("error", "no sentences", file.path, None, "the file has no sentences")


def _tagging(file: CheckedFile, fit: Detection | None) -> Iterator[Finding]:
    untagged = [sentence for sentence in file.sentences if sentence.tags is None]
    if untagged and fit is not None:
        line = untagged[0].line_of(0)
        yield Finding("error", "untagged", file.path, line, f"sentences without tags: {len(untagged):,}", len(untagged))
    if untagged and fit is None and file.report.format == "spans":  # of tokens, words alone are a segmentation
        message = f"no record has spans; they are read from the fields {', '.join(SPAN_FIELDS)}"
        yield Finding("warning", "untagged", file.path, untagged[0].line_of(0), message, len(untagged))
    if fit is None or fit.scheme is Scheme.PLAIN:
        return
    for sentence in file.sentences:
        for violation in validate_tags(sentence.tags or (), fit.scheme, style=fit.style):
            line = sentence.line_of(violation.position)
            token = sentence.tokens[violation.position]
            message = f"{violation.reason} (token {shown(token)}, {fit.scheme.value})"
            yield Finding("error", "illegal tag", file.path, line, message)


def _repeats(files: Sequence[CheckedFile]) -> Iterator[Finding]:
    """Sentences met before, in the same file or in an earlier one, and whether their tags agree."""
    seen: dict[int, tuple[int, Sentence]] = {}
    for index, file in enumerate(files):
        repeats: dict[tuple[str, int], list[tuple[Sentence, Sentence]]] = {}
        for sentence in file.sentences:
            earlier, first = seen.setdefault(hash(sentence.tokens), (index, sentence))
            if first is sentence or not sentence.tokens:
                continue
            kind = "duplicate" if earlier == index else "overlap"
            repeats.setdefault((kind, earlier), []).append((sentence, first))
            if None not in (sentence.tags, first.tags) and sentence.tags != first.tags:
                repeats.setdefault(("conflict", earlier), []).append((sentence, first))
        for (kind, earlier), pairs in repeats.items():
            sentence, first = pairs[0]
            other = "the same file" if earlier == index else files[earlier].path
            total = number_of(len(file.sentences), "sentence")
            count = f"{len(pairs)} of {total} ({len(pairs) / len(file.sentences):.1%})"
            have = "have other tags where they are also in" if kind == "conflict" else "are also in"
            message = f"{count} {have} {other}, this one at line {first.line_of(0)}"
            yield Finding("warning", kind, file.path, sentence.line_of(0), message, len(pairs))


def _unseen_labels(files: Sequence[CheckedFile]) -> Iterator[Finding]:
    for file in files[1:]:
        unseen = file.tags.keys() - files[0].tags.keys()
        first = _first_lines(((sentence, sentence.tags or ()) for sentence in file.sentences), unseen)
        for tag in sorted(unseen):
            message = (
                f"the label {shown(tag)}, here {number_of(file.tags[tag], 'time')}, does not occur in {files[0].path}"
            )
            yield Finding("warning", "unseen label", file.path, first[tag], message, file.tags[tag])


def _first_lines(sentences: Iterable[tuple[Sentence, Sequence[str]]], wanted: Set[str]) -> dict[str, int | None]:
    """The line where each of the wanted values of tokens first occurs, in the order of these lines."""
    first: dict[str, int | None] = {}
    for sentence, values in sentences if wanted else ():
        for position, value in enumerate(values):
            if value in wanted and value not in first:
                first[value] = sentence.line_of(position)
    return first


def _tokens(file: CheckedFile, longest: int) -> Iterator[Finding]:
    """Empty and enormous sentences, and tokens with characters that nobody sees."""
    empty = [sentence for sentence in file.sentences if not sentence.tokens]
    if empty:
        message = f"sentences without tokens: {len(empty):,}"
        yield Finding("warning", "empty sentence", file.path, empty[0].line_of(0), message, len(empty))
    enormous = [sentence for sentence in file.sentences if len(sentence) > longest]
    if enormous:
        message = f"sentences with more than {longest} tokens: {len(enormous):,}, one with {max(map(len, enormous)):,}"
        yield Finding("warning", "long sentence", file.path, enormous[0].line_of(0), message, len(enormous))
    hidden: dict[str, list[str]] = {}
    for token in file.vocabulary:
        if not token.isprintable():
            text = _JOINERS_AND_TAGS.sub("", token)  # joiners between characters are part of writing
            kinds = ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")  # control, zero-width and unassigned characters
            if characters := [c for c in dict.fromkeys(text) if unicodedata.category(c) in kinds]:
                hidden[token] = characters
    first = _first_lines(((sentence, sentence.tokens) for sentence in file.sentences), hidden.keys())
    for token, line in first.items():
        names = ", ".join(f"U+{ord(c):04X} {unicodedata.name(c, 'control character')}" for c in hidden[token])
        message = f"the token {token!a:.80}, here {number_of(file.vocabulary[token], 'time')}, holds {names}"
        yield Finding("warning", "invisible", file.path, line, message, file.vocabulary[token])


def _summary(file: CheckedFile, first: CheckedFile, fit: Detection | None) -> FileSummary:
    total = file.vocabulary.total()
    known = sum(count for token, count in file.vocabulary.items() if token in first.vocabulary)
    by_type: Counter[str] = Counter()
    if fit is not None and fit.scheme is not Scheme.PLAIN:  # of sentences whose tags are all legal
        tags = [sentence.tags for sentence in file.sentences if sentence.tags]
        legal = [one for one in tags if not validate_tags(one, fit.scheme, style=fit.style)]
        by_type.update(
            span.label for spans in spans_from_sequences(legal, fit.scheme, style=fit.style) for span in spans
        )
    return FileSummary(
        path=file.path,
        format=file.report.format,
        reason=file.report.reason,
        sentences=len(file.sentences),
        tokens=total,
        longest=max(map(len, file.sentences), default=0),
        vocabulary=len(file.vocabulary),
        unknown=None if file is first or not total else 1 - known / total,
        tags=dict(file.tags.most_common()),
        spans=dict(by_type.most_common()),
        notes=replace(file.report, skipped=0).notes(),  # what was skipped is among the findings
    )

"""What the check finds, and at which line."""

from __future__ import annotations

import json
from pathlib import Path

from trellis import corpus
from trellis.corpus.check import CheckedFile, CheckReport, Finding, check_files
from trellis.tags import Scheme


def check(folder: Path, *contents: str, scheme: Scheme | None = None, longest: int = 500) -> CheckReport:
    files = []
    for number, content in enumerate(contents):
        path = folder / f"{number}.conll"
        path.write_text(content)
        read = corpus.read(path, format="conll", on_error="skip")
        files.append(CheckedFile(path.name, read.sentences, read.report))
    return check_files(files, scheme=scheme, longest=longest)


def found(report: CheckReport, kind: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.kind == kind]


CLEAN = "Ada\tB-PER\nKing\tI-PER\nwrote\tO\n\nin\tO\nUlm\tB-LOC\n"


def test_a_clean_file_has_figures_and_no_findings(tmp_path: Path) -> None:
    report = check(tmp_path, CLEAN)
    assert report.findings == []
    assert (report.errors, report.warnings, report.scheme, report.fitting) == (0, 0, "IOB2", ["IOB2"])
    (file,) = report.files
    assert (file.sentences, file.tokens, file.longest, file.vocabulary, file.unknown) == (2, 5, 3, 5, None)
    assert file.tags == {"O": 2, "B-PER": 1, "I-PER": 1, "B-LOC": 1}
    assert file.spans == {"PER": 1, "LOC": 1}


def test_every_illegal_step_has_its_line(tmp_path: Path) -> None:
    content = f"{CLEAN}\n# a comment here\na\tO\nb\tI-PER\nc\tI-LOC\n\nBo\tB-PER\n"
    report = check(tmp_path, content)
    assert [(finding.severity, finding.line, finding.message) for finding in report.findings] == [
        ("error", 10, "I-PER must follow B-PER or I-PER, not O (token 'b', IOB2)"),
        ("error", 11, "I-LOC must follow B-LOC or I-LOC, not I-PER (token 'c', IOB2)"),
    ]
    assert report.fitting == []


def test_a_rare_label_that_no_scheme_reads_is_an_error_and_hides_nothing(tmp_path: Path) -> None:
    report = check(tmp_path, f"{CLEAN}\n" * 5 + "x\tB_PER\n")
    assert report.scheme == "IOB2"
    (finding,) = found(report, "illegal tag")
    assert finding.line == 36
    assert "'B_PER'" in finding.message


def test_plain_labels_have_no_illegal_steps(tmp_path: Path) -> None:
    report = check(tmp_path, "a\tNN\nb\tVB\n")
    assert (report.scheme, report.findings, report.files[0].spans) == ("PLAIN", [], {})


def test_a_given_scheme_is_what_tags_are_checked_against(tmp_path: Path) -> None:
    report = check(tmp_path, "a\tB-X\nb\tI-X\n", scheme=Scheme.BIOES)
    assert report.scheme == "BIOES"
    assert [finding.line for finding in found(report, "illegal tag")] == [2]


def test_lines_that_cannot_be_read_and_files_without_sentences_are_errors(tmp_path: Path) -> None:
    report = check(tmp_path, "a\tO\n\nb\n", "")
    assert [(f.severity, f.path, f.line, f.message) for f in report.findings] == [
        ("error", "1.conll", None, "the file has no sentences"),
        ("error", "0.conll", 3, "expected 2 columns separated by tabs, as in line 1, found 1: 'b'"),
    ]


def test_repeated_sentences_overlap_and_conflicting_tags(tmp_path: Path) -> None:
    train = "a\tO\nb\tO\n\nc\tO\n\na\tO\nb\tO\n\nc\tB-X\n"
    test = "c\tO\n\nd\tO\n\nd\tO\n"
    report = check(tmp_path, train, test)
    assert [(f.severity, f.kind, f.path, f.line, f.count, f.message) for f in report.findings] == [
        (
            *("warning", "conflict", "0.conll", 9, 1),
            "1 of 4 sentences (25.0%) have other tags where they are also in the same file, this one at line 4",
        ),
        (
            *("warning", "duplicate", "0.conll", 6, 2),
            "2 of 4 sentences (50.0%) are also in the same file, this one at line 1",
        ),
        (
            *("warning", "duplicate", "1.conll", 5, 1),
            "1 of 3 sentences (33.3%) are also in the same file, this one at line 3",
        ),
        (*("warning", "overlap", "1.conll", 1, 1), "1 of 3 sentences (33.3%) are also in 0.conll, this one at line 4"),
    ]
    assert report.errors == 0


def test_labels_and_tokens_that_training_data_lacks(tmp_path: Path) -> None:
    report = check(tmp_path, CLEAN, "Ada\tB-PER\nx\tB-ORG\ny\tB-ORG\nz\tO\n")
    (finding,) = report.findings
    assert (finding.severity, finding.kind, finding.line, finding.count) == ("warning", "unseen label", 2, 2)
    assert finding.message == "the label 'B-ORG', here 2 times, does not occur in 0.conll"
    assert report.files[1].unknown == 0.75


def test_empty_and_enormous_sentences(tmp_path: Path) -> None:
    path = tmp_path / "a.seg"
    path.write_text("abc\n\nd\n")
    read = corpus.read(path)
    report = check_files([CheckedFile("a", read.sentences, read.report)], longest=2)
    assert [(f.severity, f.kind, f.line, f.message) for f in report.findings] == [
        ("warning", "empty sentence", 2, "sentences without tokens: 1"),
        ("warning", "long sentence", 1, "sentences with more than 2 tokens: 1, one with 3"),
    ]


def test_sentences_without_tags_beside_others_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a"], "tags": ["O"]}\n{"tokens": ["b"]}\n')
    read = corpus.read(path)
    report = check_files([CheckedFile("a", read.sentences, read.report)])
    assert [(f.kind, f.line, f.message) for f in report.findings] == [("untagged", 2, "sentences without tags: 1")]


def test_untagged_files_alone_are_fine(tmp_path: Path) -> None:
    report = check(tmp_path, "a\nb\n")
    assert (report.scheme, report.findings) == (None, [])


def test_annotations_in_an_unknown_field_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Ada met Bob", "ner": [[0, 3, "PER"]]}\n')
    read = corpus.read(path)
    report = check_files([CheckedFile(str(path), read.sentences, read.report)])
    assert [(finding.severity, finding.kind, finding.line) for finding in report.findings] == [
        ("warning", "untagged", 1)
    ]


def test_invisible_characters_are_named_and_joiners_inside_are_not(tmp_path: Path) -> None:
    family, persian, nbsp = "\U0001f468\u200d\U0001f469", "می\u200cخواهم", "10\u00a0000"
    content = f"{family}\tO\n{persian}\tO\n{nbsp}\tO\nzero\u200bwidth\tO\n\x07\tO\nend\u200d\tO\n"
    report = check(tmp_path, content)
    assert [(finding.line, finding.message) for finding in found(report, "invisible")] == [
        (4, "the token 'zero\\u200bwidth', here 1 time, holds U+200B ZERO WIDTH SPACE"),
        (5, "the token '\\x07', here 1 time, holds U+0007 control character"),
        (6, "the token 'end\\u200d', here 1 time, holds U+200D ZERO WIDTH JOINER"),
    ]


def test_the_report_is_json(tmp_path: Path) -> None:
    report = check(tmp_path, "c\tB-X\nd\tI-Y\n", CLEAN)
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["errors"] == report.errors > 0
    assert plain["files"][1]["spans"] == {"PER": 1, "LOC": 1}
    assert plain["findings"][0]["severity"] == "error"

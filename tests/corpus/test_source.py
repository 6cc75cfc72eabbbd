"""Lines, paragraphs and their numbers, however the blocks fall."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trellis.corpus import source as source_module
from trellis.corpus.source import Source
from trellis.errors import DataError

LINES = st.lists(st.sampled_from(["a", "b\tc", "", "", " ", "\t", " \u3000 ", "\u0085", "é中"]), max_size=14)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES, end=st.sampled_from(["\n", "\r\n"]), last=st.booleans(), block=st.sampled_from([1, 2, 5, 99]))
def test_paragraphs_and_lines_have_the_numbers_of_a_plain_count(
    tmp_path: Path, lines: list[str], end: str, last: bool, block: int
) -> None:
    text = "".join(line + end for line in lines)
    content = (text if last else text.removesuffix(end)).encode()
    expected: list[tuple[list[int], list[str]]] = []
    blank = True
    for number, line in enumerate(lines, 1):
        if line.strip(" \t"):
            if blank:
                expected.append(([], []))
            expected[-1][0].append(number)
            expected[-1][1].append(line)
        blank = not line.strip(" \t")
    with mock.patch.object(source_module, "_BLOCK", block):
        found = [(list(numbers), text.split("\n")) for numbers, text in Source(_write(tmp_path, content)).paragraphs()]
        assert found == expected
        numbered = list(Source(_write(tmp_path, content)).lines())
    kept = lines if last or not lines or lines[-1] else lines[:-1]
    assert numbered == list(enumerate(kept, 1))


def _write(folder: Path, content: bytes) -> Path:
    path = folder / "f"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("block", [1, 2, 3, 8, 99])
def test_bytes_that_do_not_decode_cost_their_paragraph_alone(tmp_path: Path, block: int) -> None:
    path = _write(tmp_path, "a\n\n\nbé\nc\n".encode() + b"d\xff\ne\n\nf\n\n\xfe")
    with mock.patch.object(source_module, "_BLOCK", block):
        source = Source(path, on_error="skip")
        assert [(list(numbers), text) for numbers, text in source.paragraphs()] == [([1], "a"), ([9], "f")]
        assert [error.line for error in source.report.errors] == [6, 11]
        source = Source(path, on_error="skip")
        assert [number for number, _ in source.lines()] == [1, 2, 3, 4, 5, 7, 8, 9, 10]
        with pytest.raises(DataError, match=r"f:6: expected text in utf-8, found byte 0xff at character 2"):
            list(Source(path).paragraphs())


def test_a_sequence_cut_off_at_the_end_of_the_file_does_not_decode(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"f:2: expected text in utf-8, found byte 0xe4 at character 2"):
        list(Source(_write(tmp_path, b"a\nb\xe4\xb8")).lines())

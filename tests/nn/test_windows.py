"""Windows over long sentences, against every window and every place tried one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.errors import ConfigError
from trellis.nn.subwords import windows_of


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[int], int, int]:
    window = draw(st.integers(1, 9))
    return draw(st.lists(st.integers(0, 40), max_size=4)), window, draw(st.integers(0, window - 1))


@given(layouts())
def test_every_place_is_owned_once_by_a_window_with_its_best_context(layout: tuple[list[int], int, int]) -> None:
    lengths, window, overlap = layout
    windows = windows_of(np.array(lengths, dtype=np.int64), window, overlap)
    for sentence, length in enumerate(lengths):
        mine = np.flatnonzero(windows.sentences == sentence)
        spans = [(int(windows.starts[k]), int(windows.starts[k] + windows.lengths[k])) for k in mine]
        assert all(start >= 0 and stop <= length for start, stop in spans)
        owned = [place for k in mine for place in range(int(windows.first[k]), int(windows.stop[k]))]
        assert owned == list(range(length))
        for k, (start, stop) in zip(mine, spans, strict=True):
            for place in range(int(windows.first[k]), int(windows.stop[k])):
                best = max(min(place - a, b - 1 - place) for a, b in spans if a <= place < b)
                assert start <= place < stop
                assert min(place - start, stop - 1 - place) == best


def test_a_sentence_that_fits_is_one_window() -> None:
    windows = windows_of(np.array([5, 0, 3]), 5, 2)
    assert windows.sentences.tolist() == [0, 2]
    assert windows.lengths.tolist() == [5, 3]


def test_the_last_window_is_full() -> None:
    windows = windows_of(np.array([8]), 5, 2)
    assert windows.starts.tolist() == [0, 3]
    assert windows.first.tolist() == [0, 4]
    assert windows.stop.tolist() == [4, 8]


@pytest.mark.parametrize(
    ("window", "overlap", "message"),
    [
        (0, 0, "window must hold at least one subword, got 0"),
        (4, 4, r"overlap must be in 0\.\.3 for a window of 4 subwords, got 4"),
        (4, -1, r"overlap must be in 0\.\.3"),
    ],
)
def test_impossible_windows_are_refused(window: int, overlap: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        windows_of(np.array([3]), window, overlap)

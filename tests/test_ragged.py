"""Flat data plus lengths, and the padded form of the same."""

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.chain.strategies import check
from trellis.errors import ShapeError
from trellis.ragged import check_lengths, offsets_of, pad, ranges, split

LENGTHS = st.lists(st.integers(0, 6), max_size=6).map(lambda x: np.array(x, dtype=np.int64))


def rows_of(lengths: np.ndarray, width: int = 0) -> np.ndarray:
    """Rows that tell where they are from."""
    N = int(lengths.sum())
    return np.arange(N) if not width else np.arange(N * width).reshape(N, width)


class TestLengths:
    def test_become_int64_whatever_integers_they_were(self) -> None:
        for given in ([3, 0], (3, 0), np.array([3, 0], np.uint8), np.array([3, 9, 0])[::2]):
            found = check_lengths(given, 3)
            assert found.dtype == np.int64
            assert found.tolist() == [3, 0]
            assert found.flags.c_contiguous

    def test_none_at_all_are_fine(self) -> None:
        assert check_lengths([], 0).shape == (0,)

    @pytest.mark.parametrize(
        ("lengths", "tokens", "message"),
        [
            ([1.5], None, "lengths must be integers (B,), got float64 of shape (1,)"),
            ([[1]], None, "lengths must be integers (B,), got int64 of shape (1, 1)"),
            (3, None, "lengths must be integers (B,), got int64 of shape ()"),
            ([2, -1], None, "lengths must be >= 0, got -1 for sequence 1"),
            ([2, 1], 4, "lengths must add up to the number of tokens N = 4, got 3 from 2 sequences"),
            (
                [2**62] * 3 + [2**62 + 8],
                8,
                f"lengths must add up to the number of tokens N = 8, got {2**64 + 8} from 4 sequences",
            ),
            (
                np.array([2**64 - 1, 3], np.uint64),
                2,
                f"lengths must add up to the number of tokens N = 2, got {2**64 + 2} from 2 sequences",
            ),
            (np.array([2**63 + 4], np.uint64), None, f"lengths must add up to at most {2**48} tokens, got {2**63 + 4}"),
            ([2**62] * 4, None, f"lengths must add up to at most {2**48} tokens, got {2**64}"),
            # more than a few are summed by NumPy
            ([2] * 30 + [-1], None, "lengths must be >= 0, got -1 for sequence 30"),
            ([2] * 30, 61, "lengths must add up to the number of tokens N = 61, got 60 from 30 sequences"),
            ([2**62] * 32, None, f"lengths must add up to at most {2**48} tokens, got {2**67}"),
            (
                np.array([2**63] * 18, np.uint64),
                0,
                f"lengths must add up to the number of tokens N = 0, got {18 * 2**63} from 18 sequences",
            ),
        ],
    )
    def test_refusals(self, lengths: object, tokens: int | None, message: str) -> None:
        with pytest.raises(ShapeError) as caught:
            check_lengths(lengths, tokens)  # type: ignore[arg-type]
        assert str(caught.value) == message

    def test_offsets_bound_each_sequence(self) -> None:
        assert offsets_of(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]
        assert offsets_of(np.array([], dtype=np.int64)).tolist() == [0]


class TestSplit:
    @check(LENGTHS)
    def test_parts_are_the_rows_in_order(self, lengths: np.ndarray) -> None:
        flat = rows_of(lengths)
        parts = split(flat, lengths)
        assert [len(part) for part in parts] == lengths.tolist()
        assert [x for part in parts for x in part.tolist()] == flat.tolist()

    def test_parts_are_views(self) -> None:
        flat = np.zeros(3)
        split(flat, [1, 2])[1][:] = 7
        assert flat.tolist() == [0, 7, 7]

    def test_lengths_must_cover_the_rows(self) -> None:
        with pytest.raises(ShapeError, match="N = 3, got 2 from 1 sequences"):
            split(np.zeros(3), [2])


class TestPadding:
    @check(LENGTHS, st.integers(0, 3))
    def test_rows_keep_their_order_and_type(self, lengths: np.ndarray, width: int) -> None:
        flat = rows_of(lengths, width)
        padded = pad(flat, lengths, fill=-1)
        assert padded.shape[:2] == (len(lengths), lengths.max(initial=0))
        assert padded.dtype == flat.dtype
        kept = [row[:length] for row, length in zip(padded, lengths, strict=True)]
        assert all(map(np.array_equal, kept, split(flat, lengths)))

    @check(LENGTHS)
    def test_fill_is_everywhere_else(self, lengths: np.ndarray) -> None:
        padded = pad(rows_of(lengths), lengths, fill=-1)
        for row, length in zip(padded, lengths, strict=True):
            assert (row[:length] >= 0).all()
            assert (row[length:] == -1).all()


def test_ranges_follow_one_another() -> None:
    starts, lengths = np.array([5, 7, 0]), np.array([2, 0, 3])
    assert ranges(starts, lengths).tolist() == [5, 6, 0, 1, 2]
    assert ranges(0, lengths).tolist() == [0, 1, 0, 1, 2]
    assert ranges(starts[:0], lengths[:0]).tolist() == []

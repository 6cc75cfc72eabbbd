"""Texts that are changed here and there, for tests of what reads them."""

from collections.abc import Sequence

from hypothesis import strategies as st

Change = tuple[int, int, bytes]
"""A place (taken modulo the length), how many bytes go, and what comes instead."""


def changes(
    pieces: Sequence[bytes], *, removed: int = 3, min_size: int = 0, max_size: int = 4
) -> st.SearchStrategy[list[Change]]:
    """Some changes, with these pieces."""
    one = st.tuples(st.integers(0, 10**6), st.integers(0, removed), st.sampled_from(pieces))
    return st.lists(one, min_size=min_size, max_size=max_size)


def damaged(text: bytes, changed: Sequence[Change]) -> bytes:
    """The text after all changes."""
    for place, removed, piece in changed:
        at = place % (len(text) + 1)
        text = text[:at] + piece + text[at + removed :]
    return text

"""Attributes by name: numbers in the order of first appearance, whatever their lengths."""

import numpy as np

from trellis import _native


def test_names_of_any_length_and_any_bytes_are_told_apart() -> None:
    names = [b"", b"\0", b"\0\0", b"a", b"a\0", *(b"x" * n for n in range(1, 40)), *(b"%d" % i for i in range(100_000))]
    index = _native.Attributes()
    assert [index.add(name) for name in names] == list(range(len(names)))
    assert [index.add(name) for name in names[::999]] == list(range(0, len(names), 999))
    copy = index.select(np.arange(len(names))[::-1].copy())
    saved = _native.Attributes(*index.keys())
    for i in range(0, len(names), 997):
        assert index.name(i) == names[i]
        assert saved.find(names[i]) == index.find(names[i]) == i
        assert copy.find(names[i]) == len(names) - 1 - i
    assert index.find(b"another") == saved.find(b"another") == -1

"""Strings that a stranger has chosen so that their hashes are equal cost no more than others."""

import numpy as np
import pytest

from trellis import _native

K0, K1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
HIGH_BITS = np.uint64(0x8080808080808080)


def fold(x: np.ndarray, k: np.uint64) -> np.ndarray:
    """One step of native/features/hashing.h's hash_bytes."""
    x = x * k
    return x ^ (x >> np.uint64(32))


def hash_of(words: np.ndarray) -> np.ndarray:
    """hash_bytes of strings of 16 bytes, given as two numbers each."""
    h = fold(np.array([16 + int(K0)], dtype=np.uint64), K1)
    for column in words.T:
        h = fold(h ^ column, K0)
    return fold(fold(h, K0), K1)


def colliding(count: int) -> list[bytes]:
    """Different ASCII strings of equal hashes: the second half of each undoes what the first has done."""
    rng = np.random.default_rng(0)
    first = rng.integers(0x61, 0x7B, size=(300 * count, 8), dtype=np.uint8).view("<u8")[:, 0]
    start = fold(np.array([16 + int(K0)], dtype=np.uint64), K1)
    second = fold(start ^ first, K0) ^ np.uint64(0x123456789ABCDEF0)
    words = np.stack([first, second], axis=1)[(second & HIGH_BITS) == 0][:count]
    assert len(words) == count
    assert len(set(hash_of(words).tolist())) == 1
    return [row.astype("<u8").tobytes() for row in words]


@pytest.fixture(scope="module")
def names() -> list[bytes]:
    return colliding(3000)


def test_a_growing_index_takes_a_secret_hash_when_strings_collide_on_purpose(names: list[bytes]) -> None:
    index = _native.Attributes()
    assert [index.add(name) for name in names] == list(range(len(names)))
    assert index.secret
    assert [index.add(name) for name in names] == list(range(len(names)))
    assert [index.find(name) for name in names] == list(range(len(names)))
    assert index.find(b"another") == -1
    assert [index.name(i) for i in range(len(names))] == names


def test_what_is_saved_has_the_hash_of_the_file_format(names: list[bytes]) -> None:
    index = _native.Attributes()
    for name in names:
        index.add(name)
    saved = _native.Attributes.fixed(*index.arrays())
    assert not saved.secret
    assert [saved.find(name) for name in names[::100]] == list(range(0, len(names), 100))
    assert saved.find(b"another") == -1


def test_the_table_of_saved_strings_takes_a_secret_hash_when_they_collide_on_purpose(names: list[bytes]) -> None:
    index = _native.Attributes()
    for name in names:
        index.add(name)
    saved = _native.Attributes.named(*index.strings())
    assert [saved.find(name) for name in names] == list(range(len(names)))
    assert saved.secret
    assert saved.find(b"another") == -1


def test_a_copy_that_can_grow_numbers_colliding_strings_alike(names: list[bytes]) -> None:
    index = _native.Attributes()
    for name in names:
        index.add(name)
    copy = index.growing()
    assert copy.secret
    assert [copy.find(name) for name in names] == list(range(len(names)))


def test_other_strings_keep_the_hash_of_the_file_format() -> None:
    index = _native.Attributes()
    for i in range(100_000):
        index.add(f"word={i}".encode())
    assert not index.secret
    assert [index.find(f"word={i}".encode()) for i in range(0, 100_000, 9973)] == list(range(0, 100_000, 9973))


def test_colliding_words_of_features_are_numbered_in_order(names: list[bytes]) -> None:
    index = _native.Attributes()
    data = _native.compile_features([[[name.decode()] for name in names]], index, True)
    assert [data.token_attributes(n) for n in range(len(names))] == [[(n, 1.0)] for n in range(len(names))]

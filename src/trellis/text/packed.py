"""Token lists in one piece of UTF-8, which become Python strings only where somebody looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from trellis import _native
from trellis.arrays import IntArray


class PackedTokens(Sequence[list[str]]):
    """Token lists, none of whose tokens is empty, as they come from JSON; a part of them is again of this kind."""

    __slots__ = ("native",)

    def __init__(self, native: _native.TokenLists) -> None:
        self.native = native

    @classmethod
    def read(cls, body: bytes, field: str) -> tuple[PackedTokens, bytes] | None:
        """The lists in one field of a JSON object, and the object with 0 in their place; None if that is not there.

        What surrounds the field is not checked: parse the object that is returned. For a field of that name that comes
        twice, that holds anything but lists of tokens, or that is not JSON, there is no answer either.
        """
        found = _native.TokenLists.read(body, field.encode())
        return None if found is None else (cls(found[0]), found[1])

    @classmethod
    def joined(cls, parts: Sequence[PackedTokens]) -> PackedTokens:
        """The sentences of all of them, one after another."""
        return parts[0] if len(parts) == 1 else cls(_native.TokenLists.joined([part.native for part in parts]))

    @property
    def lengths(self) -> IntArray:
        """The number of tokens of each list."""
        return self.native.lengths()

    @property
    def extent(self) -> tuple[int, int]:
        """The tokens of all lists together, and of the longest one; a list without tokens counts as one."""
        return self.native.extent()

    def __len__(self) -> int:
        """How many lists."""
        return len(self.native)

    @overload
    def __getitem__(self, index: int) -> list[str]: ...
    @overload
    def __getitem__(self, index: slice) -> PackedTokens: ...
    def __getitem__(self, index: int | slice) -> list[str] | PackedTokens:
        """One list with its strings; or some of the lists, next to each other."""
        if not isinstance(index, slice):
            return self.native.sentence(index + len(self) if index < 0 else index)
        first, last, step = index.indices(len(self))
        if step != 1:
            raise ValueError(f"lists next to each other can be taken, got a step of {step}")
        return PackedTokens(self.native.part(first, max(first, last)))

"""Long sentences in overlapping windows: where they begin, and which subwords each is asked for.

A sentence of n subwords that fits into a window of W is one window. A longer one takes windows of exactly W, ``W -
overlap`` apart, the last one moved back to end with the sentence. A subword that lies in several windows is taken from
the one where it has most context: the greatest ``min(p - start, start + W - 1 - p)``, which is the window whose middle
is nearest. So window k owns one range of places, from where window k - 1 stops to half-way between its own middle and
that of window k + 1, and every subword is owned exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.arrays import IntArray
from trellis.errors import ConfigError
from trellis.nn.subwords import Subwords, SubwordTokenizer
from trellis.ragged import offsets_of


@dataclass(frozen=True, slots=True)
class Windows:
    """R windows over B sentences, each array ``(R,)``; places count the subwords of the sentence."""

    sentences: IntArray  # whose subwords the window holds
    starts: IntArray  # its first subword
    lengths: IntArray  # how many subwords it holds
    first: IntArray  # the first place it owns
    stop: IntArray  # one past the last place it owns


def check_window(window: int, overlap: int) -> None:
    """Checks that a window has at least one subword, and that its overlap lets the next one advance."""
    if window < 1:
        raise ConfigError(f"window must hold at least one subword, got {window}")
    if not 0 <= overlap < window:
        raise ConfigError(f"overlap must be in 0..{window - 1} for a window of {window} subwords, got {overlap}")


def windows_of(lengths: IntArray, window: int, overlap: int) -> Windows:
    """Windows over sentences with these numbers of subwords; a sentence without subwords has none."""
    check_window(window, overlap)
    stride = window - overlap
    beyond = np.maximum(lengths - window, 0)
    counts = np.where(lengths > 0, -(-beyond // stride) + 1, 0)
    sentences = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(sentences)) - offsets_of(counts)[sentences]  # of the window within its sentence
    starts = np.minimum(number * stride, beyond[sentences])
    first, stop = np.zeros_like(starts), lengths[sentences]
    # Window k owns p <= (middle[k] + middle[k + 1]) / 2, with middle[k] = starts[k] + (W - 1) / 2.
    followed = np.flatnonzero(number[1:] > 0)
    stop[followed] = (starts[followed] + starts[followed + 1] + window - 1) // 2 + 1
    first[followed + 1] = stop[followed]
    return Windows(sentences, starts, np.minimum(lengths[sentences], window), first, stop)


def pad_windows(windows: Windows, subwords: Subwords, tokenizer: SubwordTokenizer) -> dict[str, IntArray]:
    """The windows as padded arrays ``(R, S)`` with special tokens around them.

    ``ids`` and ``attention`` are the encoder's input, ``types`` too if the tokenizer has others than 0;
    ``word_ids`` is the word of each subword that the window owns and -1 elsewhere, ``rows (R,)`` its sentence.
    """
    prefix, suffix = tokenizer.prefix, tokenizer.suffix
    ends = len(prefix) + windows.lengths[:, None]
    columns = np.arange(int(windows.lengths.max(initial=0)) + len(prefix) + len(suffix))
    inside = (columns >= len(prefix)) & (columns < ends)
    places = windows.starts[:, None] + columns - len(prefix)  # within the sentence
    owned = inside & (places >= windows.first[:, None]) & (places < windows.stop[:, None])
    sources = offsets_of(subwords.lengths)[windows.sentences][:, None] + places
    ids = np.full(inside.shape, tokenizer.pad, dtype=np.int64)
    ids[inside] = subwords.ids[sources[inside]]
    _surround(ids, prefix, suffix, ends)
    word_ids = np.full(inside.shape, -1, dtype=np.int64)
    word_ids[owned] = subwords.words[sources[owned]]
    attention = (columns < ends + len(suffix)).astype(np.int64)
    arrays = {"ids": ids, "attention": attention, "word_ids": word_ids, "rows": windows.sentences}
    if any(tokenizer.prefix_types) or any(tokenizer.suffix_types):
        arrays["types"] = np.zeros_like(ids)
        _surround(arrays["types"], tokenizer.prefix_types, tokenizer.suffix_types, ends)
    return arrays


def _surround(padded: IntArray, prefix: Sequence[int], suffix: Sequence[int], ends: IntArray) -> None:
    """Write the values of the special tokens before and after each window."""
    padded[:, : len(prefix)] = prefix
    np.put_along_axis(padded, ends + np.arange(len(suffix)), np.array(suffix, dtype=np.int64)[None, :], axis=1)

"""Model files as somebody might make them who means harm, and what a disk may make of them.

`spoil` changes a file in one to three places: fields of its manifest (also of the JSON texts within it), types, shapes
and values of its arrays, entries of its header, bytes. All but the last keep the checksums right.
"""

import json
import zlib
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from trellis import store
from trellis.errors import TrellisError

NUMBERS = [0, 1, -1, 2, 3, 7, 255, 256, 65535, 10**6, 10**7, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, -(2**63)]
OTHERS: list[Any] = [None, True, False, 0.5, -1.5, 1e308, float("nan"), float("inf"), 10**30, -(10**30), 10**400]
TEXTS = ["", "x", "O", "B-PER", "\ud800", "é中", "0", "../..", "/etc", "a" * 5000, "[" * 3000, "%x[0,0]", "float16"]
HOLDERS: list[Any] = [[], {}, [[]], {"a": {}}, [None], [0], ["x"], [-1, 2], {"x": 1}, [[[[[]]]]]]
DTYPES = ["<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "<u2", "|u1"]
EXTREMES = [0.0, -0.0, 1.0, -1.0, 2.0, np.nan, np.inf, -np.inf, 1e38, -1e38, 1e300, 255, 65535, 2.0**31, 2.0**62]


def spoil(whole: bytes, path: Path, random: Random) -> list[str]:
    """Write a spoiled copy; what was done to it, in words."""
    if random.random() < 0.25:
        path.write_bytes(whole)
        return [random.choice([_cut, _flip, _header_field])(path, random)]
    path.write_bytes(whole)
    stored = store.load(path)
    manifest, arrays = json.loads(json.dumps(stored.manifest.values)), dict(stored.arrays)
    done = []
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        done.append(_field(manifest, random) if random.random() < 0.5 else _array(arrays, random))
    store.save(path, stored.kind, manifest, arrays)
    return done


def spoil_bytes(path: Path, random: Random) -> str:
    """Cut a file of any kind, or change some of its bytes; what was done, in words."""
    return random.choice([_cut, _flip_anywhere])(path, random)


def spoil_json(path: Path, random: Random) -> str:
    """Change one value of a file of JSON; what was done, in words."""
    table = json.loads(path.read_bytes())
    done = _field(table, random)
    path.write_text(json.dumps(table))
    return done


def ask(model: Any, inputs: list[Any]) -> None:
    """Whatever a model is asked must be answered, or refused by an error of ours."""
    for question in (model.predict, model.marginals, lambda X: model.kbest(X, 2), model.span_probabilities):
        try:
            answers = question(inputs)
        except TrellisError:
            continue
        assert len(answers) == len(inputs)


def _cut(path: Path, random: Random) -> str:
    whole = path.read_bytes()
    length = random.choice([random.randrange(len(whole)), random.randrange(20), len(whole) - 1])
    path.write_bytes(whole[:length] + bytes(random.choice([0, 0, 1, 8])))
    return f"cut to {length}"


def _flip(path: Path, random: Random) -> str:
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    return _flipped(path, [8, header, len(whole)], random)


def _flip_anywhere(path: Path, random: Random) -> str:
    return _flipped(path, [path.stat().st_size], random)


def _flipped(path: Path, ends: list[int], random: Random) -> str:
    """Change up to four bytes, each before one of these ends."""
    data = bytearray(path.read_bytes())
    places = [random.randrange(random.choice(ends)) for _ in range(random.randint(1, 4))]
    for place in places:
        data[place] = random.choice([data[place] ^ (1 << random.randrange(8)), random.randrange(256)])
    path.write_bytes(data)
    return f"bytes {places} changed"


def _header_field(path: Path, random: Random) -> str:
    """Change how arrays are described; nothing but their bytes has a checksum there."""
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    done = _field(header, random)
    if random.random() < 0.3:  # the manifest's own text, with a checksum that fits
        text = "".join(random.choice(["[", "9", '{"a":']) for _ in range(random.choice([3, 9000])))
        header["__metadata__"] = {"trellis": f"{zlib.crc32(text.encode()):08x} {text}"}
    encoded = json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + whole[8 + length :])
    return f"header: {done}"


def _value(random: Random) -> Any:
    return deepcopy(random.choice(random.choice([NUMBERS, OTHERS, TEXTS, HOLDERS])))  # later changes go into it


def _field(table: Any, random: Random) -> str:
    """Change one place of a tree of JSON, wherever it is; a text that is JSON itself is a part of the tree."""
    holder, key, trail = table, None, []
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            break
        key = random.choice(keys)
        trail.append(key)
        inner = _parsed(holder[key])
        if isinstance(inner, dict | list) and inner and random.random() < 0.8:
            if isinstance(holder[key], str):
                done = _field(inner, random)
                holder[key] = json.dumps(inner)
                return f"{trail}: {done}"
            holder = inner
            continue
        break
    return f"{trail}: {_change(holder, key, random)}"


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _change(holder: Any, key: Any, random: Random) -> str:
    way = random.choice(["replace", "replace", "nudge", "remove", "add"])
    if key is None or way == "add":
        value = _value(random)
        holder.update({random.choice(TEXTS): value}) if isinstance(holder, dict) else holder.append(value)
        return f"added {value!r:.40}"
    if way == "remove":
        del holder[key]
        return "removed"
    before = holder[key]
    if way == "nudge" and type(before) in (int, float):
        holder[key] = random.choice([before + 1, before - 1, -before, before * 2, before * 10**6])
    elif way == "nudge" and isinstance(before, list) and before:
        holder[key] = random.choice([before * 2, before[:-1], before[::-1], [random.choice(before)] * len(before)])
    else:
        holder[key] = _value(random)
    return f"{before!r:.40} -> {holder[key]!r:.40}"


def _array(arrays: dict[str, Any], random: Random) -> str:
    name = random.choice(sorted(arrays))
    ways = [_retyped, _reshaped, _resized, _revalued, _revalued, _revalued, _remade, _remade, _swapped, _removed]
    way = random.choice(ways)
    with np.errstate(all="ignore"):
        way(arrays, name, random)
    return f"{name}: {way.__name__}"


def _retyped(arrays: dict[str, Any], name: str, random: Random) -> None:
    arrays[name] = arrays[name].astype(random.choice(DTYPES))


def _reshaped(arrays: dict[str, Any], name: str, random: Random) -> None:
    a = arrays[name]
    arrays[name] = random.choice([a[None], a[..., None], a.ravel(), a.T, a.reshape(-1, 1), np.stack([a, a])])


def _resized(arrays: dict[str, Any], name: str, random: Random) -> None:
    a = arrays[name]
    arrays[name] = random.choice([a[:-1], a[1:], a[:0], np.concatenate([a, a]), np.concatenate([a, a[:1]])])


def _revalued(arrays: dict[str, Any], name: str, random: Random) -> None:
    """New numbers of the same type: all, or one, or in another order."""
    a = arrays[name].copy()
    flat = a.reshape(-1)
    kinds: list[float] = EXTREMES if a.dtype.kind == "f" else NUMBERS
    if not len(flat):
        return
    way = random.randrange(5)
    value = random.choice(kinds)
    if a.dtype.kind != "f":
        info = np.iinfo(a.dtype)
        value = random.choice([info.min, info.max, int(flat[0]), min(max(int(value), info.min), info.max)])
    if way == 0:
        flat[:] = value
    elif way == 1:
        flat[:] = flat[::-1].copy()
    elif way == 2:
        flat[:] = flat[random.randrange(len(flat))]
    elif way == 3 and a.dtype.kind == "f":
        flat *= random.choice([0.0, -1.0, 1e-30, 1e30, 0.5])
    else:
        for _ in range(random.randint(1, 3)):
            flat[random.randrange(len(flat))] = value
    arrays[name] = a


def _remade(arrays: dict[str, Any], name: str, random: Random) -> None:
    """Wide numbers of another type in the same places, all but perhaps the last beyond reason."""
    before = arrays[name]
    a = np.empty(before.shape, random.choice(["<i8", "<f8", "<i4"]))
    a[...] = random.choice([-1, -2, 2**31 - 1, -(2**31), 65535, -65536])
    if a.dtype == np.int64 and random.random() < 0.5:
        a[...] = random.choice([2**62, -(2**62), 2**63 - 1, -(2**63)])
    if a.ndim == 1 and len(a) and before.dtype.kind != "f" and random.random() < 0.7:
        a[-1] = before[-1]  # of ends, the one that says how long the whole is
    arrays[name] = a


def _swapped(arrays: dict[str, Any], name: str, random: Random) -> None:
    other = random.choice(sorted(arrays))
    arrays[name], arrays[other] = arrays[other], arrays[name]


def _removed(arrays: dict[str, Any], name: str, random: Random) -> None:
    if random.random() < 0.5:
        del arrays[name]
    else:
        arrays[f"{name}{random.choice(TEXTS[:3])}"] = arrays[name]

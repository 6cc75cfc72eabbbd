"""A fuzzer that looks for new paths through native code: ``python -m tests.fuzz_native [TARGET ...]``.

model   files of models, their bytes or the arrays in them, changed: the reader opens them or says what is wrong
crfsuite  model files of CRFsuite, changed: they are read, or the reader says what is wrong
dicts   features of tokens as nested dicts, lists and odd objects, read twice: what is read is the same
text    texts and tokens: splitting, finding, packing

Native code is built by Clang in build/fuzz, with AddressSanitizer and counters of what was reached, and driven by
atheris, which gets an environment of its own. A crash, a report or an exception that is none of ours ends the run, and
its input is kept in build/fuzz/found. Inputs that reached something new are kept in build/fuzz/corpus for next time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.sanitize import ROOT, build, prepare

HOME = ROOT / "build" / "fuzz"
TARGETS = ("model", "crfsuite", "dicts", "text")


def fuzz_model() -> Callable[[Any], None]:
    import numpy as np

    import trellis
    from trellis import store
    from trellis.errors import TrellisError

    X = [["a", "b c", "Dé", "四"], ["12", "x-y"]] * 2
    y = [["B-X", "I-X", "O", "B-Y"], ["O", "O"]] * 2
    models = [trellis.CRF(max_iterations=3), trellis.CRF(max_iterations=3, order=2), trellis.HMM()]
    os.fsync = lambda _: None  # nothing that is written here has to last
    memory = os.memfd_create("model")
    path = f"/proc/self/fd/{memory}"
    originals = []
    for number, model in enumerate(models):
        folder = HOME / f"seed-{os.getpid()}-{number}"
        model.fit(X, y).save(folder)
        originals.append((folder.read_bytes(), store.load(folder)))
        folder.unlink()

    def write(data: bytes) -> None:
        os.ftruncate(memory, 0)
        os.pwrite(memory, data, 0)

    def rewritten(data: Any, stored: Any) -> bytes:
        arrays = {name: np.array(array) for name, array in stored.arrays.items()}
        for _ in range(data.ConsumeIntInRange(1, 3)):
            name = data.PickValueInList(sorted(arrays))
            flat = arrays[name].reshape(-1).view(np.uint8)
            if data.ConsumeBool() or not len(flat):
                arrays[name] = np.resize(arrays[name].reshape(-1), data.ConsumeIntInRange(0, 64))
            else:
                at = data.ConsumeIntInRange(0, len(flat) - 1)
                new = np.frombuffer(data.ConsumeBytes(data.ConsumeIntInRange(1, 8)), np.uint8)[: len(flat) - at]
                flat[at : at + len(new)] = new
        place = HOME / f"changed-{os.getpid()}"
        store.save(place, stored.kind, stored.manifest.values, arrays)
        return place.read_bytes()

    def one(data: Any) -> None:
        original, stored = originals[data.ConsumeIntInRange(0, len(originals) - 1)]
        if data.ConsumeBool():
            write(rewritten(data, stored))
        else:
            at = data.ConsumeIntInRange(0, len(original))
            gone = data.ConsumeIntInRange(0, 16)
            write(original[:at] + data.ConsumeBytes(data.ConsumeIntInRange(0, 32)) + original[at + gone :])
        with suppress(TrellisError):
            trellis.load(path).predict([["a", "Dé", "new"], []])

    return one


def fuzz_crfsuite() -> Callable[[Any], None]:
    import struct

    import trellis
    from trellis.compat.pycrfsuite import Tagger
    from trellis.errors import TrellisError
    from trellis.models import crfsuite

    X = [[{"a": 1.5, "b": "c"}, ["d", "四"]], [{"b": "e"}]] * 2
    model = trellis.CRF(features="given", constraints=False, scheme="plain").fit(X, [["A", "B"], ["四"]] * 2)
    original = crfsuite.to_bytes(model)

    def one(data: Any) -> None:
        file = bytearray(original)
        for _ in range(data.ConsumeIntInRange(1, 4)):
            at = data.ConsumeIntInRange(0, len(file) - 1)
            if data.ConsumeBool():  # a number, often one that is nearly right
                size = data.PickValueInList([len(file), at, 2048, 0])
                number = data.ConsumeIntInRange(-8, 8) + size if data.ConsumeBool() else data.ConsumeInt(4)
                file[at : at + 4] = struct.pack("<I", number % 2**32)
            else:
                file[at : at + data.ConsumeIntInRange(0, 8)] = data.ConsumeBytes(8)
        if data.ConsumeBool():
            file[4:8] = struct.pack("<I", len(file))
        with suppress(TrellisError):
            trellis.CRF.from_stored(crfsuite.read(bytes(file), "file")).predict(X)
        with suppress(TrellisError):  # without reading all of it
            tagger = Tagger()
            tagger.open_inmemory(bytes(file))
            tagger.tag_all(X)

    return one


def fuzz_dicts() -> Callable[[Any], None]:
    from trellis import _native

    class Odd:
        """A number that is computed, or not."""

        def __init__(self, value: Any) -> None:
            self.value = value

        def __float__(self) -> float:
            return self.value

    def value_of(data: Any, depth: int) -> Any:
        kind = data.ConsumeIntInRange(0, 13 if depth < 3 else 9)
        if kind <= 3:
            return data.ConsumeUnicode(data.ConsumeIntInRange(0, 12))
        if kind == 4:
            return data.ConsumeBytes(data.ConsumeIntInRange(0, 12))
        if kind <= 6:
            return data.ConsumeBool()
        if kind == 7:
            return data.ConsumeFloat()
        if kind == 8:
            return data.ConsumeInt(data.ConsumeIntInRange(1, 9))
        if kind == 9:
            return data.PickValueInList([None, Odd(1.5), Odd("x"), 1 << 80, "long text " * 5, "\ud800"])
        if kind == 10:
            return [value_of(data, depth + 1) for _ in range(data.ConsumeIntInRange(0, 3))]
        return {value_of(data, 9) if data.ConsumeBool() else f"key {i}": value_of(data, depth + 1)
                for i in range(data.ConsumeIntInRange(0, 5))}  # fmt: skip

    def one(data: Any) -> None:
        sentences = []
        try:
            for _ in range(data.ConsumeIntInRange(0, 3)):
                sentences.append([value_of(data, 0) for _ in range(data.ConsumeIntInRange(0, 4))])
            attributes = _native.Attributes()
            first = _native.compile_features(sentences, attributes, True)
            again = _native.compile_features(sentences, attributes, False)
        except (ValueError, TypeError):
            return
        for one, other in zip(first.arrays(), again.arrays(), strict=True):
            assert (one == other).all()

    return one


def fuzz_text() -> Callable[[Any], None]:
    from trellis import _native

    def one(data: Any) -> None:
        kind = data.ConsumeIntInRange(0, 2)
        text = data.ConsumeUnicode(data.ConsumeIntInRange(0, 60))
        if kind == 0:
            words = _native.EasyWords()
            words.exclude(data.ConsumeBytes(5))
            words.split(text, {text[:3]: (text[:1],)}, lambda piece: tuple(piece.split()))
        elif kind == 1:
            tokens = [data.ConsumeUnicode(data.ConsumeIntInRange(0, 5)) for _ in range(data.ConsumeIntInRange(0, 5))]
            with suppress(ValueError):
                _native.find_tokens(text, [*text.split(), *tokens])
        else:
            with suppress(ValueError):
                _native.pack_texts([text, None, data.ConsumeUnicode(10)])

    return one


def work(target: str, options: list[str]) -> None:
    """What a process of the fuzzer's environment does."""
    import atheris

    with atheris.instrument_imports(include=["trellis"]):
        import trellis  # noqa: F401
        from trellis import _native  # noqa: F401
    one = globals()[f"fuzz_{target}"]()
    atheris.Setup([sys.argv[0], *options], lambda data: one(atheris.FuzzedDataProvider(data)))
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--runs", type=int, default=-1, help="executions of each target; default: no limit")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("target", nargs="*", help="model, crfsuite, dicts, text; all of them unless given")
    given, options = parser.parse_known_args()
    if given.work:
        work(given.work, [*given.target, *options])
        return 0
    if shutil.which("clang++") is None:
        print("no clang++ is here, so native code is not fuzzed: as root, apt-get install clang")
        return 0
    python = prepare(HOME)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "atheris>=3"], check=True)
    build("fuzz", HOME, python, [], compiler="clang++")
    where = [str(python), "-c", "import atheris; print(atheris.path())"]
    found = subprocess.run(where, check=True, capture_output=True, text=True)
    variables = os.environ | {
        "LD_PRELOAD": f"{found.stdout.strip()}/asan_with_fuzzer.so",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONHASHSEED": "0",
        "TRELLIS_NUM_THREADS": "1",
    }
    (HOME / "found").mkdir(exist_ok=True)
    for target in given.target or TARGETS:
        corpus = HOME / "corpus" / target
        corpus.mkdir(parents=True, exist_ok=True)
        command = [python, "-m", "tests.fuzz_native", "--work", target, str(corpus), f"-max_total_time={given.seconds}",
                   f"-runs={given.runs}", "-print_final_stats=1",
                   f"-artifact_prefix={HOME}/found/{target}-"]  # fmt: skip
        code = subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode
        print(f"{target}: the fuzzer ended with code {code}")
        if code:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What fails in tests/test_faults.py, in a process of its own: the N-th open, write, fsync or rename, for every N.

    LD_PRELOAD=faulty.so python -m tests.faulty 1                  everything: what `make faults` does
    LD_PRELOAD=faulty.so python -m tests.faulty 7 training fit     every seventh failure of these

After each failure the old state must be there or the new one, the error must be one of Trellis, and what failed must
work when it is done again. Of allocations in native code the first 200 fail, one at a time, and 200 others.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import trellis
from trellis import corpus, demo
from trellis.distributed import engines
from trellis.errors import TrellisError
from trellis.models import CRF, HMM, NeuralTagger
from trellis.models import folder as model_folder
from trellis.training import Iterate, Resumption, Step
from trellis.training.checkpoint import TrainingFolder

SENTENCES = demo.english().train[:12]
FIRST, OTHERS = 200, 200
MOST = 2000

Folder = Callable[[Path], Any]


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every file."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@dataclass(frozen=True)
class Files:
    """Something that writes into a folder."""

    prepare: Folder
    act: Folder
    state: Folder = bytes_of
    again: Folder | None = None
    """How to do it again after a failure, if not in the same way."""


class Failed(TrellisError):
    """What bulk tagging reports instead of raising it."""


class Here(engines.Engine):
    """Shards are tagged in this process."""

    workers = 1

    def run(self, job: Any, shard: Any, tell: Any) -> Any:
        return engines.attempt(job, shard, tell)

    def close(self) -> None:
        pass


def tagger(c2: float = 0.1, **settings: Any) -> CRF:
    return CRF(features="ner", c2=c2, max_iterations=4, **settings)


def bulk(*, resume: bool = False) -> Folder:
    def run(folder: Path) -> None:
        from trellis.distributed import folders as bulk_folder

        bulk_folder.open_engine = lambda *_: Here()  # type: ignore[assignment]
        report = bulk_folder.tag_folder(folder / "m", [folder / "in"], folder / "out", to="jsonl", resume=resume)
        if report.failed:
            raise Failed(str(report.failed))

    return run


def bulk_state(folder: Path) -> Any:
    """Shards that are marked as done, with their output; None if it is not the one."""
    marks = {path.stem: json.loads(path.read_text()) for path in (folder / "out/_trellis/done").glob("*.json")}
    return [(name, (folder / "out" / mark["output"]).read_bytes()) for name, mark in sorted(marks.items())]


def with_shards(folder: Path) -> None:
    tagger().fit(SENTENCES).save(folder / "m")
    (folder / "in").mkdir()
    for number in range(2):
        text = "".join(json.dumps({"text": " ".join(s.tokens)}) + "\n" for s in SENTENCES[number::2])
        (folder / "in" / f"{number}.jsonl").write_text(text + ("nonsense\n" if number else ""))


def checkpoint(number: int) -> Folder:
    def write(folder: Path) -> None:
        written = Resumption(np.zeros(5), TrainingFolder(folder, "crf", overwrite=True))
        steps = [Step(i, 1.0, None, None, 0.0, None) for i in range(number)]
        written.state.steps, written.state.kept = steps, number - 1
        written.state.weights = np.full(5, 1.0 * number)
        written.visit(Iterate(np.full(5, 2.0 * number), 1.0, None))

    return write


def checkpoint_state(folder: Path) -> bytes | None:
    place = TrainingFolder(folder, "crf", overwrite=True)
    place.resuming = True
    found = Resumption(np.zeros(5), place)
    return found.weights.tobytes() if found.state.steps else None


def training(c2: float, *, resume: bool = False) -> Folder:
    def train(folder: Path) -> None:
        model = tagger(c2, checkpoint_seconds=0.0)
        with model_folder.training(folder / "m", "crf", model.kind, resume=resume, overwrite=not resume) as place:
            model.fit(SENTENCES, folder=place)
            place.save(model)

    return train


def go_on(folder: Path) -> None:
    """Continue if there are checkpoints, or else begin again."""
    training(1.0, resume=any((folder / "m" / "checkpoints").glob("checkpoint-*")))(folder)


def model_state(folder: Path) -> Any:
    return trellis.load(folder / "m").marginals(SENTENCES[:2])[0].tobytes()


def corrections(*words: str) -> Folder:
    from trellis.server import Corrections

    def add(folder: Path) -> None:
        kept = Corrections(folder / "kept")
        try:
            for word in words:
                kept.add("ner", word, [word], ["O"])
        finally:
            kept.close()

    return add


def corrections_state(folder: Path) -> Any:
    from trellis.server import Corrections

    kept = Corrections(folder / "kept")
    kept.close()
    return kept.sentences("ner")


def as_page(old: Any, new: Any) -> Files:
    from trellis.export import to_web

    return Files(lambda folder: to_web(old, folder), lambda folder: to_web(new, folder))


def small_network(seed: int) -> NeuralTagger:
    encoder = {"words": {"size": 4}, "characters": {"size": 4, "output": 4}, "hidden": 4}
    return NeuralTagger(encoder=encoder, training={"epochs": 1, "seed": seed}).fit(SENTENCES)


FILES: dict[str, Callable[[], Files]] = {
    "save": lambda: _saving(tagger(0.1).fit(SENTENCES), tagger(1.0).fit(SENTENCES)),
    "folder": lambda: _in_folder(tagger(0.1).fit(SENTENCES), tagger(1.0).fit(SENTENCES)),
    "checkpoint": lambda: Files(checkpoint(3), checkpoint(4), checkpoint_state),
    "training": lambda: Files(training(0.1), training(1.0), model_state, go_on),
    "corrections": lambda: Files(corrections("a", "b"), corrections("c"), corrections_state),
    "bulk": lambda: Files(with_shards, bulk(), bulk_state, bulk(resume=True)),
    "onnx": lambda: _exporting(),
    "web": lambda: as_page(small_network(1), small_network(2)),
    "corpus": lambda: Files(
        lambda folder: corpus.write(folder / "a.conll.gz", SENTENCES[:2]),
        lambda folder: corpus.write(folder / "a.conll.gz", SENTENCES),
    ),
}


def _saving(old: Any, new: Any) -> Files:
    return Files(lambda folder: old.save(folder / "m"), lambda folder: new.save(folder / "m"))


def _in_folder(old: Any, new: Any) -> Files:
    return Files(lambda f: model_folder.save_model(f, old), lambda f: model_folder.save_model(f, new))


def _exporting() -> Files:
    from trellis.export import to_onnx

    old, new = tagger().fit(SENTENCES), HMM().fit(SENTENCES)
    return Files(lambda folder: to_onnx(old, folder / "m.onnx"), lambda folder: to_onnx(new, folder / "m.onnx"))


@dataclass
class Trial:
    """All failures of one thing, and what was wrong after them."""

    library: Any = field(default_factory=lambda: ctypes.CDLL(None))
    problems: list[str] = field(default_factory=list)

    def files(self, what: Files, lasting: bool, every: int) -> int:
        with tempfile.TemporaryDirectory() as base:
            template, folder = Path(os.path.realpath(base), "template"), Path(os.path.realpath(base), "folder")
            template.mkdir()
            what.prepare(template)
            shutil.copytree(template, folder)
            old = what.state(folder)
            what.act(folder)
            new = what.state(folder)
            assert old != new
            for number in range(1, MOST, every):
                shutil.rmtree(folder)
                shutil.copytree(template, folder)
                kind = errno.ENOSPC if lasting else errno.EIO
                self.library.fault_calls(os.fsencode(folder), ctypes.c_long(number), int(lasting), kind)
                error = None
                try:
                    what.act(folder)
                except BaseException as problem:
                    error = problem
                seen = self.library.fault_calls_end()
                where = f"call {number}{' and all later ones' if lasting else ''}"
                self._check(where, what, folder, error, old, new)
                if seen < number:
                    assert error is None
                    return int(seen)
        raise AssertionError(f"more than {MOST} calls")

    def _check(self, where: str, what: Files, folder: Path, error: Any, old: Any, new: Any) -> None:
        if error is not None and not isinstance(error, TrellisError):
            self.problems.append(f"{where} is not an error of ours: {''.join(traceback.format_exception(error)[-3:])}")
        try:
            state = what.state(folder)
            if state not in ((new,) if error is None else (old, new)) and not _is_part(state, new):
                self.problems.append(f"{where}: neither the old state nor the new one, after {error!r}: {state!r:.200}")
            (what.again or what.act)(folder)
            if what.state(folder) != new:
                self.problems.append(f"{where}: done again, it is not the new state")
            left = [path.name for path in folder.rglob(".*")]
            if left:
                self.problems.append(f"{where}: left {left}")
        except Exception:
            self.problems.append(f"{where}, {error!r}, and then: {traceback.format_exc(-3)}")

    def memory(self, act: Callable[[], Any], every: int) -> int:
        """Each failure in a process of its own, which may crash."""
        expected = act()
        self.library.fault_allocations(ctypes.c_long(0))
        act()
        total = self.library.fault_allocations_end()
        others = random.Random(0).sample(range(FIRST + 1, total + 1), min(OTHERS, max(0, total - FIRST)))
        for number in [*range(1, min(FIRST, total) + 1), *others][::every]:
            child = os.fork()
            if not child:
                self._fail_once(number, act, expected)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code:
                self.problems.append(f"allocation {number} of {total}: exit code {code}")
        return total

    def _fail_once(self, number: int, act: Callable[[], Any], expected: Any) -> NoReturn:
        """In the child: exit code 0 if the error was clear, and the same was done again without one."""
        code = 1
        try:
            self.library.fault_allocations(ctypes.c_long(number))
            error = None
            try:
                act()
            except BaseException as problem:
                error = problem
            self.library.fault_allocations_end()
            if error is not None and not isinstance(error, MemoryError | TrellisError):
                traceback.print_exception(error)
            elif act() != expected:
                print(f"allocation {number}: another answer afterwards", file=sys.stderr)
            else:
                code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)


def _is_part(state: Any, new: Any) -> bool:
    """Whether each piece of work is done or not, as shards are."""
    return isinstance(state, list) and isinstance(new, list) and all(piece in new for piece in state)


def loading() -> Callable[[], Any]:
    path = Path(tempfile.mkdtemp(), "m")
    tagger().fit(SENTENCES).save(path)
    return lambda: trellis.load(path).predict([sentence.tokens for sentence in SENTENCES])


def predicting(**settings: Any) -> Callable[[], Any]:
    fitted = tagger(**settings).fit(SENTENCES)
    return lambda: fitted.predict([sentence.tokens for sentence in SENTENCES])


def fitting(make: Callable[[], Any]) -> Callable[[], Any]:
    model = make()

    def fit() -> Any:
        model.fit(SENTENCES)
        return [marginals.tobytes() for marginals in model.marginals(SENTENCES)]

    return fit


def of_dicts() -> Callable[[], Any]:
    X = [[{"word": word, "length": len(word)} for word in sentence.tokens] for sentence in SENTENCES]
    model = CRF(features="given", c2=0.1, max_iterations=2)
    return lambda: model.fit(X, [sentence.tags for sentence in SENTENCES]).predict(X)


MEMORY: dict[str, Callable[[], Callable[[], Any]]] = {
    "load": loading,
    "predict": predicting,
    "fit": lambda: fitting(tagger),
    "fit dicts": of_dicts,
    "fit HMM": lambda: fitting(HMM),
}


def main(every: str, *names: str) -> int:
    wrong = 0
    for name in names or (*FILES, *MEMORY):
        trial = Trial()
        if name in FILES:
            what = FILES[name]()
            count = trial.files(what, False, int(every))
            trial.files(what, True, int(every))
        else:
            count = trial.memory(MEMORY[name](), int(every))
        print(f"{name}: {count} {'calls' if name in FILES else 'allocations'}, {len(trial.problems)} problems")
        print(*trial.problems[:10], sep="\n", end="", flush=True)
        wrong += len(trial.problems)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Chinese segmentation of text never seen, on one core: Trellis beside jieba, rjieba, ltp-extension and spacy-pkuseg.

    python benchmarks/segmentation.py ../shared/data/ud_chinese_gsd

Systems that can be trained are trained on the training part. Rivals that are not installed are left out, with a word.
Times are CPU seconds, the best of several rounds in which the systems take turns, so that a busy machine hits all.
Trellis answers with `tagger.cut(texts)`, as a user would; "characters to labels" is `predict` on lists of characters.
"""

import argparse
import contextlib
import io
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _harness import Bar, Row, Section, machine, make_console, write_json
from feature_crf import read_pos

from trellis import chain, corpus
from trellis.metrics import segmentation_scores
from trellis.models import CRF

RESULTS = Path(__file__).parent / "results" / "segmentation.json"
ROUNDS = 15
Words = list[list[str]]
Segmenter = Callable[[list[str]], Words]


def of_jieba(train: Words, out: Path) -> Segmenter:
    import jieba

    jieba.setLogLevel(60)
    jieba.initialize()
    return lambda texts: [jieba.lcut(text) for text in texts]


def of_rjieba(train: Words, out: Path) -> Segmenter:
    import rjieba

    return lambda texts: [rjieba.cut(text) for text in texts]


def of_ltp(train: Words, out: Path) -> Segmenter:
    """The averaged perceptron of ltp-extension, 8 rounds."""
    from ltp_extension.perceptron import CWSModel, CWSTrainer

    path = out / "train.txt"
    path.write_text("".join(" ".join(words) + "\n" for words in train), encoding="utf-8")
    trainer = CWSTrainer()
    trainer.epoch, trainer.verbose = 8, False
    trainer.load_train_data(str(path))
    trainer.load_eval_data(str(path))
    trainer.train().save(str(out / "ltp.bin"))
    model = CWSModel.load(str(out / "ltp.bin"))
    return lambda texts: [model.predict(text) for text in texts]


def of_pkuseg(train: Words, out: Path) -> Segmenter:
    """Its CRF, trained here for 5 rounds, without a dictionary: the package holds no model and would download one."""
    import spacy_pkuseg

    for name, part in (("pkuseg.txt", train), ("pkuseg-test.txt", train[:50])):
        (out / name).write_text("".join(" ".join(words) + "\n" for words in part), encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        spacy_pkuseg.train(str(out / "pkuseg.txt"), str(out / "pkuseg-test.txt"), str(out / "pkuseg"), train_iter=5)
        segmenter = spacy_pkuseg.pkuseg(str(out / "pkuseg"), user_dict=None)
    return lambda texts: [segmenter.cut(text) for text in texts]


RIVALS = {"jieba": of_jieba, "rjieba": of_rjieba, "ltp-extension": of_ltp, "spacy-pkuseg": of_pkuseg}


def installed(train: Words, out: Path) -> tuple[dict[str, Segmenter], list[str]]:
    """The rivals that can run, and why others cannot."""
    found, missing = dict[str, Segmenter](), list[str]()
    for name, make in RIVALS.items():
        try:
            found[name] = make(train, out)
            found[name](["测试"])
        except Exception as error:
            missing.append(f"{name} is left out: {str(error).splitlines()[0]:.80}")
    return found, missing


class Trellis:
    """The feature CRF, which can forget the characters that it has seen."""

    def __init__(self, path: Path) -> None:
        begin = time.process_time()
        self.model = CRF.load(path)
        self.model.predict([["一"]])
        self.prepared = time.process_time() - begin

    def __call__(self, texts: list[str]) -> Words:
        return self.model.cut(texts)

    def by_spans(self, texts: list[str]) -> Words:
        """The words of the spans of `tagger(texts)`, which also have offsets and probabilities."""
        return [[span.text for span in tagged.spans] for tagged in self.model(texts)]

    def forget(self) -> None:
        assert self.model._scorer is not None
        self.model._scorer[1].forget()


def best_times(systems: dict[str, Callable[[], object]], before: dict[str, Callable[[], object]]) -> dict[str, float]:
    """CPU seconds of each, the best of all rounds; `before` is called first and not counted."""
    best = dict.fromkeys(systems, math.inf)
    for _ in range(ROUNDS):
        for name, run in systems.items():
            before.get(name, int)()
            begin = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - begin)
    return best


def section(folder: Path, out: Path) -> Section:
    train, gold = (read_pos(folder, part)[0] for part in ("train", "test"))
    texts = ["".join(words) for words in gold]
    chain.set_num_threads(2)
    CRF(features="seg").fit([corpus.sentence_from_words(words) for words in train]).save(out / "model")
    chain.set_num_threads(1)
    own = Trellis(out / "model")
    rivals, missing = installed(train, out)
    answers = {"Trellis, cut(texts)": own, **rivals}
    f1 = {name: 100 * segmentation_scores(gold, run(texts)).words.f1 for name, run in answers.items()}
    characters = [list(text) for text in texts]
    never_seen: dict[str, Callable[[], object]] = {
        "Trellis, never seen, characters to labels": lambda: own.model.predict(characters),
        "Trellis, never seen, cut(texts)": lambda: own(texts),
        "Trellis, never seen, spans of tagger(texts)": lambda: own.by_spans(texts),
    }
    f1 |= dict.fromkeys(never_seen, f1["Trellis, cut(texts)"])
    f1["Trellis, never seen, spans of tagger(texts)"] = 100 * segmentation_scores(gold, own.by_spans(texts)).words.f1
    times = best_times(
        never_seen | {name: (lambda run=run: run(texts)) for name, run in answers.items()},
        dict.fromkeys(never_seen, own.forget),
    )
    count = sum(map(len, texts))
    rows: list[Row] = [
        {"system": name, "F1": round(f1[name], 2), "characters / s": count / taken} for name, taken in times.items()
    ]
    bars = [
        Bar(
            "million characters per second, never seen",
            count / times["Trellis, never seen, cut(texts)"] / 1e6,
            3,
        )
    ]
    size = (out / "model").stat().st_size / 1e6
    note = f"The model has {size:.1f} MB; to open and prepare it takes {1000 * own.prepared:.0f} ms, once per process."
    title = f"Segmentation of GSD test, {count} characters, one core; CPU time, best of {ROUNDS}"
    return Section(title, rows, bars, "\n".join([note, *missing]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chinese", type=Path, help="folder of UD Chinese-GSD")
    folder = parser.parse_args().chinese
    with tempfile.TemporaryDirectory() as out:
        found = section(folder, Path(out))
    found.show(make_console())
    packages = ("trellis", "numpy", "jieba", "rjieba", "ltp-extension", "spacy-pkuseg")
    write_json(RESULTS, {"machine": machine(packages), "sections": [found.to_json()]})


if __name__ == "__main__":
    main()

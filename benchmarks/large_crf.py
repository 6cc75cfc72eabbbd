"""A feature CRF trained on 1.76 million characters, by the command line: time, memory, size of the file.

    python benchmarks/large_crf.py ../shared/data/ud_chinese_gsd
    python benchmarks/large_crf.py ../shared/data/ud_chinese_gsd --pruning --iterations 100

The corpus is sampled from GSD's training part: words follow each other as they do there, or are drawn by frequency
alone, and some are new, made of characters by frequency. How often each happens is chosen so that there are about
as many different features as in news text of that size: 2.35 million. With `--pruning`, the file and F1 on the
held-out parts of GSD with and without the smallest weights.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from _harness import Bar, Row, Section, machine, make_console, write_json
from feature_crf import read_pos

CHARACTERS = 1_760_000
FOLLOWS, NEW = 0.70, 0.05  # how often a word is drawn from those that follow the last one, and how often it is new
RESULTS = Path(__file__).parent / "results" / "large_crf.json"


class Language:
    """What is drawn from: words by the word before them and by frequency, characters by frequency."""

    def __init__(self, sentences: list[list[str]], seed: int) -> None:
        self.random = random.Random(seed)
        self.lengths = list(map(len, sentences))
        self.words = [word for words in sentences for word in words]
        self.characters = [character for word in self.words for character in word if character.isalpha()]
        self.after: dict[str, list[str]] = {}
        for words in sentences:
            for before, word in pairwise(["", *words]):
                self.after.setdefault(before, []).append(word)

    def word(self, before: str) -> str:
        """The next word."""
        draw = self.random.random()
        if draw < NEW:
            return "".join(self.random.choices(self.characters, k=self.random.choice((1, 2, 2, 2, 3, 3))))
        if draw < NEW + FOLLOWS and before in self.after:
            return self.random.choice(self.after[before])
        return self.random.choice(self.words)

    def sentences(self, characters: int) -> Iterator[list[str]]:
        """Sentences as long as those it learned from, until there are that many characters."""
        while characters > 0:
            words = [""]
            for _ in range(self.random.choice(self.lengths)):
                words.append(self.word(words[-1]))
            yield words[1:]
            characters -= sum(map(len, words))


def write_corpus(gsd: Path, path: Path, characters: int = CHARACTERS) -> None:
    """One sentence per line, words between spaces."""
    language = Language(read_pos(gsd, "train")[0], seed=1)
    with path.open("w", encoding="utf-8") as out:
        out.writelines(" ".join(words) + "\n" for words in language.sentences(characters))


def train(corpus: Path, out: Path, iterations: int, *settings: str) -> Row:
    """What a user runs, in a process of its own."""
    command = [sys.executable, "-m", "trellis", "train", "--model", "crf", "--task", "seg", "--train", str(corpus)]
    command += ["--out", str(out), "--quiet", "--set", f"max_iterations={iterations}"]
    for setting in settings:
        command += ["--set", setting]
    _, status, used = os.wait4(os.posix_spawn(sys.executable, command, os.environ), 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    steps = [step["seconds"] for step in json.loads((out / "history.json").read_text())["steps"]]
    times = sorted(b - a for a, b in pairwise(steps))
    return {
        "seconds per iteration": times[len(times) // 4],
        "CPU seconds in all": used.ru_utime + used.ru_stime,
        "peak memory, MB": used.ru_maxrss / 1024,
        "file, MB": sum(path.stat().st_size for path in out.glob("model*")) / 1e6,
    }


def features_of(corpus: Path, model: Path) -> str:
    import trellis
    from trellis.corpus import iterate
    from trellis.features import AttributeIndex, TemplateExtractor, get_templates

    index, p = AttributeIndex(), trellis.load(model).parameters_
    TemplateExtractor(get_templates("seg")).compile(list(iterate(corpus)), index, grow=True)
    return f"{len(index):,} features; the file has {len(p.index):,} of them, with {len(p.weights):,} weights"


def measure(gsd: Path, iterations: int) -> Section:
    with tempfile.TemporaryDirectory() as folder:
        corpus, out = Path(folder, "train.seg"), Path(folder, "model")
        write_corpus(gsd, corpus)
        row = train(corpus, out, iterations, "c2=0.3")
        note = features_of(corpus, out)
    bars = [
        Bar("peak memory, MB", row["peak memory, MB"], 700, at_least=False),
        Bar("file, MB", row["file, MB"], 40, at_least=False),
    ]
    return Section(f"{CHARACTERS:,} characters, {iterations} iterations, trellis train", [row], bars, note)


def measure_pruning(gsd: Path, iterations: int) -> Section:
    """One training; then all weights, and those from 1e-3 of the largest on."""
    import trellis
    from trellis.corpus import iterate

    with tempfile.TemporaryDirectory() as folder:
        corpus, out = Path(folder, "train.seg"), Path(folder, "model")
        write_corpus(gsd, corpus)
        settings = {"max_iterations": iterations, "c2": 0.3, "prune": 0.0}
        tagger = trellis.CRF(features="seg", **settings).fit(list(iterate(corpus)))
        everything, rows = tagger.parameters_, []
        for share in (0.0, 1e-3):
            tagger.parameters_ = everything.pruned(share)
            tagger.save(out)
            row: Row = {"pruned below": share, "file, MB": out.stat().st_size / 1e6}
            rows.append(row | {f"F1 {part}": held_out_f1(tagger, gsd, part) for part in ("dev", "test")})
    bars = [
        Bar("file, MB", rows[1]["file, MB"], 40, at_least=False),
        Bar("F1 lost on test", rows[0]["F1 test"] - rows[1]["F1 test"], 0.05, at_least=False),
    ]
    return Section(f"{CHARACTERS:,} characters, {iterations} iterations, pruning", rows, bars)


def held_out_f1(tagger: Any, gsd: Path, part: str) -> float:
    from trellis.corpus import sentence_from_words

    sentences = [sentence_from_words(words) for words in read_pos(gsd, part)[0]]
    return 100 * float(tagger.evaluate(sentences).micro.f1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chinese", type=Path, help="folder of UD Chinese-GSD")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--pruning", action="store_true", help="what the smallest weights are worth")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    console = make_console()
    section = (measure_pruning if options.pruning else measure)(options.chinese, options.iterations)
    section.show(console)
    write_json(options.json, {"machine": machine(("trellis", "numpy")), "sections": [section.to_json()]})


if __name__ == "__main__":
    main()

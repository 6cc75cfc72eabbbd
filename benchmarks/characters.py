"""Training of a character BiLSTM-CRF for Chinese segmentation against the same network in plain torch, on the CPU.

    python benchmarks/characters.py ../shared/data/ud_chinese_gsd

Embedding, packed nn.LSTM, linear layer, and a CRF in torch operations over the whole batch, one step after another,
with a start and a stop label, as NCRF++ has it. Same sentences, sizes and optimizer, and its batches of ten, which
it takes in random order and Trellis by length. An epoch of each takes its turn; the fastest counts, in wall-clock and
in CPU seconds, which is the figure for a busy machine.
"""

import argparse
import os
import time
from itertools import pairwise
from pathlib import Path

import torch
from _harness import Bar, Row, Section, machine, make_console, write_json
from _plain import Labelled, TorchCRFTagger, batches_of
from feature_crf import read_pos
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from trellis import NeuralTagger, chain

RESULTS = Path(__file__).parent / "results" / "characters.json"
SIZE, HIDDEN, BATCH = 100, 100, 10  # of a character's vector, units in each direction, sentences
BAR = 6


def characters_of(words: list[str]) -> tuple[list[str], list[str]]:
    """A sentence as characters, with the place of each in its word."""
    tags = [tag for word in words for tag in (["S"] if len(word) == 1 else ["B", *"M" * (len(word) - 2), "E"])]
    return list("".join(words)), tags


def epochs_of_trellis(train: Labelled, epochs: int, seed: int) -> list[tuple[float, float]]:
    """Wall-clock and CPU seconds of each epoch but the first, which includes the set-up."""
    ends: list[tuple[float, float]] = []
    model = NeuralTagger(
        encoder={
            "words": {"size": SIZE, "unknown": 0.0},
            "characters": {"kind": "none"},
            "pairs": 0,
            "hidden": 2 * HIDDEN,
            "dropout": 0.5,
            "locked_dropout": 0.0,
            "word_dropout": 0.0,
        },
        training={"epochs": epochs + 1, "batch_size": BATCH, "seed": seed},
    )
    X, y = map(list, zip(*train, strict=True))
    model.fit(X, y, progress=lambda step: ends.append((step.seconds, time.process_time())))
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(ends)]


class Rival:
    """The plain network, its vocabulary, and an epoch of it."""

    def __init__(self, train: Labelled, seed: int) -> None:
        torch.manual_seed(seed)
        names = {name: number + 1 for number, name in enumerate(sorted({c for tokens, _ in train for c in tokens}))}
        labels = {name: number for number, name in enumerate("BMES")}
        self.data = [
            (torch.tensor([names[c] for c in tokens]), torch.tensor([labels[tag] for tag in tags]))
            for tokens, tags in train
        ]
        self.network = TorchCRFTagger(len(names) + 1, SIZE, HIDDEN, len(labels))
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=5e-3)

    def epoch(self) -> tuple[float, float]:
        """Wall-clock and CPU seconds."""
        begin, cpu = time.perf_counter(), time.process_time()
        for batch in batches_of([self.data[i] for i in torch.randperm(len(self.data)).tolist()], BATCH):
            ids, tags = (pad_sequence(list(part), batch_first=True) for part in zip(*batch, strict=True))
            self.optimizer.zero_grad()
            self.network.loss(ids, tags, torch.tensor([len(own) for own, _ in batch])).backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
            self.optimizer.step()
        return time.perf_counter() - begin, time.process_time() - cpu


def section(train: Labelled, epochs: int, seed: int, threads: int) -> Section:
    rival, tokens = Rival(train, seed), sum(len(tokens) for tokens, _ in train)
    times: dict[str, list[tuple[float, float]]] = {"Trellis": [], "plain torch": []}
    for _ in range(epochs):
        times["plain torch"].append(rival.epoch())
        times["Trellis"] += epochs_of_trellis(train, 1, seed)
    best = {side: (min(wall for wall, _ in own), min(cpu for _, cpu in own)) for side, own in times.items()}
    rows: list[Row] = [
        {"side": side, "s / epoch": wall, "CPU s": cpu, "characters / s": tokens / wall}
        for side, (wall, cpu) in best.items()
    ]
    ratios = [theirs / ours for ours, theirs in zip(best["Trellis"], best["plain torch"], strict=True)]
    bars = [Bar("times plain torch, wall-clock", ratios[0], BAR), Bar("times plain torch, CPU", ratios[1], BAR)]
    title = f"{len(train):,} sentences, {tokens:,} characters, {SIZE} -> 2 x {HIDDEN}, batches of {BATCH}"
    return Section(f"{title}, {threads} threads", rows, bars)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of UD Chinese-GSD")
    parser.add_argument("--sentences", type=int, default=4000, help="at most this many")
    parser.add_argument("--epochs", type=int, default=3, help="epochs of each side; the fastest counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    chain.set_num_threads(options.threads)
    words = [own for own in read_pos(options.data, "train")[0] if own]
    train = [characters_of(own) for own in words[: options.sentences]]
    found = section(train, options.epochs, options.seed, options.threads)
    found.show(make_console())
    write_json(RESULTS, {"machine": machine(["trellis", "torch"]), "sections": [found.to_json()]})


if __name__ == "__main__":
    main()

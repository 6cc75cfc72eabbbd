"""Flair's side of `neural.py`, run by the Python of a virtual environment that has Flair but not Trellis.

    python _flair.py JOB.json

The job names the sentences, the file of vectors, the dimensions and how long to train; the last line printed is the
result as JSON: wall-clock and CPU seconds of each epoch, dev scores as Flair counts them, tagging times, and the tags
of the best model.
"""

import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import flair
import torch
from flair.data import Corpus, Dictionary, Sentence
from flair.datasets import FlairDatapointDataset
from flair.embeddings import WordEmbeddings
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer
from flair.trainers.plugins import TrainerPlugin

Labelled = list[tuple[list[str], list[str]]]  # tokens and BIO tags


class Stopwatch(TrainerPlugin):
    """Wall-clock and CPU seconds of each training epoch, without the evaluation, and its dev score."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self.cpu: list[float] = []
        self.scores: list[float] = []
        self._begin = self._cpu_begin = 0.0

    @TrainerPlugin.hook
    def before_training_epoch(self, **_: Any) -> None:
        self._begin, self._cpu_begin = time.perf_counter(), time.process_time()

    @TrainerPlugin.hook
    def after_training_epoch(self, **_: Any) -> None:
        self.seconds.append(time.perf_counter() - self._begin)
        self.cpu.append(time.process_time() - self._cpu_begin)

    @TrainerPlugin.hook
    def metric_recorded(self, record: Any) -> None:
        if str(record.name) == "dev/score":
            self.scores.append(float(record.value))


def make_sentence(tokens: list[str], tags: list[str]) -> Sentence:
    sentence = Sentence(tokens)
    for first, last, label in spans_of(tags):
        sentence[first:last].add_label("ner", label)
    return sentence


def spans_of(tags: list[str]) -> list[tuple[int, int, str]]:
    """First, one past the last, and label of the spans of BIO tags."""
    spans: list[tuple[int, int, str]] = []
    for place, tag in enumerate(tags):
        if tag.startswith("B-"):
            spans.append((place, place + 1, tag[2:]))
        elif tag.startswith("I-"):
            first, _, label = spans[-1]
            spans[-1] = (first, place + 1, label)
    return spans


def tags_of(sentence: Sentence) -> list[str]:
    tags = ["O"] * len(sentence)
    for span in sentence.get_spans("ner"):
        first = span.tokens[0].idx - 1
        label = span.get_label("ner").value
        tags[first : first + len(span)] = [f"B-{label}", *[f"I-{label}"] * (len(span) - 1)]
    return tags


def make_tagger(job: dict[str, Any], corpus: Corpus) -> SequenceTagger:
    labels: Dictionary = corpus.make_label_dictionary(label_type="ner", add_unk=False)
    return SequenceTagger(
        embeddings=WordEmbeddings(job["vectors"]),
        tag_dictionary=labels,
        tag_type="ner",
        tag_format="BIO",
        hidden_size=job["hidden"],
        rnn_layers=1,
        use_crf=True,
    )


def time_tagging(tagger: SequenceTagger, sentences: Labelled, batch: int, repeats: int) -> float:
    """Seconds of the fastest pass; the sentences are new each time, so that nothing about them is remembered."""
    best = float("inf")
    for _ in range(repeats):
        fresh = [Sentence(tokens) for tokens, _ in sentences]
        begin = time.perf_counter()
        tagger.predict(fresh, mini_batch_size=batch)
        best = min(best, time.perf_counter() - begin)
    return best


def run(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    flair.device = torch.device("cpu")
    flair.set_seed(job["seed"])
    logging.getLogger("flair").setLevel(logging.ERROR)
    train, dev, test = (job[part] for part in ("train", "dev", "test"))
    parts = [FlairDatapointDataset([make_sentence(*pair) for pair in part]) for part in (train, dev)]
    corpus = Corpus(train=parts[0], dev=parts[1], sample_missing_splits=False)
    tagger, watch = make_tagger(job, corpus), Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        ModelTrainer(tagger, corpus).train(
            Path(folder),
            mini_batch_size=job["batch"],
            max_epochs=job["epochs"],
            save_final_model=False,
            plugins=[watch],
        )
        best = Path(folder) / "best-model.pt"
        if best.exists():
            tagger.load_state_dict(SequenceTagger.load(best).state_dict())
    tagger.eval()
    seconds = {str(size): time_tagging(tagger, test, size, job["repeats"]) for size in job["tag_batches"]}
    found = [Sentence(tokens) for tokens, _ in dev]
    tagger.predict(found, mini_batch_size=32)
    return {
        "version": flair.__version__,
        "torch": torch.__version__,
        "epochs": watch.seconds,
        "cpu": watch.cpu,
        "scores": watch.scores,
        "tagging": seconds,
        "tags": [tags_of(sentence) for sentence in found],
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))

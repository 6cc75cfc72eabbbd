"""Writes the files beside this one: small models and their answers, to be read by every later version.

    python tests/models/data/write.py FOLDER

Those in this folder are in the layout of today, with weights that were learned once; run this for a new layout only.
Everything is learnt from `trellis.demo`.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from trellis import CRF, HMM, NeuralTagger, demo

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *("##" + letter for letter in LETTERS), ".", ","]
SMALL: dict[str, Any] = {
    "words": {"size": 8, "min_freq": 2},
    "characters": {"size": 4, "output": 6},
    "capitalisation": 3,
    "hidden": 12,
}
TRAINING = {"epochs": 40, "learning_rate": 0.02}
LONGER = {"epochs": 40, "learning_rate": 0.005, "head_learning_rate": 0.02}


def ready(tokens: Any) -> list[list[str]]:
    """Features made by hand: the word, its last letters, and whether it begins with a capital."""
    return [[f"word={token.lower()}", f"end={token[-2:]}", f"title={token.istitle()}"] for token in tokens]


def tiny_encoder(folder: str) -> str:
    """A BERT of a few hundred weights, as Hugging Face stores one."""
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
    config = BertConfig(vocab_size=len(PIECES), max_position_embeddings=48, **sizes)
    BertModel(config).save_pretrained(folder)
    return folder


def save(folder: Path, name: str, model: Any, inputs: list[Any]) -> None:
    """The model, and beside it what it is asked and what it answers."""
    model.save(folder / f"{name}.safetensors")
    rows = [np.round(own, 6).tolist() for own in model.marginals(inputs)]
    answers = {"inputs": inputs, "labels": model.labels_, "tags": model.predict(inputs), "probabilities": rows}
    (folder / f"{name}.json").write_text(json.dumps(answers, ensure_ascii=False) + "\n", encoding="utf-8")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    english, chinese = demo.english(), demo.chinese()
    train, test = english.train[:60], [list(s.tokens) for s in english.test[:4]]
    characters, signs = chinese.train[:60], [list(s.tokens) for s in chinese.test[:4]]
    save(folder, "crf-templates", CRF(features="seg", c1=1.0, c2=0.1).fit(characters), signs)
    X, y = [ready(s.tokens) for s in train], [s.tags for s in train]
    save(folder, "crf-ready", CRF(features="ready", c1=0.5, c2=0.1).fit(X, y), [ready(own) for own in test])
    save(folder, "hmm-order1", HMM().fit(train[:8]), test)
    save(folder, "hmm-order2", HMM(order=2, pairs=12).fit(characters[:30]), signs)
    numbers = [[len(token) for token in s.tokens] for s in train]
    unlabelled = HMM(states=3, max_iterations=20, emission_prior=0.1).fit_unlabelled(numbers)
    save(folder, "hmm-unlabelled", unlabelled, numbers[:4])
    save(folder, "bilstm-crf", NeuralTagger(encoder=SMALL, training=TRAINING).fit(train), test)
    alone = NeuralTagger(head="softmax", encoder=SMALL | {"hidden": 0}, training=TRAINING)
    save(folder, "softmax", alone.fit(train), test)
    pairs = NeuralTagger(encoder=SMALL | {"pairs": 4, "capitalisation": 0}, training=TRAINING)
    save(folder, "bilstm-crf-pairs", pairs.fit(characters), signs)
    encoder = {"transformer": tiny_encoder("tiny-encoder"), "pretrained": {"mix": True}}
    save(folder, "transformer-crf", NeuralTagger(encoder=encoder, training=LONGER).fit(train), test)
    shutil.rmtree("tiny-encoder")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())

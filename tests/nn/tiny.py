"""Tiny encoders with random weights and fast tokenizers, made on the spot: no network, no files."""

import string
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

from trellis.nn import TransformerEncoder
from trellis.nn.subwords import SubwordTokenizer
from trellis.nn.transformer import _encoder_of

LETTERS = string.ascii_lowercase
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *("##" + letter for letter in LETTERS), "the", "##ing", "中"]


def wordpiece() -> Tokenizer:
    """Like BERT's: lower case, control characters removed, one piece a letter for most words."""
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def byte_level(*, add_prefix_space: bool = False) -> Tokenizer:
    """Like RoBERTa's, with one merge, so that a letter after a space is another subword than a letter."""
    alphabet = ["<s>", "<pad>", "</s>", "<unk>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġa"]
    vocabulary = {piece: i for i, piece in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("Ġ", "a")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=add_prefix_space)
    return tokenizer


def bert(positions: int = 512, **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    config = BertConfig(vocab_size=len(PIECES), max_position_embeddings=positions, **(sizes | settings))
    return _encoder_of(_spread(BertModel(config)))


def roberta(positions: int = 34) -> nn.Module:
    """``positions`` counts the rows of the table, of which RoBERTa uses those after the padding: two fewer."""
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=261,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=positions,
        type_vocab_size=1,
    )
    return _encoder_of(_spread(RobertaModel(config)))


def _spread(model: nn.Module) -> nn.Module:
    """Weights far from zero, so that every position and every neighbour shows in the output."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.3)
    return model


def bert_encoder(positions: int = 512, **options: Any) -> TransformerEncoder:
    model = bert(positions)
    torch.manual_seed(1)
    return TransformerEncoder(model, SubwordTokenizer(wordpiece(), pad=0), **options).eval()


def roberta_encoder(positions: int = 34, **options: Any) -> TransformerEncoder:
    model = roberta(positions)
    torch.manual_seed(1)
    return TransformerEncoder(model, SubwordTokenizer(byte_level(), pad=1), **options).eval()


def save_folder(folder: Path, model: Any, *, safe: bool = True) -> Path:
    """A folder as Hugging Face lays it out, weights in safetensors or as a pickle of tensors."""
    specials = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=wordpiece(), **specials).save_pretrained(folder)
    model.save_pretrained(folder)
    if not safe:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder

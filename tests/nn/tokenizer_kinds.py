"""Tokenizers as published encoders have them, learned on the spot from a few words."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = [
    "the going gets tough when the tough get going ; don't ( ever ) stop 2024-11-17",
    "New York's mayor re-read the e-mail : « naïve café » costs 3,50 €",
    "北京 大学 的 学生 在 北京 读书 naïve going tough York mayor",
]


def _ends(backend: Tokenizer, first: str, last: str) -> Tokenizer:
    special = [(name, backend.token_to_id(name)) for name in (first, last)]
    backend.post_processor = processors.TemplateProcessing(single=f"{first} $A {last}", special_tokens=special)
    return backend


def _byte_level(*, prefix: bool) -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    backend.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=360,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXT * 3, trainer)
    return backend


def roberta() -> Tokenizer:
    """Byte-level BPE; as published it puts no space before the first word, nor before words that are already split."""
    backend = _byte_level(prefix=False)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    backend.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return backend


def roberta_with_prefix() -> Tokenizer:
    """The same with ``add_prefix_space=True``."""
    backend = _byte_level(prefix=True)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=True)
    return backend


def modernbert() -> Tokenizer:
    """Byte-level BPE after NFC, with the special tokens of BERT, and tokens that are runs of spaces."""
    backend = _byte_level(prefix=False)
    backend.normalizer = normalizers.NFC()
    backend.add_tokens([AddedToken("  ", normalized=True), AddedToken("   ", normalized=True)])
    backend.add_special_tokens(["[CLS]", "[SEP]"])
    return _ends(backend, "[CLS]", "[SEP]")


def _unigram() -> trainers.UnigramTrainer:
    return trainers.UnigramTrainer(
        vocab_size=150, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )


def xlm_roberta() -> Tokenizer:
    """SentencePiece's Unigram, spaces split first, then written as a mark before each word."""
    backend = Tokenizer(models.Unigram())
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    backend.train_from_iterator(TEXT * 3, _unigram())
    return _ends(backend, "<s>", "</s>")


def deberta() -> Tokenizer:
    """SentencePiece's Unigram as in DeBERTa-v3: ends stripped, the mark put by Metaspace alone."""
    backend = Tokenizer(models.Unigram())
    backend.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFKC()])
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.train_from_iterator(TEXT * 3, _unigram())
    return _ends(backend, "<s>", "</s>")


def metaspace_first() -> Tokenizer:
    """The mark before the first word of a text only, as in SentencePiece models that were not made for words."""
    backend = deberta()
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    return backend


def metaspace_never() -> Tokenizer:
    """No mark but where there is a space, so that a separate word would have none."""
    backend = deberta()
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    backend.normalizer = normalizers.NFKC()
    return backend


KINDS = (roberta, roberta_with_prefix, modernbert, xlm_roberta, deberta, metaspace_first, metaspace_never)

"""Which picture belongs to which page, and its words in each language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tools.pictures import lattices, networks

Draw = Callable[[Mapping[str, Any], Mapping[str, str]], str]


class Picture(NamedTuple):
    """A picture, drawn from the names that the code of its page defines."""

    name: str
    draw: Draw
    words: Mapping[str, Mapping[str, str]]
    """By language."""


PICTURES: Mapping[str, tuple[Picture, ...]] = {
    "docs/how-it-works/hmm.md": (
        Picture(
            "graphs",
            lattices.graphs,
            {
                "en": {
                    "title": "The graphs of HMM, MEMM and CRF",
                    "hmm": "directed, generative: P(s, o)",
                    "memm": "directed, discriminative: P(y | x)",
                    "crf": "undirected, discriminative: P(y | x)",
                    "sentence": "the whole sentence x",
                },
                "zh": {
                    "title": "HMM、MEMM 与 CRF 的图",
                    "hmm": "有向图，生成式：P(s, o)",
                    "memm": "有向图，判别式：P(y | x)",
                    "crf": "无向图，判别式：P(y | x)",
                    "sentence": "整个句子 x",
                },
            },
        ),
    ),
    "docs/how-it-works/softmax.md": (
        Picture(
            "softmax-bars",
            lattices.softmax_bars,
            {
                "en": {
                    "title": "One softmax per character",
                    "note": "each character's four bars sum to one, whatever its neighbours are",
                },
                "zh": {"title": "每个字一个 softmax", "note": "每个字的四条之和为一，与相邻的字无关"},
            },
        ),
        Picture(
            "bmes-lattice",
            lattices.bmes_lattice,
            {
                "en": {
                    "title": "Lattice of four characters and the labels B, M, E, S",
                    "legal": "legal step",
                    "best": "best legal path",
                    "bad": "illegal step that softmax takes",
                },
                "zh": {
                    "title": "四个字与标签 B、M、E、S 构成的网格",
                    "legal": "合法转移",
                    "best": "最优合法路径",
                    "bad": "逐字 softmax 走出的非法转移",
                },
            },
        ),
    ),
    "docs/how-it-works/log-z.md": (
        Picture(
            "paths",
            lattices.paths,
            {
                "en": {"title": "Eight paths", "path": "path", "score": "score", "probability": "probability"},
                "zh": {"title": "八条路径", "path": "路径", "score": "分数", "probability": "概率"},
            },
        ),
    ),
    "docs/how-it-works/viterbi.md": (
        Picture(
            "viterbi",
            lattices.viterbi,
            {
                "en": {"title": "Lattice of Viterbi", "psi": "psi: the step that won", "best": "best path"},
                "zh": {"title": "维特比算法的网格", "psi": "ψ：胜出的那一步", "best": "最优路径"},
            },
        ),
        Picture(
            "viterbi-frames",
            lattices.viterbi_frames,
            {
                "en": {
                    "title": "Viterbi, word by word",
                    "first": "{word}: its emissions; no step leads to the first word",
                    "frame": "{word}: all steps into it; for each label the bold one won",
                    "back": "the way back from the best last score",
                },
                "zh": {
                    "title": "逐词进行的维特比算法",
                    "first": "{word}：它的发射分数；没有转移进入第一个词",
                    "frame": "{word}：进入它的所有转移；每个标签处粗线胜出",
                    "back": "从最好的末尾分数往回走",
                },
            },
        ),
    ),
    "docs/how-it-works/label-bias.md": (
        Picture(
            "label-bias",
            lattices.label_bias,
            {
                "en": {
                    "title": "Two chains of labels and the probabilities that an MEMM gives their steps",
                    "note": "P(next label | label, letter) of the MEMM, reading r o b",
                },
                "zh": {
                    "title": "两条标签链，以及 MEMM 给每一步的概率",
                    "note": "MEMM 读到 r o b 时的 P(下一个标签 | 当前标签, 字母)",
                },
            },
        ),
    ),
    "docs/how-it-works/bilstm-crf.md": (
        Picture(
            "bilstm-crf",
            networks.bilstm_crf,
            {
                "en": {
                    "title": "The layers of a BiLSTM-CRF and the shape after each",
                    "words": "words",
                    "vectors": "embedding",
                    "right": "BiLSTM",
                    "emissions": "emissions",
                    "tags": "CRF: best path",
                },
                "zh": {
                    "title": "BiLSTM-CRF 的各层，以及每层之后的形状",
                    "words": "词",
                    "vectors": "词向量",
                    "right": "BiLSTM",
                    "emissions": "发射分数",
                    "tags": "CRF：最优路径",
                },
            },
        ),
    ),
    "docs/how-it-works/transformer-crf.md": (
        Picture(
            "word-ids",
            networks.word_ids,
            {
                "en": {
                    "title": "Words, subwords and word ids",
                    "words": "words",
                    "subwords": "subwords",
                    "ids": "word ids",
                },
                "zh": {"title": "词、子词与 word ids", "words": "词", "subwords": "子词", "ids": "word ids"},
            },
        ),
        Picture(
            "windows",
            networks.windows,
            {
                "en": {
                    "title": "A long sentence in overlapping windows",
                    "window": "window",
                    "gives": "the vector of this subword comes from this window",
                    "reads": "this window only reads it",
                },
                "zh": {
                    "title": "长句切成相互重叠的窗口",
                    "window": "窗口",
                    "gives": "这个子词的向量取自这个窗口",
                    "reads": "这个窗口只读它",
                },
            },
        ),
    ),
}
"""By page."""

FOLDERS = {"en": "docs/images", "zh": "docs/zh/images"}


def drawn(page: str, names: Mapping[str, Any]) -> dict[str, str]:
    """Every picture of a page, in every language, by the file it belongs to."""
    return {
        f"{folder}/{picture.name}.svg": picture.draw(names, picture.words[language])
        for picture in PICTURES.get(page, ())
        for language, folder in FOLDERS.items()
    }

"""Types of the native module. An array may be given as its address, 0 for none; see native/module.cpp."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

Array = int | npt.NDArray[Any]
Outcome = tuple[int, int]

class Layout:
    @property
    def sequences(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    def lists(self, labels: Array, rows: int, L: int, /) -> list[list[int]]: ...
    @property
    def pairs(self) -> int: ...
    @property
    def edge_rows(self) -> npt.NDArray[np.int64]: ...
    @property
    def offsets(self) -> npt.NDArray[np.int64]: ...
    @property
    def rows(self) -> npt.NDArray[np.int64]: ...

class _Inference:
    def __init__(
        self, layout: Layout, emissions: Array, transitions: Array, start: Array, end: Array, L: int, edges: Array, /
    ) -> None: ...
    def log_partition(self, out: Array, keep: bool, /) -> Outcome: ...
    def score(self, tags: Array, out: Array, /) -> Outcome: ...
    def nll(self, tags: Array, out: Array, keep: bool, /) -> Outcome: ...
    def total_nll(self, tags: Array, scale: float, out: Array, /) -> Outcome: ...
    def total_nll_gradient(
        self,
        tags: Array,
        scale: float,
        out: Array,
        rows: int,
        emissions: Array,
        transitions: Array,
        start: Array,
        end: Array,
        edge_count: int,
        edges: Array,
        /,
    ) -> Outcome: ...
    def gradient(
        self,
        weights: Array,
        rows: int,
        emissions: Array,
        transitions: Array,
        start: Array,
        end: Array,
        edge_count: int,
        edges: Array,
        /,
    ) -> None: ...
    def marginals(
        self, log_partition: Array, rows: int, emissions: Array, transitions: Array, start: Array, end: Array, /
    ) -> Outcome: ...
    def pairwise(
        self,
        log_partition: Array,
        emissions: Array,
        transitions: Array,
        start: Array,
        end: Array,
        pairs: Array,
        /,
    ) -> Outcome: ...
    def viterbi(self, tags: Array, rows: int, scores: Array, /) -> Outcome: ...
    def viterbi_rounded(self, tags: Array, rows: int, scores: Array, /) -> Outcome: ...
    def viterbi_lists(self, rows: int, L: int, /) -> tuple[Outcome, list[list[int]]]: ...
    def entropy(self, out: Array, /) -> Outcome: ...
    def sample(self, n: int, seed: int, tags: Array, stride: int, /) -> Outcome: ...
    def spans(
        self,
        spans: Array,
        count: int,
        tags: Array,
        before: Array,
        after: Array,
        state_labels: Array,
        labels: int,
        out: Array,
        /,
    ) -> Outcome: ...
    def weighted_nll(self, tags: Array, weights: Array, out: Array, /) -> Outcome: ...
    def weighted_nll_gradient(
        self,
        weights: Array,
        outer: Array,
        emissions: Array,
        transitions: Array,
        start: Array,
        end: Array,
        edge_count: int,
        edges: Array,
        /,
    ) -> Outcome: ...
    @property
    def tags(self) -> npt.NDArray[np.int64]: ...
    def kbest(
        self, k: int, /
    ) -> tuple[Outcome, npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]: ...

class InferenceFloat32(_Inference): ...
class InferenceFloat64(_Inference): ...

def number_strings(sequences: Iterable[Sequence[object]], table: dict[object, int], /) -> npt.NDArray[np.uint32]: ...
def count_steps(
    codes: npt.NDArray[np.uint32], /
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
def name_numbers(
    names: list[str], ids: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], /
) -> list[list[str]]: ...
def gradient_length(
    doubles: bool, threads: int, addresses: npt.NDArray[np.uint64], counts: npt.NDArray[np.int64], /
) -> float: ...
def adam_step(
    doubles: bool,
    threads: int,
    addresses: npt.NDArray[np.uint64],
    counts: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.float64],
    /,
) -> None: ...
def apply_dropout(
    doubles: bool,
    seed: int,
    shares: tuple[float, float, float],
    lengths: npt.NDArray[np.int64],
    first: int,
    width: int,
    source: tuple[int, int, int, npt.NDArray[np.int64] | None],
    target: tuple[int, int, int, npt.NDArray[np.int64] | None],
    add: bool,
    /,
) -> None: ...
def lstm_forward(
    doubles: bool,
    lengths: npt.NDArray[np.int64],
    H: int,
    threads: int,
    keep: bool,
    weights: int,
    gate_rows: int,
    gates: int,
    cells: int,
    states: int,
    /,
) -> None: ...
def lstm_backward(
    doubles: bool,
    lengths: npt.NDArray[np.int64],
    H: int,
    threads: int,
    weights: int,
    gates: int,
    cells: int,
    states: int,
    gradient: int,
    gate_gradient: int,
    previous: int,
    /,
) -> None: ...
def spelling_forward(
    doubles: bool,
    words: int,
    W: int,
    C: int,
    table: int,
    width: int,
    characters: int,
    F: int,
    largest: int,
    places: int,
    /,
) -> bool: ...
def spelling_backward(
    doubles: bool,
    words: int,
    W: int,
    C: int,
    table: int,
    width: int,
    characters: int,
    F: int,
    gradient: int,
    places: int,
    /,
) -> None: ...
def spell(
    characters: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    table: npt.NDArray[np.float32],
    threads: int,
    largest: npt.NDArray[np.float32],
    /,
) -> bool: ...
def layout_of_lengths(lengths: Array, B: int, tokens: int, /) -> Layout: ...
def layout_of_mask(
    mask: Array, tags: Array, ignored: int, B: int, T: int, stride_b: int, stride_t: int, /
) -> Layout: ...
def num_threads() -> int: ...
def set_num_threads(count: int, /) -> None: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str, /) -> bool: ...
def core_quota(root: str, /) -> float: ...

unicode_version: str

class StoredDense:
    def __init__(self, weights: npt.NDArray[np.float32], bias: npt.NDArray[np.float32], /) -> None: ...
    def apply(self, rows: npt.NDArray[np.float32], threads: int, out: npt.NDArray[np.float32], /) -> None: ...

class StoredLstm:
    def __init__(
        self,
        inward: npt.NDArray[np.float32],
        bias: npt.NDArray[np.float32],
        recurrent: npt.NDArray[np.float32],
        /,
    ) -> None: ...
    def run(
        self,
        features: npt.NDArray[np.float32],
        rows: npt.NDArray[np.int64] | None,
        lengths: npt.NDArray[np.int64],
        threads: int,
        states: npt.NDArray[np.float32],
    ) -> None: ...

class TemplateSet:
    def __init__(self, lines: list[list[tuple[str, int, int, int, int]]], /) -> None: ...

class Attributes:
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, names: Array, ends: Array, /) -> None: ...
    @overload
    def __init__(
        self,
        keys: Array,
        ends: Array,
        templates: TemplateSet,
        values: Array,
        value_ends: Array,
        value_counts: list[int],
        /,
    ) -> None: ...
    @property
    def templates(self) -> TemplateSet | None: ...
    def __len__(self) -> int: ...
    def find(self, name: bytes, /) -> int: ...
    def add(self, name: bytes, /) -> int: ...
    def name(self, number: int, /) -> bytes: ...
    def take(
        self, others: list[Attributes], sources: npt.NDArray[np.int64], attributes: npt.NDArray[np.int64], /
    ) -> npt.NDArray[np.int64]: ...
    def select(self, numbers: npt.NDArray[np.int64], /) -> Attributes: ...
    def keys(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]: ...
    def values(self) -> list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]] | None: ...

class Dataset:
    def __init__(self) -> None: ...
    @property
    def sentences(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def bundles(self) -> int: ...
    @property
    def entries(self) -> int: ...
    @property
    def offsets(self) -> npt.NDArray[np.int64]: ...
    def arrays(
        self,
    ) -> tuple[
        npt.NDArray[np.int64],
        npt.NDArray[np.int32],
        npt.NDArray[np.int64],
        npt.NDArray[np.int32],
        npt.NDArray[np.float64],
        npt.NDArray[np.int32],
        npt.NDArray[np.int32],
        npt.NDArray[np.int32],
    ]: ...
    @staticmethod
    def of_arrays(
        offsets: npt.NDArray[np.int64],
        token_bundles: npt.NDArray[np.int32],
        bundle_ends: npt.NDArray[np.int64],
        attributes: npt.NDArray[np.int32],
        values: npt.NDArray[np.float64],
        windows: npt.NDArray[np.int32],
        places: npt.NDArray[np.int32],
        unit_bundles: npt.NDArray[np.int32],
        /,
    ) -> Dataset: ...
    def forget(self) -> None: ...
    def share_bundles(self) -> bool: ...
    def first_uses(self, attributes: int, /) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
    def token_attributes(self, token: int, /) -> list[tuple[int, float]]: ...

class Weights:
    def __init__(
        self,
        ends: npt.NDArray[np.int64],
        labels: npt.NDArray[np.uint16],
        weights: npt.NDArray[np.float64],
        L: int,
        /,
    ) -> None: ...

class Labeller:
    def __init__(
        self,
        names: list[str],
        transitions: npt.NDArray[np.float64],
        start: npt.NDArray[np.float64],
        end: npt.NDArray[np.float64],
        /,
    ) -> None: ...
    def best(self, data: Dataset, weights: Weights, /) -> list[list[str]] | None: ...

class TokenScorer:
    bytes: int
    most_bytes: int
    def __init__(
        self,
        attributes: Attributes,
        ends: npt.NDArray[np.int64],
        labels: npt.NDArray[np.uint16],
        weights: npt.NDArray[np.float32] | npt.NDArray[np.float64],
        L: int,
        folding: Mapping[int, int],
        /,
    ) -> None: ...
    def forget(self) -> None: ...
    def score(
        self, columns: list[list[Any]], names: list[str], /
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]: ...
    def best(self, columns: list[list[Any]], names: list[str], labeller: Labeller, /) -> list[list[str]] | None: ...

class Objective:
    def __init__(
        self,
        data: Dataset,
        attributes: int,
        L: int,
        tags: npt.NDArray[np.int64] | None,
        allowed: npt.NDArray[np.uint8] | None,
        sentence_weights: npt.NDArray[np.float64] | None,
        token_weights: npt.NDArray[np.float64] | None,
        single_precision: bool,
        /,
    ) -> None: ...
    @property
    def size(self) -> int: ...
    def choose_states(self, min_freq: float, all: bool, /) -> None: ...
    def count_states(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16], npt.NDArray[np.float64]]: ...
    def set_states(self, ends: npt.NDArray[np.int64], labels: npt.NDArray[np.uint16], /) -> None: ...
    def settle(self) -> None: ...
    def set_transitions(
        self,
        transitions: npt.NDArray[np.uint8],
        start: npt.NDArray[np.uint8],
        end: npt.NDArray[np.uint8],
        cells: npt.NDArray[np.int32],
        numbers: npt.NDArray[np.int32],
        count: int,
        /,
    ) -> None: ...
    def set_chain(self, labels: npt.NDArray[np.uint16], tags: npt.NDArray[np.int64] | None, /) -> None: ...
    def choose_edges(self, data: Dataset, attributes: int, min_freq: float, all: bool, /) -> None: ...
    def count_edges(
        self, data: Dataset, attributes: int, /
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16], npt.NDArray[np.float64]]: ...
    def set_edges(self, data: Dataset, ends: npt.NDArray[np.int64], pairs: npt.NDArray[np.uint16], /) -> None: ...
    def states(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16]]: ...
    def edges(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint16]]: ...
    def evaluate(
        self, weights: npt.NDArray[np.float64], gradient: npt.NDArray[np.float64] | None, /
    ) -> tuple[int, int, float]: ...
    def plan_of(self, data: Dataset, /) -> npt.NDArray[np.uint8]: ...
    def evaluate_part(
        self,
        plan: npt.NDArray[np.uint8],
        tags: npt.NDArray[np.int64] | None,
        chain_tags: npt.NDArray[np.int64] | None,
        allowed: npt.NDArray[np.uint8] | None,
        sentence_weights: npt.NDArray[np.float64] | None,
        token_weights: npt.NDArray[np.float64] | None,
        weights: npt.NDArray[np.float64],
        gradient: npt.NDArray[np.float64],
        /,
    ) -> tuple[int, int, float]: ...
    def descend(
        self,
        order: npt.NDArray[np.int64],
        weights: npt.NDArray[np.float64],
        rate: float,
        decay: float,
        batch: int,
        done: int,
        scale: float,
        /,
    ) -> tuple[tuple[int, int, float], int, float]: ...
    def perceptron(
        self,
        order: npt.NDArray[np.int64],
        weights: npt.NDArray[np.float64],
        sums: npt.NDArray[np.float64],
        seen: int,
        /,
    ) -> tuple[int, int]: ...
    def passive_aggressive(
        self,
        order: npt.NDArray[np.int64],
        weights: npt.NDArray[np.float64],
        sums: npt.NDArray[np.float64],
        seen: int,
        type: int,
        c: float,
        by_errors: bool,
        /,
    ) -> tuple[int, float]: ...
    def arow(
        self,
        order: npt.NDArray[np.int64],
        weights: npt.NDArray[np.float64],
        variances: npt.NDArray[np.float64],
        gamma: float,
        /,
    ) -> float: ...

def compile_tokens(
    templates: TemplateSet, columns: list[list[Any]], names: list[str], attributes: Attributes, grow: bool, /
) -> Dataset: ...
def compile_features(sentences: Any, attributes: Attributes, grow: bool, /) -> Dataset: ...
def feature_strings(templates: TemplateSet, columns: list[list[Any]], names: list[str], /) -> list[list[bytes]]: ...

class CrfsuiteModel:
    def __init__(self, file: npt.NDArray[np.uint8], /) -> None: ...
    labels: list[str]
    transitions: npt.NDArray[np.float64]
    def score(self, sentences: Sequence[Any], /) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]: ...
    def best(self, sentences: Sequence[Any], labeller: Labeller, /) -> list[list[str]] | None: ...

def read_crfsuite(file: npt.NDArray[np.uint8], /) -> tuple[npt.NDArray[Any], ...]: ...
def write_crfsuite(
    label_bytes: npt.NDArray[np.uint8],
    label_lengths: npt.NDArray[np.uint32],
    attribute_bytes: npt.NDArray[np.uint8],
    attribute_lengths: npt.NDArray[np.uint32],
    pair_counts: npt.NDArray[np.uint32],
    pair_labels: npt.NDArray[np.uint16],
    pair_weights: npt.NDArray[np.float64],
    places: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    /,
) -> bytes: ...
def score_dataset(data: Dataset, weights: Weights, out: npt.NDArray[np.float64], /) -> None: ...
def score_edges(data: Dataset, weights: Weights, out: npt.NDArray[np.float64], /) -> None: ...
def dot(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], /) -> float: ...
def combine(vectors: list[npt.NDArray[np.float64]], factors: list[float], out: npt.NDArray[np.float64], /) -> None: ...
def combine_steps(
    vectors: list[npt.NDArray[np.float32]],
    factors: list[float],
    v: npt.NDArray[np.float64],
    factor: float,
    out: npt.NDArray[np.float64],
    /,
) -> None: ...
def add_decay(weights: npt.NDArray[np.float64], factor: float, gradient: npt.NDArray[np.float64], /) -> float: ...
def pseudo_gradient(
    weights: npt.NDArray[np.float64],
    gradient: npt.NDArray[np.float64],
    c1: float,
    out: npt.NDArray[np.float64],
    /,
) -> None: ...
def keep_downhill(uphill: npt.NDArray[np.float64], direction: npt.NDArray[np.float64], /) -> None: ...
def step_in_orthant(
    x: npt.NDArray[np.float64],
    uphill: npt.NDArray[np.float64],
    direction: npt.NDArray[np.float64],
    step: float,
    out: npt.NDArray[np.float64],
    /,
) -> tuple[float, float]: ...
def learn_step(
    x: npt.NDArray[np.float64],
    x_before: npt.NDArray[np.float64],
    g: npt.NDArray[np.float64],
    g_before: npt.NDArray[np.float64],
    v: npt.NDArray[np.float64],
    vectors: list[npt.NDArray[np.float32]],
    s: npt.NDArray[np.float32],
    y: npt.NDArray[np.float32],
    /,
) -> npt.NDArray[np.float64]: ...

class Expectation:
    def __init__(
        self,
        symbols: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        allowed: npt.NDArray[np.uint8] | None,
        weights: npt.NDArray[np.float64],
        L: int,
        V: int,
        /,
    ) -> None: ...
    def run(
        self,
        start: npt.NDArray[np.float64],
        transitions: npt.NDArray[np.float64],
        end: npt.NDArray[np.float64],
        emissions: npt.NDArray[np.float64],
        start_counts: npt.NDArray[np.float64],
        transition_counts: npt.NDArray[np.float64],
        emission_counts: npt.NDArray[np.float64],
        log_likelihood: npt.NDArray[np.float64],
        /,
    ) -> Outcome: ...

class EasyWords:
    def __init__(self) -> None: ...
    def exclude(self, word: bytes, /) -> None: ...
    def split(
        self, text: str, known: dict[str, tuple[str, ...]], pieces: Callable[[str], tuple[str, ...]], /
    ) -> list[str] | None: ...

def find_tokens(text: str, tokens: Sequence[str], /) -> tuple[tuple[int, int], ...]: ...
def cut_words(
    texts: Sequence[str],
    tokens: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str]],
    numbers: dict[str, int],
    starts: npt.NDArray[np.bool_],
    kinds: Sequence[str] | None,
    /,
) -> list[list[Any]]: ...

class TextSpans:
    def __init__(
        self,
        type: type[Any],
        begin: npt.NDArray[np.int64],
        end: npt.NDArray[np.int64],
        kind: npt.NDArray[np.int64],
        kinds: tuple[str, ...],
        probabilities: npt.NDArray[np.float64],
        /,
    ) -> None: ...
    def between(self, text: str, tokens: Sequence[str], first: int, stop: int, /) -> tuple[Any, ...]: ...

PackedTexts = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], bool]

def pack_texts(texts: Sequence[str | None], /) -> PackedTexts: ...
def pack_names(names: Sequence[str], ids: npt.NDArray[np.int64], /) -> PackedTexts: ...

SegmentAnswer = tuple[
    Outcome, npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]
]

class SegmentInference:
    def __init__(
        self,
        segments: Array,
        offsets: Array,
        sequences: int,
        longest: int,
        transitions: Array,
        start: Array,
        end: Array,
        labels: int,
        /,
    ) -> None: ...
    def log_partition(self, out: Array, /) -> Outcome: ...
    def score(self, counts: Array, path: Array, out: Array, /) -> Outcome: ...
    def marginals(
        self, weights: Array, out: Array, segments: Array, transitions: Array, start: Array, end: Array, /
    ) -> Outcome: ...
    def entropy(self, out: Array, /) -> Outcome: ...
    def viterbi(self) -> SegmentAnswer: ...
    def kbest(self, k: int, /) -> SegmentAnswer: ...
    def sample(self, n: int, seed: int, /) -> SegmentAnswer: ...

"""The default mode (the rules of conlleval) and the functions that choose between both modes.

As in seqeval, ``mode="strict"`` takes effect only together with ``scheme``; only ``classification_report``
detects a scheme that is not given. ``sample_weight`` is accepted and has no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from operator import eq
from typing import Any

from trellis.compat.seqeval.metrics import v1
from trellis.compat.seqeval.metrics.v1 import (
    ALL_METRICS,
    Average,
    Scores,
    Tags,
    ZeroDivision,
    check_options,
    count,
    default_alphabet,
    figures,
    report,
)
from trellis.compat.seqeval.scheme import Token
from trellis.errors import DataError
from trellis.tags.spans import find_chunks


def get_entities(seq: Sequence[Any], suffix: bool = False) -> list[tuple[str, int, int]]:
    """(type, first token, last token) of each span; in a list of lists, each list counts as one token more."""
    sequences = seq if any(isinstance(item, list) for item in seq) else [seq]
    alphabet = default_alphabet(suffix)
    chunks = find_chunks(alphabet, alphabet.encode(sequences))
    kinds = alphabet.kinds
    columns = (chunks.kind.tolist(), chunks.begin.tolist(), (chunks.end - 1).tolist())
    return [(kinds[kind], begin, end) for kind, begin, end in zip(*columns, strict=True)]


def precision_recall_fscore_support(
    y_true: Tags,
    y_pred: Tags,
    *,
    average: Average = None,
    warn_for: Collection[str] = ALL_METRICS,
    beta: float = 1.0,
    sample_weight: list[int] | None = None,
    zero_division: ZeroDivision = "warn",
    suffix: bool = False,
) -> Scores:
    """Figures of the default mode, per type or averaged."""
    check_options(average, beta)
    counts = count(y_true, y_pred, suffix)
    return figures(counts, average=average, warn_for=warn_for, beta=beta, zero_division=zero_division)


def _score(name: str, metric: str, column: int, doc: str) -> Callable[..., Any]:
    """The function of seqeval with this name, which gives one of the figures."""

    def score(
        y_true: Tags,
        y_pred: Tags,
        *,
        average: Average = "micro",
        suffix: bool = False,
        mode: str | None = None,
        sample_weight: list[int] | None = None,
        zero_division: ZeroDivision = "warn",
        scheme: type[Token] | None = None,
    ) -> Any:
        check_options(average, 1.0)
        counts = count(y_true, y_pred, suffix, scheme if mode == "strict" else None)
        return figures(counts, average=average, warn_for=(metric,), zero_division=zero_division)[column]

    score.__name__ = score.__qualname__ = name
    score.__doc__ = doc
    return score


precision_score = _score("precision_score", "precision", 0, "The share of predicted spans that are right.")
recall_score = _score("recall_score", "recall", 1, "The share of true spans that are found.")
f1_score = _score("f1_score", "f-score", 2, "The harmonic mean of precision and recall.")


def _flat(y_true: Sequence[Any], y_pred: Sequence[Any]) -> tuple[Sequence[str], Sequence[str]]:
    if any(isinstance(item, list) for item in y_true):
        return [*chain.from_iterable(y_true)], [*chain.from_iterable(y_pred)]
    return y_true, y_pred


def accuracy_score(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """The share of tokens with the right tag; lists of tags or of lists."""
    true, guessed = _flat(y_true, y_pred)
    if len(true) == 0:
        raise DataError("accuracy needs at least one tag, got none")
    right: int = sum(map(eq, true, guessed))
    return right / len(true)


def performance_measure(y_true: Sequence[Any], y_pred: Sequence[Any]) -> dict[str, int]:
    """Tokens by outcome: TP right and not O, FP wrong and not O, FN O instead of a tag, TN right O."""
    pairs = Counter(zip(*_flat(y_true, y_pred), strict=False))
    result = {"TP": 0, "FP": 0, "FN": 0, "TN": 0}
    for (true, guessed), number in pairs.items():
        if true == guessed:
            result["TN" if true == "O" else "TP"] += number
        else:
            result["FN" if guessed == "O" else "FP"] += number
    return result


def classification_report(
    y_true: Tags,
    y_pred: Tags,
    digits: int = 2,
    suffix: bool = False,
    output_dict: bool = False,
    mode: str | None = None,
    sample_weight: list[int] | None = None,
    zero_division: ZeroDivision = "warn",
    scheme: type[Token] | None = None,
) -> str | dict[str, Any]:
    """Figures of each type and the averages, as text or as a dict."""
    if mode == "strict":
        return v1.classification_report(
            y_true,
            y_pred,
            digits=digits,
            suffix=suffix,
            output_dict=output_dict,
            zero_division=zero_division,
            scheme=scheme,
        )
    counts = count(y_true, y_pred, suffix)
    return report(counts, digits=digits, output_dict=output_dict, zero_division=zero_division)

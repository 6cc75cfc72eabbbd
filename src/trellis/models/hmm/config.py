"""The settings of a hidden Markov model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from trellis.config import Rule, check, setting
from trellis.models.data import MOST_PAIRS, TOKENIZER
from trellis.tags import Scheme

_PRIORS = ("start_prior", "transition_prior", "emission_prior")
_RULES: list[Rule] = [
    (" ".join(("alpha", *_PRIORS, "tolerance checkpoint_seconds")), "a finite number >= 0", lambda x: x >= 0),
    ("pairs max_iterations", "at least 0", lambda x: x >= 0),
    ("states restarts patience", "at least 1", lambda x: x >= 1),
    ("pairs", f"at most {MOST_PAIRS}", lambda x: x <= MOST_PAIRS),
]
Part = Literal["start", "transitions", "emissions"]
"""The parts of a model that can be held fixed."""


@dataclass(frozen=True)
class HMMConfig:
    """Settings of a hidden Markov model."""

    smoothing: Literal["witten_bell", "additive", "none"] | None = setting(
        None, "witten_bell, additive or none; default: witten_bell if there are labels, else none"
    )
    alpha: float = setting(0.1, "what additive smoothing adds to every count")
    start_prior: float | None = setting(None, "pseudo-counts of first states; default: alpha if additive, else 0")
    transition_prior: float | None = setting(None, "the same for transitions")
    emission_prior: float | None = setting(None, "the same for emissions")
    unknown: bool | None = setting(
        None, "model unknown words by shape and suffix; default: if there are labels and the observations are strings"
    )
    order: Literal[1, 2] = setting(1, "how many labels before it a label depends on; 2 needs labels on all tokens")
    pairs: int = setting(
        300,
        "order 2: how many pairs of labels, the most common ones, have a state of their own instead of a shared one",
    )
    states: int | None = setting(None, "number of states if no labels name them")
    fixed: tuple[Part, ...] = setting(
        (), "what further training (warm_start) does not change: start, transitions, emissions"
    )
    max_iterations: int = setting(100, "Baum-Welch: at most this many")
    tolerance: float = setting(1e-5, "Baum-Welch: stop when the loss falls by less than this share of itself")
    restarts: int = setting(1, "Baum-Welch without labels: random starting points, of which the best result is kept")
    patience: int | None = setting(None, "stop after this many iterations without a better score on the held-out data")
    checkpoint_seconds: float = setting(
        60.0, "Baum-Welch from one start, in a folder: seconds between the states from which --resume continues"
    )
    scheme: str | None = setting(None, "tag scheme, e.g. bio; default: the one that fits the labels best")
    constraints: bool = setting(True, "forbid what the scheme forbids, in training and in tagging")
    seed: int = setting(0, "of the random starting points")
    tokenizer: str | None = setting(None, TOKENIZER)

    def __post_init__(self) -> None:
        check(self, _RULES)


def resolved(config: HMMConfig, scheme: Scheme, *, has_labels: bool, has_words: bool) -> HMMConfig:
    """The settings that a training uses, with a value for everything that was left unset.

    That depends on whether any token has a label, and whether all observations are words.
    """
    smoothing = config.smoothing or ("witten_bell" if has_labels else "none")
    prior = config.alpha if smoothing == "additive" else 0.0
    priors: dict[str, Any] = {name: prior for name in _PRIORS if getattr(config, name) is None}
    unknown = has_labels and has_words if config.unknown is None else config.unknown
    return replace(config, smoothing=smoothing, unknown=unknown, scheme=scheme.value.lower(), **priors)

"""The settings of a feature CRF."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from trellis.config import Rule, check, setting
from trellis.models.data import MOST_PAIRS, TOKENIZER
from trellis.tags import StateMap

SUMMED = ("lbfgs", "owlqn")
"""Algorithms that only ask for the loss and the gradient of all sentences."""
MISTAKE_DRIVEN = ("ap", "pa", "arow")
"""Algorithms that learn from mistakes only: they have no regularisation, and no probabilities to weight tokens by."""
_LARGE = 50_000  # tokens
_PRUNED = 1e-3  # of the largest weight: see docs/performance.md for what it changes


_RULES: list[Rule] = [
    ("c1 c2 min_freq epsilon delta checkpoint_seconds", "a finite number >= 0", lambda x: x >= 0),
    ("learning_rate aggressiveness variance gamma", "a finite number > 0", lambda x: x > 0),
    ("prune", "at least 0 and below 1", lambda x: 0 <= x < 1),
    ("pairs", f"at most {MOST_PAIRS}", lambda x: x <= MOST_PAIRS),
    ("pa_type", "0, 1 or 2", lambda x: x in (0, 1, 2)),
    ("pairs period max_iterations", "at least 0", lambda x: x >= 0),
    ("patience memory max_linesearch batch_size", "at least 1", lambda x: x >= 1),
]


@dataclass(frozen=True)
class CRFConfig:
    """Settings of a feature CRF; the defaults are those of CRFsuite if it has the setting."""

    features: str = setting(
        "ner", "ner, pos, chunk, seg, the path of a template file, or given: the inputs are features"
    )
    vectors: str | None = setting(
        None, "file of word vectors (GloVe, word2vec or fastText); clusters of words become features (%cluster)"
    )
    lexicon: str | None = setting(None, "file of a lexicon: matches of its words and names become features")
    algorithm: Literal["lbfgs", "owlqn", "sgd", "ap", "pa", "arow"] = setting(
        "lbfgs", "lbfgs (L2), owlqn (L1 and L2), sgd, ap (averaged perceptron), pa (passive-aggressive), or arow"
    )
    c1: float = setting(0.0, "coefficient of |w|_1; above 0, lbfgs becomes owlqn")
    c2: float = setting(1.0, "coefficient of |w|^2; ap, pa and arow have none")
    max_iterations: int | None = setting(
        None, "at most this many; default: no limit for lbfgs and owlqn, 50 for sgd, 20 for the others"
    )
    epsilon: float = setting(1e-5, "lbfgs, owlqn: stop when |gradient| < epsilon * max(1, |w|)")
    delta: float | None = setting(
        None,
        "lbfgs, owlqn, sgd: stop when the loss fell by less than this share over `period` iterations;\n"
        "default: 1e-5, for sgd 1e-3",
    )
    period: int | None = setting(None, "see delta; default: 10, for sgd 5")
    memory: int = setting(6, "lbfgs, owlqn: steps remembered")
    max_linesearch: int = setting(20, "lbfgs, owlqn: trials of a step length")
    batch_size: int = setting(8, "sgd: sentences per step")
    learning_rate: float | None = setting(None, "sgd: first step length; default: found on a sample")
    pa_type: int = setting(1, "pa: 0 without slack, 1 with slack that costs its size, 2 its square")
    aggressiveness: float = setting(1.0, "pa of type 1 and 2: how far one sentence may move the weights")
    error_sensitive: bool = setting(True, "pa: the margin grows with the number of wrong labels")
    averaging: bool = setting(True, "pa: the mean of the weights over all sentences, as in ap")
    variance: float = setting(1.0, "arow: of each weight at first")
    gamma: float = setting(1.0, "arow: the larger, the smaller the steps")
    min_freq: float = setting(0.0, "features that occur less often get no weight")
    all_possible_states: bool = setting(False, "weights also for attributes with labels they never occur with")
    all_possible_transitions: bool = setting(False, "weights also for transitions that never occur")
    order: Literal[1, 2] = setting(1, "how many labels before it a label depends on")
    pairs: int = setting(
        300, "order 2: how many pairs of labels, the most common ones, are told apart; others count as their last label"
    )
    all_possible_edges: bool = setting(
        False, "B and * lines with %: weights also for pairs of labels that never occur with the attribute"
    )
    scheme: str | None = setting(None, "tag scheme, e.g. bio; default: the one that fits the labels best")
    learn_scheme: str | None = setting(
        None, "tag scheme to learn in, e.g. bio; data: that of the data; default: bioes, for words bmes"
    )
    constraints: bool = setting(True, "forbid what the scheme forbids, in training and in tagging")
    label_weights: Mapping[str, float] | None = setting(None, "how much tokens of a label count; 1 unless given")
    patience: int | None = setting(None, "stop after this many iterations without a better score on the held-out data")
    precision: Literal["auto", "single", "double"] = setting(
        "auto",
        "lbfgs, owlqn: of scores and marginals (sums are always double); auto: single for large corpora unless\n"
        "epsilon or delta is below 1e-6",
    )
    prune: float | None = setting(
        None,
        "weights below this share of the largest are left out when training ends; default: 1e-3 for a model that is\n"
        "trained in single precision, whose weights are single too, else 0",
    )
    out_of_core: bool = setting(
        False,
        "lbfgs, owlqn: read the sentences once, block by block, and keep what training needs of them on disk;\n"
        "always so for Shards and --stream",
    )
    scratch: str | None = setting(
        None,
        "out_of_core: folder of the file for that; default: the folder of the model, else the one for temporary files",
    )
    checkpoint_seconds: float = setting(60.0, "in a folder: seconds between the states from which --resume continues")
    seed: int = setting(0, "of the shuffling of sgd, ap, pa and arow")
    fold_width: bool = setting(True, "full-width and half-width forms are the same to the model")
    tokenizer: str | None = setting(None, TOKENIZER)

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        check(self, _RULES)


# Tests by which an algorithm stops unless it is told otherwise.
_STOPPING: dict[str, dict[str, Any]] = {
    "lbfgs": {"delta": 1e-5, "period": 10},
    "owlqn": {"delta": 1e-5, "period": 10},
    "sgd": {"max_iterations": 50, "delta": 1e-3, "period": 5},
    "ap": {"max_iterations": 20},
    "pa": {"max_iterations": 20},
    "arow": {"max_iterations": 20},
}


def resolved(config: CRFConfig, states: StateMap, tokens: int) -> CRFConfig:
    """The settings that a training on this many tokens uses, with a value for everything that was left unset.

    Only the first step length of sgd is still unset if it was: it is found during the training.
    """
    algorithm = "owlqn" if config.algorithm == "lbfgs" and config.c1 else config.algorithm
    stopping = {name: value for name, value in _STOPPING[algorithm].items() if getattr(config, name) is None}
    scheme, learned = (one.value.lower() for one in (states.tags.scheme, states.scheme))
    config = replace(config, algorithm=algorithm, scheme=scheme, learn_scheme=learned, **stopping)
    single = config.precision == "single"
    if config.precision == "auto":
        # Single precision leaves the loss exact to about 1e-8, which is enough unless the stopping tests are finer.
        finest = config.epsilon if config.delta is None else min(config.epsilon, config.delta)
        single = tokens >= _LARGE and finest >= 1e-6
    prune = config.prune if config.prune is not None else _PRUNED if single else 0.0
    return replace(config, precision="single" if single else "double", prune=prune)

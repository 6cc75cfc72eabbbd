"""What a neural tagger has learned: weights, what they are the weights of, and the names that it knows.

A network with a plan answers by the native kernels, and no torch is loaded for it. Its torch module is built when it is
asked for: to be trained further, or to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trellis import chain
from trellis.errors import ModelError
from trellis.lazy import cached
from trellis.models.neural.inference import Inference
from trellis.models.neural.layers import Weights
from trellis.models.neural.plan import Plan
from trellis.models.neural.tagging import scores_of
from trellis.models.neural.vocabulary import Vocabulary
from trellis.optional import required
from trellis.vectors import Coverage


@dataclass(eq=False)
class LearnedNetwork:
    """A network that answers, and how much of its words the vectors covered."""

    vocabulary: Vocabulary
    plan: Plan | None
    """None: only torch computes it."""
    own_weights: Weights
    """Of the plan; those of the module count once there is one."""
    make: Callable[[], Any]
    """Builds the module."""
    coverage: Coverage | None = None

    @cached
    def network(self) -> Any:
        """The torch module. Whoever asks for it may change it, so from then on it answers, and not the kernels."""
        with required("the torch module of a neural model", "trellis-crf[neural]", ModelError):
            return self.make()

    @cached
    def _inference(self) -> Inference:
        assert self.plan is not None
        return Inference(self.plan, self.own_weights)

    @property
    def _native(self) -> bool:
        return self.plan is not None and "network" not in self.__dict__

    def scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        """The scores of sentences, from which every answer comes."""
        if self._native:
            return scores_of(self._inference, self.vocabulary.encode(inputs))
        from trellis.models.neural import torch_tagging

        return torch_tagging.scores_of(self.network, self.network.encode(self.vocabulary, inputs))

    @property
    def weights(self) -> Weights:
        """As they are now, by name; those of a transformer included."""
        if self._native:
            return self.own_weights
        state = {name: tensor.detach().cpu().numpy() for name, tensor in self.network.state_dict().items()}
        return state if self.plan is None else {name: state[name] for name, _ in self.plan.shapes()}

"""What the training loop sees of a neural tagger: losses of examples, groups of parameters, held-out scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trellis.arrays import FloatArray, IntArray
from trellis.models.data import Labelled
from trellis.models.neural.network import Network, NetworkInputs
from trellis.models.neural.torch_tagging import scores_of
from trellis.models.scoring import best_labels, scores_of_labels
from trellis.tags import TagStates
from trellis.training import DevScores
from trellis.training.neural.task import Gather, alone


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """What the tokens should be: one label each, or the labels that each may have."""

    tags: Tensor | None
    allowed: Tensor | None
    token_weights: Tensor | None
    sentence_weights: Tensor | None

    @classmethod
    def of(
        cls,
        data: Labelled,
        states: TagStates,
        label_weights: Mapping[str, float] | None,
        sentence_weights: FloatArray | None,
    ) -> Targets:
        """The labels of the data as tensors."""
        weights = data.token_weights(states.tags, label_weights)
        return cls(
            None if data.partial else torch.from_numpy(data.encode_states(states)),
            torch.from_numpy(data.allowed_states(states)) if data.partial else None,
            None if weights is None else torch.from_numpy(weights).float(),
            None if sentence_weights is None else torch.from_numpy(sentence_weights).float(),
        )


class TaggingTask:
    """A network, its training data, and how to score it."""

    def __init__(
        self, network: Network, inputs: NetworkInputs, targets: Targets, validate: Callable[[Gather], DevScores] | None
    ) -> None:
        self.module: nn.Module = network
        # A transformer computes on padding, so a batch has sentences with similar numbers of subwords.
        self.lengths: IntArray = inputs.lengths if inputs.subwords is None else inputs.subwords.sizes
        self.tokens: IntArray = inputs.lengths
        self._network, self._inputs, self._targets, self._validate = network, inputs, targets, validate

    def loss(self, examples: IntArray) -> tuple[Tensor, int]:
        """The summed loss of these sentences, and how many they are."""
        network, device = self._network, self._network.device
        emissions, edges = network.scores(self._inputs.batch(examples, network.parts).to(device))
        losses = self._losses(emissions, edges, examples, torch.from_numpy(self._inputs.rows(examples)))
        weights = self._targets.sentence_weights
        if weights is not None:
            losses = losses * weights[torch.from_numpy(examples)].to(device)
        return losses.sum(), len(examples)

    def _losses(self, emissions: Tensor, edges: Tensor | None, examples: IntArray, rows: Tensor) -> Tensor:
        head, targets, lengths = self._network.head, self._targets, self._inputs.lengths[examples]
        if targets.allowed is not None:
            return head.partial_losses(emissions, lengths, targets.allowed[rows].to(emissions.device), edges=edges)
        assert targets.tags is not None
        tags = targets.tags[rows].to(emissions.device)
        if targets.token_weights is None:
            return head.losses(emissions, lengths, tags, edges=edges)
        weights = targets.token_weights[rows].to(emissions.device)
        return head.weighted_losses(emissions, lengths, tags, weights, edges=edges)

    def groups(self) -> list[tuple[str, list[nn.Parameter]]]:
        """The encoder, and emission layer and head; with a pretrained transformer, that one and all the rest."""
        network = self._network
        slow = network.encoder if network.transformer is None else network.transformer.model
        encoder = [p for p in slow.parameters() if p.requires_grad]
        known = {id(p) for p in encoder}
        rest = [p for p in network.parameters() if p.requires_grad and id(p) not in known]
        return [("encoder", encoder), ("head", rest)]

    def validate(self, gather: Gather = alone) -> DevScores | None:
        """Scores of the network, in its present state, on the held-out data."""
        return None if self._validate is None else self._validate(gather)


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """Scores of a network on held-out sentences, of which each process tags its share."""

    network: Network
    inputs: NetworkInputs
    share: slice
    """Which sentences `inputs` are."""
    dev: Labelled
    states: TagStates

    def __call__(self, gather: Gather) -> DevScores:
        """Of the network in its present state."""
        own, histories = self.dev.inputs[self.share], self.network.head.histories
        blocks = [scores_of(self.network, self.inputs)] if own else []  # there may be more processes than sentences
        parts = gather(best_labels(blocks, own, self.states, histories))
        found: list[list[str]] = [[]] * len(self.dev.inputs)
        for rank, part in enumerate(parts):
            found[rank :: len(parts)] = part
        return scores_of_labels(found, self.dev, self.states)

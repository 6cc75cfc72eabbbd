"""What the training loop sees of a neural tagger: losses of examples, groups of parameters, held-out scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trellis.arrays import FloatArray, IntArray
from trellis.models.data import Labelled
from trellis.models.neural.network import Network, NetworkInputs
from trellis.models.neural.torch_tagging import scores_of
from trellis.models.scoring import best_labels, scores_of_labels
from trellis.tags import StateMap
from trellis.training import DevScores
from trellis.training.neural.task import Gather, alone


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """What the tokens should be: one label each, or the labels that each may have."""

    tags: Tensor | None
    allowed: Tensor | None
    token_weights: Tensor | None
    sentence_weights: Tensor | None

    @property
    def is_plain(self) -> bool:
        """Whether every token has one label, and all count the same."""
        return self.tags is not None and self.token_weights is None and self.sentence_weights is None

    @classmethod
    def of(
        cls,
        data: Labelled,
        states: StateMap,
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


class TaggingExamples:
    """Sentences in memory: what a network makes of them, and what it should."""

    def __init__(self, network: Network, inputs: NetworkInputs, targets: Targets) -> None:
        self.lengths: IntArray = sizes_of(inputs)
        self.tokens: IntArray = inputs.lengths
        self._network, self._inputs, self._targets = network, inputs, targets

    def loss(self, examples: IntArray) -> tuple[Tensor, int]:
        """The summed loss of these sentences, and how many they are."""
        network, device, targets = self._network, self._network.device, self._targets
        batch = self._inputs.batch(examples, network.parts).to(device)
        rows = torch.from_numpy(self._inputs.rows(examples))
        if targets.is_plain:
            assert targets.tags is not None
            loss = network.joined_loss(batch, targets.tags[rows])
            if loss is not None:
                return loss, len(examples)
        losses = self._losses(*network.scores(batch), examples, rows)
        if targets.sentence_weights is not None:
            losses = losses * targets.sentence_weights[torch.from_numpy(examples)].to(device)
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


class TaggingTrainee:
    """A network that learns, and how to score it."""

    def __init__(self, network: Network, validate: Callable[[Gather], DevScores] | None) -> None:
        self.module: nn.Module = network
        self._network, self._validate = network, validate

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


class TaggingTask(TaggingExamples, TaggingTrainee):
    """A network, its training data, and how to score it."""

    def __init__(
        self, network: Network, inputs: NetworkInputs, targets: Targets, validate: Callable[[Gather], DevScores] | None
    ) -> None:
        TaggingExamples.__init__(self, network, inputs, targets)
        TaggingTrainee.__init__(self, network, validate)


class StreamedTaggingTask(TaggingTrainee):
    """A network, training data that are read anew in each epoch, and how to score it."""

    def __init__(
        self,
        network: Network,
        read: Callable[[int, int], Iterator[Labelled]],
        encode: Callable[[Sequence[Any]], NetworkInputs],
        targets: Callable[[Labelled], Targets],
        validate: Callable[[Gather], DevScores] | None,
    ) -> None:
        super().__init__(network, validate)
        self._read, self._encode, self._targets = read, encode, targets

    def windows(self, epoch: int, first: int = 0) -> Iterator[TaggingExamples]:
        """The windows of an epoch, encoded one by one; nothing holds their sentences when the next one is read."""
        return map(self._examples, self._read(epoch, first))

    def window_lengths(self) -> Iterator[IntArray]:
        """The sizes of the sentences of each window of the first epoch."""
        return map(self._sizes, self._read(0, 0))

    def _examples(self, data: Labelled) -> TaggingExamples:
        return TaggingExamples(self._network, self._encode(data.inputs), self._targets(data))

    def _sizes(self, data: Labelled) -> IntArray:
        return data.lengths if self._network.transformer is None else sizes_of(self._encode(data.inputs))


def sizes_of(inputs: NetworkInputs) -> IntArray:
    """Tokens of each sentence; with a transformer subwords, since it computes on padding and batches must fit these."""
    return inputs.lengths if inputs.subwords is None else inputs.subwords.sizes


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """Scores of a network on held-out sentences, of which each process tags its share."""

    network: Network
    inputs: NetworkInputs
    share: slice
    """Which sentences `inputs` are."""
    dev: Labelled
    states: StateMap

    def __call__(self, gather: Gather) -> DevScores:
        """Of the network in its present state."""
        own, histories = self.dev.inputs[self.share], self.network.head.histories
        blocks = [scores_of(self.network, self.inputs)] if own else []  # there may be more processes than sentences
        parts = gather(best_labels(blocks, own, self.states, histories))
        found: list[list[str]] = [[]] * len(self.dev.inputs)
        for rank, part in enumerate(parts):
            found[rank :: len(parts)] = part
        return scores_of_labels(found, self.dev, self.states)

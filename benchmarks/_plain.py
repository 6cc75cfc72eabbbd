"""The plain side of `neural.py`: embedding, packed nn.LSTM, linear layer and pytorch-crf, as the tutorials write it.

That of `characters.py` has a CRF in torch operations instead, as NCRF++ and many papers' code have it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torchcrf
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from trellis.vectors import read_vectors

T = TypeVar("T")
Labelled = Sequence[tuple[list[str], list[str]]]  # tokens and tags


class PlainTagger(nn.Module):
    """The network; the word vectors are not trained."""

    def __init__(self, vectors: Tensor, hidden: int, labels: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(vectors, freeze=True, padding_idx=0)
        self.dropout = nn.Dropout(0.5)
        self.lstm = nn.LSTM(vectors.shape[1], hidden, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(2 * hidden, labels)
        self.crf = torchcrf.CRF(labels, batch_first=True)

    def emissions(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.dropout(self.embedding(ids)), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        emissions: Tensor = self.linear(self.dropout(states))
        return emissions

    def loss(self, ids: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        mask = torch.arange(ids.shape[1]) < lengths.unsqueeze(-1)
        return -self.crf(self.emissions(ids, lengths), tags, mask=mask, reduction="mean")

    @torch.no_grad()
    def tag(self, ids: Tensor, lengths: Tensor) -> list[list[int]]:
        mask = torch.arange(ids.shape[1]) < lengths.unsqueeze(-1)
        paths: list[list[int]] = self.crf.decode(self.emissions(ids, lengths), mask=mask)
        return paths


class TorchCRFTagger(nn.Module):
    """Trained vectors, packed LSTM, linear layer, and a CRF whose last two labels are start and stop."""

    def __init__(self, count: int, size: int, hidden: int, labels: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(count, size, padding_idx=0)
        self.dropout = nn.Dropout(0.5)
        self.lstm = nn.LSTM(size, hidden, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(2 * hidden, labels + 2)
        self.transitions = nn.Parameter(torch.zeros(labels + 2, labels + 2))
        self.start, self.stop = labels, labels + 1

    def loss(self, ids: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.dropout(self.embedding(ids)), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        emissions, mask = self.linear(self.dropout(states)), torch.arange(ids.shape[1]) < lengths.unsqueeze(-1)
        return (self.log_partition(emissions, mask) - self.score(emissions, tags, mask, lengths)) / len(ids)

    def log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Summed over the batch: alpha[b, j] = log sum_i exp(alpha[b, i] + transitions[i, j]) + emissions[b, t, j]."""
        alpha = emissions[:, 0] + self.transitions[self.start]
        for t in range(1, emissions.shape[1]):
            following = torch.logsumexp(alpha.unsqueeze(2) + self.transitions, dim=1) + emissions[:, t]
            alpha = torch.where(mask[:, t].unsqueeze(1), following, alpha)
        return torch.logsumexp(alpha + self.transitions[:, self.stop], dim=1).sum()

    def score(self, emissions: Tensor, tags: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
        """Of the given tags, summed over the batch."""
        own = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)[mask].sum()
        steps = self.transitions[tags[:, :-1], tags[:, 1:]][mask[:, 1:]].sum()
        last = tags.gather(1, (lengths - 1).unsqueeze(1)).squeeze(1)
        return own + steps + self.transitions[self.start, tags[:, 0]].sum() + self.transitions[last, self.stop].sum()


@dataclass(frozen=True)
class Plain:
    """The plain tagger with its vocabulary, trained the plain way."""

    network: PlainTagger
    words: dict[str, int]
    labels: list[str]

    @staticmethod
    def make(words: set[str], train: Labelled, vectors: str, hidden: int) -> "Plain":
        found = read_vectors(vectors, words)
        table = torch.cat([torch.zeros(2, found.size), torch.from_numpy(found.array)])
        labels = sorted({tag for _, tags in train for tag in tags})
        network = PlainTagger(table, hidden, len(labels))
        return Plain(network, {word: row + 2 for word, row in found.rows.items()}, labels)

    def ids(self, tokens: list[str]) -> Tensor:
        return torch.tensor([self.words.get(token, 1) for token in tokens])

    def train_epoch(self, train: Labelled, batch_size: int, optimizer: torch.optim.Optimizer) -> None:
        self.network.train()
        number = {label: place for place, label in enumerate(self.labels)}
        for batch in batches_of([train[i] for i in torch.randperm(len(train)).tolist()], batch_size):
            tags = pad_sequence([torch.tensor([number[tag] for tag in tags]) for _, tags in batch], batch_first=True)
            optimizer.zero_grad()
            self.network.loss(*self._padded(batch, tags)).backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
            optimizer.step()

    def _padded(self, batch: Labelled, tags: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ids = pad_sequence([self.ids(tokens) for tokens, _ in batch], batch_first=True)
        return ids, tags, torch.tensor([len(tokens) for tokens, _ in batch])

    def predict(self, part: Labelled, batch_size: int) -> list[list[str]]:
        self.network.eval()
        found: list[list[str]] = []
        for batch in batches_of(part, batch_size):
            ids = pad_sequence([self.ids(tokens) for tokens, _ in batch], batch_first=True)
            paths = self.network.tag(ids, torch.tensor([len(tokens) for tokens, _ in batch]))
            found += [[self.labels[tag] for tag in path] for path in paths]
        return found


def batches_of(part: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for at in range(0, len(part), size):
        yield part[at : at + size]

"""The worked example of the mission: a small BiLSTM-CRF learns two sentences by heart."""

import pytest
import torch
from torch import Tensor, nn

from trellis.nn import CRF

SENTENCES = [
    ["the", "wall", "street", "journal", "reported", "today", "that", "apple", "corporation", "made", "money"],
    ["georgia", "tech", "is", "a", "university", "in", "georgia"],
]
TAGS = [["B", "I", "I", "I", "O", "O", "O", "B", "I", "O", "O"], ["B", "I", "O", "O", "O", "O", "B"]]
LABELS = {"B": 0, "I": 1, "O": 2}


class BiLSTMCRF(nn.Module):
    def __init__(self, words: int, constraints: Tensor | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 16)
        self.lstm = nn.LSTM(16, 16, bidirectional=True, batch_first=True)
        self.scorer = nn.Linear(32, len(LABELS))
        self.crf = CRF(len(LABELS), batch_first=True, constraints=constraints)

    def forward(self, words: Tensor) -> Tensor:
        emissions: Tensor = self.scorer(self.lstm(self.embedding(words))[0])
        return emissions


@pytest.mark.usefixtures("one_torch_thread")
def test_two_sentences_are_learnt_and_come_back_exactly() -> None:
    torch.manual_seed(1)
    vocabulary = {word: i for i, word in enumerate(sorted({word for sentence in SENTENCES for word in sentence}))}
    words = torch.zeros(2, 11, dtype=torch.int64)
    tags, mask = torch.zeros_like(words), torch.zeros(2, 11, dtype=torch.bool)
    for row, (sentence, labels) in enumerate(zip(SENTENCES, TAGS, strict=True)):
        words[row, : len(sentence)] = torch.tensor([vocabulary[word] for word in sentence])
        tags[row, : len(sentence)] = torch.tensor([LABELS[label] for label in labels])
        mask[row, : len(sentence)] = True
    model = BiLSTMCRF(len(vocabulary))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, weight_decay=1e-4)
    for _ in range(500):
        optimizer.zero_grad()
        loss = -model.crf(model(words), tags, mask)
        assert loss >= 0
        loss.backward()
        optimizer.step()
    assert loss < 1
    best = model.crf.decode(model(words), mask)
    assert [len(path) for path in best] == [11, 7]
    assert best == [[LABELS[label] for label in labels] for labels in TAGS]

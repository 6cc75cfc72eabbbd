"""The loss as one node: values and gradients of the modules, one operation after another."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trellis.nn import CRF, Batch, CharacterCNN, Characters, Encoder, Packing
from trellis.nn.characters import CharacterPart
from trellis.nn.dropout import Dropout
from trellis.nn.encoder import LookupPart, WordPart, has_joined_loss, joined_loss

LENGTHS = np.array([4, 1, 0, 7, 2])
N, L = int(LENGTHS.sum()), 5


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def make_encoder(names: str, **dropout: float) -> Encoder:
    every = {
        "words": WordPart(9, 6, vectors=np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)),
        "characters": CharacterPart(CharacterCNN(8, 3, 4)),
        "case": LookupPart("case", 4, 2),
        "pairs": LookupPart("pairs", 6, 3),
        "frozen": WordPart(2, 6, vectors=np.ones((5, 6), np.float32), learnt=False),
    }
    parts = {name: every[name] for name in names.split()}
    return Encoder(parts, hidden=14, **dropout).double()


def make_batch() -> Batch:
    words = torch.tensor([[2, 3, 4], [5, 0, 0], [7, 7, 0]])
    return Batch(
        Packing.of(LENGTHS),
        torch.randint(1, 9, (N,)),
        torch.randint(0, 5, (N,)),
        torch.randint(0, 4, (N,)),
        {},
        Characters(words, torch.randint(0, 3, (N,))),
        torch.randint(0, 6, (N, 2)),
    )


def by_modules(
    encoder: Encoder, emission: nn.Linear, crf: CRF, batch: Batch, tags: Tensor, drops: list[Dropout]
) -> Tensor:
    """The same with the operations of torch, with the masks of these dropouts."""
    assert encoder.lstm is not None
    features = torch.cat([part(batch) for part in encoder.parts.values()], dim=1)
    first, second = (
        drop.apply(features.new_ones(N, size), LENGTHS)
        for drop, size in zip(drops, (features.shape[1], 14), strict=True)
    )
    states = encoder.lstm(features * first, batch.packing) * second
    padded = nn.utils.rnn.pad_sequence(list(emission(states).split(LENGTHS.tolist())), batch_first=True)
    own = nn.utils.rnn.pad_sequence(list(tags.split(LENGTHS.tolist())), batch_first=True)
    crf.batch_first = True
    return crf.nll(padded, own, lengths=torch.from_numpy(LENGTHS))


@pytest.mark.parametrize("names", ["words characters", "words case pairs", "characters", "frozen"])
@pytest.mark.parametrize("dropout", [{}, {"dropout": 0.4, "locked_dropout": 0.3, "token_dropout": 0.2}])
def test_the_same_as_the_modules(names: str, dropout: dict[str, float], instruction_set: str) -> None:
    encoder, emission = make_encoder(names, **dropout), nn.Linear(14, L).double()
    allowed = torch.rand(L, L) < 0.8
    allowed.fill_diagonal_(True)
    crf = CRF(L, constraints=allowed).double()
    batch, tags = make_batch(), torch.full((N,), 3)
    parameters = [p for module in (encoder, emission, crf) for p in module.parameters() if p.requires_grad]
    found = []
    for node in (True, False):
        torch.manual_seed(1)
        if node:
            loss = joined_loss(encoder, emission, crf, batch, tags)
        else:
            loss = by_modules(encoder, emission, crf, batch, tags, list(encoder.draw_dropout()))
        found.append([loss.detach(), *torch.autograd.grad(loss * 1.5, parameters)])
    for mine, wanted in zip(*found, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-10, atol=1e-11)


def test_nothing_is_dropped_outside_training() -> None:
    encoder = make_encoder("words", dropout=0.4, locked_dropout=0.3, token_dropout=0.2).eval()
    assert all(own[1:] == (0.0, 0.0, 0.0) for own in encoder.draw_dropout())


def test_other_networks_go_through_the_modules() -> None:
    one = make_encoder("words")
    assert has_joined_loss(one, nn.Linear(14, L))
    assert not has_joined_loss(one, nn.Linear(14, L).bfloat16())
    assert not has_joined_loss(Encoder({"case": LookupPart("case", 4, 2)}, hidden=14, layers=2), nn.Linear(14, L))
    assert not has_joined_loss(Encoder({"case": LookupPart("case", 4, 2)}, hidden=0), nn.Linear(14, L))

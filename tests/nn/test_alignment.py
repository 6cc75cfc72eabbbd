"""Layers whose inputs, weights and gradients lie at addresses that C++ does not allow, as in a mapped file."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.misaligned import misaligned_tensor
from trellis.nn import CRF, BiLSTM, CharacterCNN, CharacterLSTM, Packing

Put = Callable[[Tensor], Tensor]
LENGTHS = torch.tensor([3, 0, 2])
WORDS = torch.tensor([[3, 2, 5, 0], [4, 0, 0, 0], [2, 2, 3, 4]])
TAGS = torch.tensor([[0, 2, 1], [1, 1, 0]])
FEATURES, SCORES = torch.linspace(-1, 1, 15).view(5, 3), torch.linspace(-2, 2, 18).view(2, 3, 3)
INDEX = torch.tensor([4, 0, 0, 2, 1])

LAYERS: dict[str, tuple[Callable[[], nn.Module], Callable[[Any, Put, torch.dtype], Tensor]]] = {
    "lstm": (lambda: BiLSTM(3, 4, 2), lambda m, put, kind: m(put(FEATURES.to(kind)), Packing.of(put(LENGTHS)))),
    "lstm with shared rows": (
        lambda: BiLSTM(3, 4),
        lambda m, put, kind: m(put(FEATURES.to(kind)), Packing.of(put(LENGTHS)), put(INDEX)),
    ),
    "characters by filters": (lambda: CharacterCNN(6, 3, 4, widths=(2, 3)), lambda m, put, kind: m(put(WORDS))),
    "characters by lstm": (lambda: CharacterLSTM(6, 3, 4), lambda m, put, kind: m(put(WORDS))),
    "crf": (
        lambda: CRF(3, batch_first=True),
        lambda m, put, kind: m.nll(put(SCORES.to(kind)), put(TAGS), reduction="none"),
    ),
    "crf with weights": (
        lambda: CRF(3, batch_first=True),
        lambda m, put, kind: m.nll(
            put(SCORES.to(kind)), put(TAGS), reduction="none", label_weights=put(torch.tensor([1.0, 2.0, 3.0]).to(kind))
        ),
    ),
}


def results(name: str, put: Put, kind: torch.dtype, learning: bool) -> list[Tensor]:
    make, run = LAYERS[name]
    torch.manual_seed(0)
    module = make().to(kind)
    for parameter in module.parameters():
        parameter.data = put(parameter.detach())
    with torch.set_grad_enabled(learning):
        found = run(module, put, kind)
    if not learning:
        return [found]
    found.backward(put(torch.linspace(1, 2, found.numel(), dtype=kind).view_as(found)))
    return [found.detach(), *(parameter.grad for parameter in module.parameters() if parameter.grad is not None)]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_the_same_answers_and_gradients(name: str, learning: bool, kind: torch.dtype) -> None:
    own, expected = (results(name, put, kind, learning) for put in (misaligned_tensor, lambda x: x))
    for a, b in zip(own, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)  # torch's own products may round otherwise


def test_half_of_the_layers_would_be_tested_for_nothing_if_gradients_were_none() -> None:
    assert all(len(results(name, lambda x: x, torch.float64, True)) > 2 for name in LAYERS)

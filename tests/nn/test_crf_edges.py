"""`trellis.nn.CRF` with scores of transitions that depend on the place: `edges`, under any mask."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.nn.test_crf import FORBIDDEN, MASK, L, constraints, is_valid, make_crf, make_emissions, rows
from trellis.errors import ShapeError
from trellis.nn import CRF

TAGS = torch.arange(20).reshape(4, 5) % L
ORDERS = pytest.mark.parametrize("batch_first", [True, False])
QUESTIONS: dict[str, Any] = {
    "log_partition": lambda crf, e, **given: crf.scores(e, **given).log_partition(),
    "entropy": lambda crf, e, **given: crf.scores(e, **given).entropy(),
    "marginals": lambda crf, e, **given: crf.marginals(e, **given).transitions,
    "viterbi": lambda crf, e, **given: crf.viterbi(e, **given).scores,
    "kbest": lambda crf, e, **given: torch.cat(crf.scores(e, **given).kbest(3).scores),
    "sample": lambda crf, e, **given: crf.scores(e, **given).sample(3),
    "span_log_prob": lambda crf, e, **given: crf.scores(e, **given).span_log_prob(
        [[0, 1, 3], [1, 0, 2]], [[1, 2], [0, 0]]
    ),
}


def make_edges(B: int = 4, T: int = 5) -> Tensor:
    return torch.randn(B, T - 1, L, L, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def ordered(crf: CRF, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Batch-first tensors in the order that the layer wants."""
    return tensors if crf.batch_first else tuple(x.transpose(0, 1) for x in tensors)


@ORDERS
def test_repeated_transitions_as_edges_change_nothing(batch_first: bool) -> None:
    crf, bare = make_crf(batch_first), make_crf(batch_first)
    nn.init.zeros_(bare.transitions)
    emissions, tags, mask = ordered(crf, make_emissions(), TAGS, MASK)
    (edges,) = ordered(crf, crf.transitions.detach().expand(4, 4, L, L))
    for ask in QUESTIONS.values():
        torch.testing.assert_close(ask(bare, emissions, mask=mask, edges=edges), ask(crf, emissions, mask=mask))
    for options in ({}, {"label_weights": torch.arange(1.0, L + 1)}):
        found = bare.nll(emissions, tags, mask, edges=edges, **options)
        torch.testing.assert_close(found, crf.nll(emissions, tags, mask, **options))


def test_constraints_hold_whatever_the_edges_say() -> None:
    crf = make_crf(constraints=constraints())
    emissions = make_emissions(scale=5.0)
    edges = torch.zeros(4, 4, L, L, dtype=torch.float64)
    for i, j in FORBIDDEN:
        edges[..., i, j] = 1e4
    assert all(is_valid(path) for path in crf.decode(emissions, MASK, edges=edges))
    for drawn in crf.scores(emissions, MASK, edges=edges).sample(20):
        assert all(is_valid(path) for path in rows(drawn))
    found = crf.marginals(emissions, MASK, edges=edges, pairwise=True)
    assert found.pairwise is not None
    assert all((found.pairwise[:, i, j] == 0).all() for i, j in FORBIDDEN)


def test_edges_forbid_where_the_layer_does_not() -> None:
    crf, emissions = make_crf(), make_emissions()
    edges = torch.zeros(4, 4, L, L, dtype=torch.float64)
    edges[0, 1] = -torch.inf
    edges[0, 1, 3, 2] = 0.0
    assert crf.decode(emissions, edges=edges)[0][1:3] == [3, 2]


class TestScores:
    def test_leave_out_ignored_tags(self) -> None:
        crf, emissions, edges = make_crf(), make_emissions(), make_edges()
        tags = torch.where(MASK, TAGS, -100)
        losses = crf.scores(emissions, tags=tags, edges=edges).nll(tags)
        torch.testing.assert_close(losses, crf.nll(emissions, TAGS, MASK, edges=edges, reduction="none"))
        torch.testing.assert_close(
            crf.scores(emissions, tags=tags).score(tags), crf.scores(emissions, MASK).score(TAGS)
        )

    @pytest.mark.parametrize("shape", [(3, 1), (3, 0), (0, 4), (0, 0)])
    @ORDERS
    def test_batches_without_pairs(self, shape: tuple[int, int], batch_first: bool) -> None:
        crf = make_crf(batch_first)
        emissions = torch.randn(*shape, L, dtype=torch.float64)
        edges = torch.empty(shape[0], max(shape[1] - 1, 0), L, L, dtype=torch.float64)
        e, own = ordered(crf, emissions, edges)
        torch.testing.assert_close(crf.scores(e, edges=own).log_partition(), crf.scores(e).log_partition())
        assert crf.decode(e, edges=own) == crf.decode(e)


@pytest.mark.parametrize("edges", [np.zeros((2, 3, 3, 3)), [[[0.0]]], "edges"])
def test_edges_that_are_no_tensor_are_named(edges: object) -> None:
    with pytest.raises(ShapeError, match=r"edges must be a tensor \(B, T - 1, L, L\) = \(2, 3, 3, 3\), got"):
        CRF(3, batch_first=True).decode(torch.zeros(2, 4, 3), edges=edges)  # type: ignore[arg-type]

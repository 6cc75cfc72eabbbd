"""Refusals of spans and of padded batches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.chain.test_errors import INF, NAN, Side, arrays, refuses
from trellis.chain import torch as chain_torch
from trellis.errors import NonFiniteError, NoPathError, ShapeError, TagRangeError


@pytest.fixture(params=["numpy", "native", "scan"])
def side(request: pytest.FixtureRequest) -> Side:
    return Side(request.param)


class TestSpans:
    @pytest.mark.parametrize(
        ("spans", "message"),
        [
            ([[2, 0, 1]], "span 0 names sequence 2, but there are 2"),
            ([[0, 0, 1], [-1, 0, 1]], "span 1 names sequence -1, but there are 2"),
            ([[1, 0, 3]], "span 0 is 0..3 of sequence 1: must be 0 <= begin < end <= its length 2"),
            ([[0, 1, 1]], "span 0 is 1..1 of sequence 0: must be 0 <= begin < end <= its length 3"),
            ([[0, -1, 1]], "span 0 is -1..1 of sequence 0: must be 0 <= begin < end <= its length 3"),
            ([[0, 1]], "spans must be integers (S, 3) = (sequence, begin, end), got int64 (1, 2)"),
            ([[0.0, 0.0, 1.0]], "spans must be integers (S, 3) = (sequence, begin, end), got float64 (1, 3)"),
        ],
    )
    def test_places(self, side: Side, spans: list[Any], message: str) -> None:
        scores = side.scores(arrays())
        refuses(ShapeError, message, lambda: side.call("span_log_prob", scores, spans, [[0]] * len(spans)))

    def test_tags(self, side: Side) -> None:
        scores, spans = side.scores(arrays()), [[0, 0, 2], [1, 1, 2]]
        call = lambda tags: side.call("span_log_prob", scores, spans, tags)  # noqa: E731
        message = "tags must have one label per position of each span, got lengths [1, 1]"
        refuses(ShapeError, message, lambda: call([[0], [0]]))
        message = "tags must hold 3 labels, the sum of the spans' lengths, got (2,)"
        refuses(ShapeError, message, lambda: call(np.array([0, 0])))
        refuses(TagRangeError, "tags[1] is 2: must be in 0..1 (L = 2)", lambda: call([[0, 2], [0]]))
        refuses(TagRangeError, "tags[2] is -1: must be in 0..1 (L = 2)", lambda: call([[0, 1], [-1]]))

    @pytest.mark.parametrize("name", ["before", "after"])
    def test_neighbours(self, side: Side, name: str) -> None:
        scores = side.scores(arrays())
        for mask in (np.ones(3, bool), np.ones((2, 2), bool), np.ones(2)):
            message = f"{name} must be bool (S, L) = (1, 2) or (L,) = (2,), got {mask.dtype} {mask.shape}"
            options = {name: mask}
            refuses(
                ShapeError,
                message,
                lambda options=options: side.call("span_log_prob", scores, [[0, 0, 1]], [[0]], **options),
            )


class TestPadded:
    def test_shapes(self) -> None:
        emissions, square = torch.zeros(2, 3, 2), torch.zeros(2, 2)
        make: Callable[..., Any] = chain_torch.ChainScores.padded
        mask = torch.ones(3, 2, dtype=torch.bool)
        message = "mask must be (2, 3) to match emissions (2, 3, 2), got (3, 2)"
        refuses(ShapeError, message, lambda: make(emissions, mask, square))
        message = "tags must be (2, 3) to match emissions (2, 3, 2), got (2,)"
        refuses(ShapeError, message, lambda: make(emissions, None, square, tags=torch.zeros(2, dtype=torch.int64)))
        message = "edges must be (B, T - 1, L, L) = (2, 2, 2, 2) to match emissions (2, 3, 2), got (2, 3, 2, 2)"
        refuses(ShapeError, message, lambda: make(emissions, None, square, edges=torch.zeros(2, 3, 2, 2)))
        message = "edges must be (T - 1, B, L, L) = (1, 3, 2, 2) to match emissions (2, 3, 2), got (2, 2, 2, 2)"
        edges = torch.zeros(2, 2, 2, 2)
        refuses(ShapeError, message, lambda: make(emissions, None, square, edges=edges, batch_first=False))
        message = "emissions must be (B, T, L) with L >= 1, got (2, 3)"
        refuses(ShapeError, message, lambda: make(emissions[..., 0], None, square))

    @pytest.mark.parametrize("backend", ["auto", "scan"])
    @pytest.mark.parametrize("batch_first", [True, False])
    def test_positions_count_tokens_and_not_padding(self, backend: Any, batch_first: bool) -> None:
        """Sequence 1 has its tokens at places 1 and 3 of its row; the second is bad."""
        mask = torch.tensor([[True, True, True, True], [False, True, False, True]])
        emissions = torch.zeros(2, 4, 2)
        emissions[1, 3, 1] = NAN

        def make(e: Tensor, edges: Tensor | None = None) -> chain_torch.ChainScores:
            if edges is not None and not batch_first:
                edges = edges.transpose(0, 1)
            own, places = (e, mask) if batch_first else (e.transpose(0, 1), mask.T)
            return chain_torch.ChainScores.padded(
                own, places, torch.zeros(2, 2), edges=edges, batch_first=batch_first, backend=backend
            )

        message = "emissions of sequence 1, position 1, label 1 are nan: scores must be finite or minus infinity"
        refuses(NonFiniteError, message, lambda: make(emissions).log_partition())
        edges = torch.zeros(2, 3, 2, 2)
        edges[1, 0] = edges[1, 1] = NAN  # into its first token, and into a hole: nobody looks
        make(torch.zeros(2, 4, 2), edges).log_partition()
        edges[1, 2, 0, 1] = INF
        message = (
            "edges of sequence 1, position 1, from label 0 to label 1 are inf: scores must be finite or minus infinity"
        )
        refuses(NonFiniteError, message, lambda: make(torch.zeros(2, 4, 2), edges).log_partition())
        message = "sequence 1 of length 2 has no valid path: no label can be reached at position 1"
        forbidden = torch.where(torch.arange(4)[:, None] == 3, -INF, 0.0).expand(4, 2)
        forbidden = torch.stack([torch.zeros(4, 2), forbidden])
        refuses(NoPathError, message, lambda: make(forbidden).log_partition())
        tags = torch.zeros(2, 4, dtype=torch.int64)
        tags[1, 3] = 7
        own_tags = tags if batch_first else tags.T
        message = "tags of sequence 1, position 1 are 7: must be in 0..1 (L = 2)"
        refuses(TagRangeError, message, lambda: make(torch.zeros(2, 4, 2)).nll(own_tags))

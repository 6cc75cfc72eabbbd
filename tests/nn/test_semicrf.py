"""The semi-Markov layer and head: scores by the definition, and the same distribution as segments and as a chain."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trellis.chain import SegmentScores
from trellis.errors import ConfigError, ShapeError
from trellis.nn import SegmentStates, SemiCRF, SemiCRFHead, TokenScores

L, K, R = 2, 3, 2
LENGTHS = [4, 0, 2]


def layer(**options: object) -> SemiCRF:
    torch.manual_seed(3)
    made = SemiCRF(L, K, **options).double()
    torch.nn.init.normal_(made.length)
    return made


def tokens(n: int = 6) -> TokenScores:
    torch.manual_seed(4)
    parts = [torch.randn(n, size, dtype=torch.float64, requires_grad=True) for size in (L, L, L, L, R, R)]
    return TokenScores(*parts)


def test_a_segment_is_its_tokens_its_ends_and_its_length() -> None:
    made, own = layer(rank=R), tokens()
    found = made.segments(own, LENGTHS)
    for end, k, label in ((0, 0, 1), (3, 2, 0), (5, 1, 1)):
        begin = end - k
        wanted = own.single[end, label] if k == 0 else own.inner[begin : end + 1, label].sum()
        if k:
            wanted = wanted + own.first[begin, label] + own.last[end, label]
        wanted = wanted + made.length[k, label] + (made.together[label] * own.left[begin] * own.right[end]).sum()
        assert found.segments[end, k, label].item() == pytest.approx(wanted.item(), abs=1e-12)


def test_gradients_reach_every_score_and_parameter() -> None:
    made, own = layer(rank=R), tokens()
    paths = [[(0, 3, 1), (3, 4, 0)], [], [(0, 1, 1), (1, 2, 0)]]

    def loss(*values: torch.Tensor) -> torch.Tensor:
        return made.segments(TokenScores(*values), LENGTHS).nll(paths)

    inputs = (own.inner, own.first, own.last, own.single, own.left, own.right)
    assert torch.autograd.gradcheck(loss, inputs)
    loss(*inputs).sum().backward()
    assert all(parameter.grad is not None for parameter in made.parameters())


@pytest.mark.parametrize("batch_first", [True, False])
def test_padded_batches_are_flat_ones(batch_first: bool) -> None:
    made = layer(batch_first=batch_first)
    emissions = torch.randn(3, 4, L, dtype=torch.float64)
    mask = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]]).bool()
    given, places = (emissions, mask) if batch_first else (emissions.transpose(0, 1), mask.T)
    flat = made.segments(emissions[mask], mask.sum(1))
    assert torch.equal(made.scores(given, places).log_partition(), flat.log_partition())
    best = made.decode(given, places)
    assert best == [[tuple(row) for row in path.tolist()] for path in flat.viterbi().paths]
    losses = made.nll(given, best, places, reduction="none")
    torch.testing.assert_close(losses, flat.nll(best))
    torch.testing.assert_close(made.nll(given, best, places, reduction="token_mean"), losses.sum() / 5)
    torch.testing.assert_close(made.nll(given, best, places, reduction="mean"), losses.sum() / 3)
    torch.testing.assert_close(made(given, best, places), -losses.sum())
    ends = torch.tensor([4, 1, 0])
    whole = made.scores(given, lengths=ends).log_partition()
    assert whole[2].item() == 0.0
    np.testing.assert_allclose(made.marginals(given, places).segments, flat.numpy().marginals().segments)


def test_lengths_that_are_not_allowed_never_occur() -> None:
    allowed = torch.ones(K, L, dtype=torch.bool)
    allowed[1:, 0] = False
    made = layer(allowed=allowed, batch_first=True)
    probabilities = made.marginals(torch.randn(2, 4, L, dtype=torch.float64)).segments
    assert probabilities[:, 1:, 0].max() == 0.0
    assert probabilities[:, 1:, 1].max() > 0.0


@pytest.mark.parametrize("large", [-np.inf, float(np.finfo(np.float32).min)])
def test_a_token_that_forbids_a_label_leaves_other_segments_as_they_are(large: float) -> None:
    made, scores = layer(), torch.randn(6, L, dtype=torch.float64)
    before = made.segments(scores, [6]).segments
    scores[1, 0] = large
    scores.requires_grad_()
    found = made.segments(scores, [6])
    values = found.segments.tolist()
    for end, k, label in np.ndindex(6, K, L):
        if label == 0 and max(end - k, 0) <= 1 <= end:
            assert values[end][k][label] <= large / 2
        else:
            assert values[end][k][label] == pytest.approx(before[end, k, label].item(), abs=1e-12)
    found.log_partition().sum().backward()
    assert torch.isfinite(scores.grad).all()


def test_a_sequence_scores_the_same_whatever_else_is_in_the_batch() -> None:
    made, scores = layer(), torch.randn(6, L, dtype=torch.float64) * 100
    together, alone = made.segments(scores, [4, 2]).segments[4:], made.segments(scores[4:], [2]).segments
    assert torch.equal(together[0, 0], alone[0, 0])
    assert torch.equal(together[1, :2], alone[1, :2])


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ConfigError, match="must be at least 1"):
        SemiCRF(2, 0)
    with pytest.raises(ShapeError, match=r"allowed must be bool \(K, L\) = \(3, 2\)"):
        SemiCRF(2, 3, allowed=torch.ones(2, 3).bool())
    with pytest.raises(ShapeError, match=r"scores of tokens must be \(N, L\)"):
        layer().segments(torch.zeros(3, 5), [3])
    with pytest.raises(ShapeError, match=r"first must be \(1, 4, 2\) to match the scores of tokens, got \(1, 3, 2\)"):
        layer(batch_first=True).decode(TokenScores(torch.zeros(1, 4, L), first=torch.zeros(1, 3, L)))
    with pytest.raises(ShapeError, match=r"last must be \(3, 2\) to match the scores of tokens, got \(3, 5\)"):
        layer().segments(TokenScores(torch.zeros(3, L), last=torch.zeros(3, 5)), [3])
    for options, given in (({}, torch.zeros(3, R)), ({"rank": R}, None)):
        with pytest.raises(ShapeError, match="left and right are given if and only if rank > 0"):
            layer(**options).segments(TokenScores(torch.zeros(3, L), left=given, right=given), [3])
    with pytest.raises(ConfigError, match="invalid reduction"):
        layer().nll(torch.zeros(1, 1, L), [[(0, 1, 0)]], reduction="max")


# O; A: single, first, inner, last; B: single only
STATES = SegmentStates(np.array([[0, -1, -1, -1], [1, 2, 3, 4], [5, -1, -1, -1]]))
COUNTS = np.array([5, 0, 1, 3])


def head(rank: int = 0) -> SemiCRFHead:
    torch.manual_seed(6)
    made = SemiCRFHead(6, STATES, 3, rank).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


def emitted(made: SemiCRFHead) -> torch.Tensor:
    return torch.randn(
        int(COUNTS.sum()), made.num_scores, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )


@pytest.mark.parametrize("rank", [0, 2])
def test_the_chain_has_the_distribution_of_the_segments(rank: int) -> None:
    made = head(rank)
    emissions = emitted(made)
    segments: SegmentScores = made._scores(emissions, COUNTS)
    chain = made.answers(emissions.numpy(), COUNTS, None)
    np.testing.assert_allclose(chain.log_partition(), segments.log_partition().detach(), rtol=1e-10)
    states = made.histories[chain.viterbi().tags]
    assert [p.tolist() for p in made.paths(states, COUNTS)] == [p.tolist() for p in segments.viterbi().paths]
    # the probability that a token is the first of a segment of two or more with type A
    by_state = np.zeros((len(emissions), 6))
    np.add.at(by_state.T, made.histories, chain.marginals().tokens.T)
    p = segments.numpy().marginals().segments
    begins = np.zeros(len(emissions))
    for k in (1, 2):
        begins[: len(begins) - k] += p[k:, k, 1]
    np.testing.assert_allclose(by_state[:, 2], begins, atol=1e-9)
    np.testing.assert_allclose(by_state[:, 5], p[:, 0, 2], atol=1e-9)


def test_losses_are_those_of_the_chain() -> None:
    made = head()
    emissions = emitted(made)
    chain = made.answers(emissions.numpy(), COUNTS, None)
    path = chain.sample(1, seed=2)[0]
    tags = torch.from_numpy(made.histories[path])
    np.testing.assert_allclose(made.losses(emissions, COUNTS, tags).detach(), chain.nll(path), atol=1e-9)
    allowed = torch.zeros(len(emissions), 6, dtype=torch.bool)
    allowed[torch.arange(len(emissions)), tags] = True
    allowed[2:4] = True
    found = made.losses(emissions, COUNTS, allowed=allowed)
    np.testing.assert_allclose(found.detach(), chain.nll(allowed=allowed.numpy()[:, made.histories]), atol=1e-9)
    with pytest.raises(ConfigError, match="label_weights need head"):
        made.losses(emissions, COUNTS, tags, weights=torch.ones(len(emissions)))


def test_a_span_that_is_too_long_is_cut() -> None:
    made = head()
    tags = np.array([0, 2, 3, 3, 4])
    assert made.paths(tags, np.array([5]))[0].tolist() == [[0, 1, 0], [1, 4, 1], [4, 5, 1]]
    assert torch.isfinite(made.losses(torch.randn(5, 6).double(), np.array([5]), torch.from_numpy(tags))).all()

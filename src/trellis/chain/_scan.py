"""Chain inference in plain torch: any device, differentiable any number of times.

The native kernels answer for CPU tensors; this module answers for every other device and for gradients of
gradients, and is an independent check on the kernels. It loops over time steps only.

Nearly everything follows from one backward recursion and the Markov chain it defines:

    beta[T-1, i] = end[i]
    beta[t-1, i] = log sum_j exp(A[i, j] + e[t, j] + beta[t, j])
    log Z        = log sum_j exp(start[j] + e[0, j] + beta[0, j])

    log P(y_0 = j)             = start[j] + e[0, j] + beta[0, j] - log Z
    log P(y_t = j | y_t-1 = i) = A[i, j] + e[t, j] + beta[t, j] - beta[t-1, i]

Marginals push the first distribution through the conditionals, entropy is the sum of the conditionals'
entropies, samples are drawn from one conditional after another, and the loss of a tag is minus its
conditional log probability. No such sum has terms of opposite sign, so nothing cancels; beta is kept near
zero by taking its maximum out at each step, so that float32 holds for long sequences.

Letters: B sequences, T positions of the longest, N tokens, L labels, S spans, K paths. Tokens arrive flat,
one sequence after another, and are padded to time-major [T, B, L] inside. Minus infinity forbids; gradients
of log Z and of probabilities with respect to a forbidden score are zero. An empty sequence has one path, the
empty one, with score 0. half and bfloat16 are computed in float32.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

NEG_INF = -math.inf


@dataclass(frozen=True)
class _Layout:
    """Where flat rows sit in a time-major padded grid."""

    lengths: Tensor  # [B]
    active: Tensor  # [T, B] bool
    index: Tensor  # [T, B] flat row of each cell; N for padding
    time: Tensor  # [N] position of each flat row
    sequence: Tensor  # [N] sequence of each flat row

    def pad(self, flat: Tensor) -> Tensor:
        """[N, ...] -> [T, B, ...], zero where padded."""
        return torch.cat([flat, flat.new_zeros(1, *flat.shape[1:])])[self.index]

    def flatten(self, padded: Tensor) -> Tensor:
        """[T, B, ...] -> [N, ...]."""
        return padded[self.time, self.sequence]

    def last(self, padded: Tensor) -> Tensor:
        """[T, B] -> [B], the value at the last position; that of the padding where a sequence is empty."""
        return padded.gather(0, (self.lengths - 1).clamp(min=0).unsqueeze(0)).squeeze(0)


@dataclass(frozen=True)
class _Batch:
    """Padded chain scores of one floating type."""

    layout: _Layout
    emissions: Tensor  # [T, B, L]
    transitions: Tensor  # [L, L] from, to
    start: Tensor  # [L]
    end: Tensor  # [L]

    @property
    def shape(self) -> tuple[int, int, int]:
        T, B, L = self.emissions.shape
        return T, B, L


def log_partition(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Log of the sum of exp(score) over all paths, [B]; minus infinity where no path is valid."""
    batch = _prepare(emissions, lengths, transitions, start, end)
    beta, scale = _backward(batch)
    return _log_partition(batch, beta, scale)


def path_score(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, tags: Tensor
) -> Tensor:
    """Score of the given path of each sequence, [B]."""
    batch = _prepare(emissions, lengths, transitions, start, end)
    return _path_score(batch, batch.layout.pad(tags))


def viterbi(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor]:
    """Best path of each sequence, flat [N], and its score [B]; ties go to the smallest label id."""
    batch = _prepare(emissions, lengths, transitions, start, end)
    with torch.no_grad():
        last, pointers = _viterbi_forward(batch)
        tags = _follow(last, pointers, batch.layout.active).squeeze(-1)  # [T, B]
    return batch.layout.flatten(tags), _path_score(batch, tags)


def marginals(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Log partition [B], token marginals [N, L], and marginals of adjacent pairs [P, L, L] in flat order."""
    batch = _prepare(emissions, lengths, transitions, start, end)
    beta, scale = _backward(batch)
    log_tokens = _log_marginals(batch, beta)  # [T, B, L]
    layout = batch.layout
    t, b = (rows[layout.time > 0] for rows in (layout.time, layout.sequence))  # [P] each
    # P(y_t-1 = i, y_t = j) = P(y_t-1 = i) P(y_t = j | y_t-1 = i)
    pairwise = (log_tokens[t - 1, b].unsqueeze(-1) + _log_conditional(batch, beta, t, b)).exp()
    return _log_partition(batch, beta, scale), layout.flatten(log_tokens).exp(), pairwise


def entropy(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Entropy of the distribution over paths in nats, [B]."""
    batch = _prepare(emissions, lengths, transitions, start, end)
    beta, _ = _backward(batch)
    T, B, L = batch.shape
    active = batch.layout.active
    rest = beta.new_zeros(B, L)  # entropy of what follows, given the label here
    for t in range(T - 1, 0, -1):
        # H[t-1, i] = sum_j P(j | i) * (H[t, j] - log P(j | i))
        expected = _expected_surprise(_log_conditional(batch, beta, t), rest.unsqueeze(1))
        rest = torch.where(active[t].unsqueeze(-1), expected, rest)
    return torch.where(active[0], _expected_surprise(_log_first(batch, beta), rest), 0.0)


def weighted_nll(
    emissions: Tensor,
    lengths: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    tags: Tensor,
    weights: Tensor,
) -> Tensor:
    """Weighted sum of -log P(y_t | y_0 .. y_t-1) over each sequence, [B]; never negative for weights >= 0.

    With all weights 1 it is log Z - score; with all transitions zero it is the weighted cross entropy.
    """
    batch = _prepare(emissions, lengths, transitions, start, end)
    beta, _ = _backward(batch)
    layout = batch.layout
    path = layout.pad(tags)  # [T, B]
    first = _pick(_log_first(batch, beta).unsqueeze(0), path[:1])
    later = _pick(_log_conditional(batch, beta, slice(1, None), previous=path[:-1]), path[1:])
    loss = -torch.cat([first, later])  # [T, B]
    weight = layout.pad(weights.to(loss.dtype))
    counted = layout.active & ~((weight == 0) & loss.isinf())  # a forbidden tag of weight 0 costs nothing
    return (weight * torch.where(counted, loss, 0.0)).sum(0)


def span_log_prob(
    emissions: Tensor,
    lengths: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    spans: Tensor,
    tags: Tensor,
    before: Tensor | None = None,
    after: Tensor | None = None,
) -> Tensor:
    """Log probability that each span carries its tags, [S]; minus infinity where that is impossible.

    `spans[S, 3]` holds (sequence, begin, end), half-open and not empty; `tags` those of all spans, flat.
    `before` and `after`, bool [S, L], also bind the labels next to the span, where there are any.
    """
    batch = _prepare(emissions, lengths, transitions, start, end)
    beta, _ = _backward(batch)
    log_tokens = _log_marginals(batch, beta)  # [T, B, L]
    spans = spans.to(log_tokens.device)
    inside = _make_layout((spans[:, 2] - spans[:, 1]).cpu(), log_tokens.device)
    path = inside.pad(tags)  # [T of spans, S]
    log_prob = _span_entry(batch, beta, log_tokens, spans, path[0], before)
    log_prob = log_prob + _span_inside(batch, beta, spans, inside, path)
    if after is None:
        return log_prob
    return log_prob + _span_exit(batch, beta, spans, inside.last(path), after)


def sample(
    emissions: Tensor,
    lengths: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    n: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw n independent paths of every sequence from the exact distribution, int64 [n, N]."""
    with torch.no_grad():
        batch = _prepare(emissions, lengths, transitions, start, end)
        beta, _ = _backward(batch)
        tags = [_draw(_log_first(batch, beta).exp().expand(n, -1, -1), generator)]  # [n, B] at each position
        for t in range(1, len(beta)):
            # y[t] ~ P(y_t = . | y_t-1 = y[t-1])
            tags.append(_draw(_log_conditional(batch, beta, t, previous=tags[-1]).exp(), generator))
        return batch.layout.flatten(torch.stack(tags).movedim(1, -1)).T.contiguous()


def kbest(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the k best distinct paths as (counts, scores, paths).

    `counts[B]` is the number of paths found, fewer than k where fewer exist; `scores` holds theirs flat,
    descending inside a sequence; `paths` holds for each sequence its paths one after another.
    """
    batch = _prepare(emissions, lengths, transitions, start, end)
    T, _, L = batch.shape
    K = k if T * math.log(L) > 50 else min(k, L**T)  # there are L ** T paths
    scores, slots, pointers = _kbest_forward(batch, K)  # [B, K] twice
    active = batch.layout.active
    tags = _follow(slots, pointers, active) // K  # [T, B, K]
    found = scores > NEG_INF  # [B, K]
    paths = tags.permute(1, 2, 0)[found.unsqueeze(-1) & active.T.unsqueeze(1)]
    return found.sum(-1), scores[found], paths


def _prepare(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> _Batch:
    dtype = emissions.dtype
    for scores in (transitions, start, end):
        dtype = torch.promote_types(dtype, scores.dtype)
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32
    layout = _make_layout(lengths, emissions.device)
    return _Batch(layout, layout.pad(emissions.to(dtype)), transitions.to(dtype), start.to(dtype), end.to(dtype))


def _make_layout(lengths: Tensor, device: torch.device) -> _Layout:
    """Lay out sequences of the given lengths (a CPU tensor).

    T is at least 2: no recursion then has a special case, and every score takes part in every graph.
    """
    T = max(2, int(lengths.max())) if len(lengths) else 2
    time = torch.arange(T).unsqueeze(-1)
    active = time < lengths
    index = torch.where(active, lengths.cumsum(0) - lengths + time, lengths.sum())
    sequence, position = active.T.nonzero(as_tuple=True)
    return _Layout(*(part.to(device) for part in (lengths, active, index, position, sequence)))


def _finite(x: Tensor) -> Tensor:
    """Replace minus infinity by 0, so that subtracting it changes nothing and makes no NaN."""
    return x.masked_fill(x == NEG_INF, 0.0)


def _logsumexp(x: Tensor) -> Tensor:
    """Log-sum-exp over the last axis whose derivatives of any order are finite under minus infinity."""
    shift = _finite(x.detach().amax(-1, keepdim=True))
    total = (x - shift).exp().sum(-1)  # at least 1, or 0 when every term is minus infinity
    return torch.where(total > 0, torch.where(total > 0, total, 1.0).log() + shift.squeeze(-1), NEG_INF)


def _log_softmax(x: Tensor) -> Tensor:
    """Log-softmax over the last axis, never above 0; a row of minus infinities stays one."""
    return x - _finite(_logsumexp(x)).unsqueeze(-1)


def _pick(x: Tensor, label: Tensor) -> Tensor:
    """x[..., label[...]]."""
    return x.gather(-1, label.unsqueeze(-1)).squeeze(-1)


def _backward(batch: _Batch) -> tuple[Tensor, Tensor]:
    """Return beta[T, B, L], its maximum taken out at each step, and the sum of what was taken out, [B]."""
    T, B, L = batch.shape
    beta = batch.end.expand(B, L)
    betas, shifts = [beta], [beta.new_zeros(B, 1)]
    for t in range(T - 1, 0, -1):
        # beta[t-1, i] = log sum_j exp(A[i, j] + e[t, j] + beta[t, j])
        message = _logsumexp(batch.transitions + (batch.emissions[t] + beta).unsqueeze(1))  # [B, L]
        shift = _finite(message.detach().amax(-1, keepdim=True))
        active = batch.layout.active[t].unsqueeze(-1)
        beta = torch.where(active, message - shift, beta)
        betas.append(beta)
        shifts.append(torch.where(active, shift, 0.0))
    return torch.stack(betas[::-1]), torch.stack(shifts).sum(0).squeeze(-1)


def _log_partition(batch: _Batch, beta: Tensor, scale: Tensor) -> Tensor:
    log_z = _logsumexp(batch.start + batch.emissions[0] + beta[0]) + scale
    return torch.where(batch.layout.active[0], log_z, 0.0)


def _log_first(batch: _Batch, beta: Tensor) -> Tensor:
    """Return log P(y_0 = j), [B, L]."""
    return _log_softmax(batch.start + batch.emissions[0] + beta[0])


def _log_conditional(
    batch: _Batch,
    beta: Tensor,
    t: int | slice | Tensor,
    b: Tensor | slice = slice(None),
    previous: Tensor | None = None,
) -> Tensor:
    """Return log P(y_t = j | y_t-1 = i) at positions t of sequences b, [..., L, L].

    Given the previous labels i it is [..., L].
    """
    scores = batch.emissions[t, b] + beta[t, b]
    if previous is None:
        return _log_softmax(batch.transitions + scores.unsqueeze(-2))
    return _log_softmax(batch.transitions[previous] + scores)


def _log_marginals(batch: _Batch, beta: Tensor) -> Tensor:
    """Return log P(y_t = j), [T, B, L]; garbage in the padding."""
    current = _log_first(batch, beta)
    result = [current]
    for t in range(1, batch.shape[0]):
        # log P(y_t = j) = log sum_i exp(log P(y_t-1 = i) + log P(y_t = j | y_t-1 = i))
        current = _logsumexp((current.unsqueeze(-1) + _log_conditional(batch, beta, t)).transpose(-1, -2))
        # Probabilities sum to one: what is off by rounding is taken out before it adds up over time.
        current = current - _finite(_logsumexp(current.detach())).unsqueeze(-1)
        result.append(current)
    return torch.stack(result)


def _path_score(batch: _Batch, tags: Tensor) -> Tensor:
    """Score of padded tags [T, B]."""
    active = batch.layout.active
    last = batch.layout.last(tags)
    emitted = torch.where(active, _pick(batch.emissions, tags), 0.0).sum(0)
    moved = torch.where(active[1:], batch.transitions[tags[:-1], tags[1:]], 0.0).sum(0)
    return emitted + moved + torch.where(active[0], batch.start[tags[0]] + batch.end[last], 0.0)


def _expected_surprise(log_prob: Tensor, rest: Tensor) -> Tensor:
    """Return sum_j p[j] * (rest[j] - log p[j]) over the last axis, 0 log 0 being 0."""
    return (log_prob.exp() * (rest - _finite(log_prob))).sum(-1)


def _span_entry(
    batch: _Batch, beta: Tensor, log_tokens: Tensor, spans: Tensor, label: Tensor, before: Tensor | None
) -> Tensor:
    """Return log P(first label of the span, a label of `before` left of it), [S]."""
    sequence, begin, _ = spans.unbind(-1)
    free = _pick(log_tokens[begin, sequence], label)
    if before is None:
        return free
    left = log_tokens[begin - 1, sequence].masked_fill(~before, NEG_INF)  # [S, L]
    step = _log_conditional(batch, beta, begin, sequence)  # [S, L, L]
    bound = _logsumexp(left + _pick(step, label.unsqueeze(-1).expand_as(left)))
    return torch.where(begin > 0, bound, free)


def _span_inside(batch: _Batch, beta: Tensor, spans: Tensor, inside: _Layout, path: Tensor) -> Tensor:
    """Return log P(later labels of the span | its first), [S]."""
    sequence, begin, _ = spans.unbind(-1)
    time = begin + torch.arange(len(path), device=path.device).unsqueeze(-1)  # [T of spans, S]
    time = torch.where(inside.active, time, begin)[1:]
    log_prob = _pick(_log_conditional(batch, beta, time, sequence, path[:-1]), path[1:])
    return torch.where(inside.active[1:], log_prob, 0.0).sum(0)


def _span_exit(batch: _Batch, beta: Tensor, spans: Tensor, label: Tensor, after: Tensor) -> Tensor:
    """Return log P(a label of `after` follows | last label of the span), [S]."""
    sequence, _, end = spans.unbind(-1)
    has_next = end < batch.layout.lengths[sequence]
    time = torch.where(has_next, end, 0)
    following = _log_conditional(batch, beta, time, sequence, label).masked_fill(~after, NEG_INF)
    return torch.where(has_next, _logsumexp(following), 0.0)


def _draw(probabilities: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw from probabilities [..., L] by inverting their cumulative sum: never a label of probability 0."""
    cumulative = probabilities.cumsum(-1)
    device = probabilities.device if generator is None else generator.device
    uniform = torch.rand((*cumulative.shape[:-1], 1), generator=generator, dtype=cumulative.dtype, device=device)
    below = cumulative <= uniform.to(cumulative.device) * cumulative[..., -1:]
    return below.sum(-1).clamp(max=cumulative.shape[-1] - 1)


def _viterbi_forward(batch: _Batch) -> tuple[Tensor, list[Tensor]]:
    """Return the best last label [B, 1] and for each later position the best previous label [B, L]."""
    best = batch.start + batch.emissions[0]
    pointers = []
    for t in range(1, batch.shape[0]):
        # best[t, j] = e[t, j] + max_i (best[t-1, i] + A[i, j])
        value, pointer = (best.unsqueeze(-1) + batch.transitions).max(1)
        value = value + batch.emissions[t]
        value = value - _finite(value.amax(-1, keepdim=True))
        best = torch.where(batch.layout.active[t].unsqueeze(-1), value, best)
        pointers.append(pointer)
    return (best + batch.end).argmax(-1, keepdim=True), pointers


def _kbest_forward(batch: _Batch, K: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return scores and last slots of the K best paths, [B, K], and pointers [B, L * K] of later positions.

    Slot j * K + r is the path of rank r among those that end in label j; its pointer is the slot before it.
    """
    T, B, L = batch.shape
    first = (batch.start + batch.emissions[0]).unsqueeze(-1)
    best = torch.cat([first, first.new_full((B, L, K - 1), NEG_INF)], -1)  # [B, L, K]
    shifts, pointers = [best.new_zeros(B, 1)], []
    for t in range(1, T):
        # best[t, j, :] = e[t, j] + the K largest of best[t-1, i, r] + A[i, j] over i and r
        moves = (best.unsqueeze(-1) + batch.transitions.unsqueeze(1)).flatten(1, 2).transpose(1, 2)
        value, slot = (part[..., :K] for part in moves.sort(stable=True, dim=-1, descending=True))
        value = value + batch.emissions[t].unsqueeze(-1)
        shift = _finite(value.detach().amax((1, 2)).unsqueeze(-1))
        active = batch.layout.active[t].unsqueeze(-1)
        best = torch.where(active.unsqueeze(-1), value - shift.unsqueeze(-1), best)
        shifts.append(torch.where(active, shift, 0.0))
        pointers.append(slot.flatten(1))
    final = (best + batch.end.unsqueeze(-1)).flatten(1)
    scores, slots = (part[:, :K] for part in final.sort(stable=True, dim=-1, descending=True))
    empty = torch.full((K,), NEG_INF, dtype=scores.dtype, device=scores.device)
    empty[:1] = 0.0
    scores = torch.where(batch.layout.active[0].unsqueeze(-1), scores + torch.stack(shifts).sum(0), empty)
    return scores, slots, pointers


def _follow(last: Tensor, pointers: list[Tensor], active: Tensor) -> Tensor:
    """Trace pointers back from the last states [B, K] to the states at every position, [T, B, K]."""
    state = last
    states = [state]
    for t in range(len(pointers), 0, -1):
        # state[t-1] = pointer[t][state[t]], and padding only repeats the last state
        state = torch.where(active[t].unsqueeze(-1), pointers[t - 1].gather(1, state), state)
        states.append(state)
    return torch.stack(states[::-1])

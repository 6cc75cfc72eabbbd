// The negative log-likelihood with a weight for each token, and its gradient, in log space.
#pragma once

#include "chain/logspace_kernels.h"

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

// counts[j] and onward[j] += flow * exp(from[j] + open[j] - norm)
inline void move_flow(double flow, const double* from, const double* open, double norm, int64_t P, double* onward,
                      double* counts) {
  for (int64_t j = 0; j < P; j += width<double>) {
    const Vec<double> moved = flow * exp<double>(load(from + j) + load(open + j) - norm);
    store(onward + j, load(onward + j) + moved);
    store(counts + j, load(counts + j) + moved);
  }
}

// counts += moves, and writes them to `out`: the flow between two tokens, which is what its edges get.
template <typename R>
void pass_on(const double* moves, int64_t L, int64_t P, double* counts, R* out) {
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j < L; ++j) {
      counts[i * P + j] += moves[i * P + j];
      out[i * L + j] = R(moves[i * P + j]);
    }
}

// sum_t w[t] * -log P(y[t] | y[0..t-1]), the negative log-likelihood with a weight for each token, from
//   log P(y[t] = j | y[t-1] = i) = A[i, j] + e[t, j] + b[t, j] - b[t-1, i].
// With counts, its gradient times `outer` as well: the derivative `adjoint` of the backward sums flows from the first
// token to the last, since b[t-1] is made from b[t]: flow(i, j) = adjoint[t-1, i] P(y[t] = j | y[t-1] = i).
template <typename R>
double weighted_nll(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b, const int32_t* tags,
                    const double* weights, double outer, R* gradient, const Counts* counts,
                    const Neighbours<R>* pairs) {
  const int64_t T = batch.length(b), L = prepared.L, P = prepared.P, first = batch.offsets[b];
  LogRows beta(T, P);
  log_backward(batch, prepared, b, beta);
  const Steps<R> matrices(batch, prepared, b);
  Block<double> open(P), work(P), current(P, 0.0), next(P, 0.0), between(pairs ? L * P : 0);
  double *adjoint = current, *onward = next, loss = 0.0;
  for (int64_t t = 0; t < T; ++t) {
    const int64_t row = batch.row(first + t);
    const int64_t y = tags[first + t], before = t ? tags[first + t - 1] : 0;
    const double w = weights[row], w_next = t + 1 < T ? weights[batch.row(first + t + 1)] : 0.0;
    emission_row(batch, b, first + t, P, open);
    for (int64_t j = 0; j < P; ++j) open[j] += beta.row(t)[j];
    const double* steps = t ? matrices.into(first + t) : prepared.start;  // [L, P], or one row before the first token
    for (int64_t j = 0; j < L; ++j) work[j] = steps[before * P + j] + open[j];
    const double norm = log_sum_exp(work, L);
    if (norm == -infinity<double>) return norm;
    if (w != 0.0) loss -= w * (work[y] - norm);
    if (!counts) continue;
    double* moves = t == 0 ? counts->start : pairs ? between : counts->transitions;
    if (t && pairs) __builtin_memset(between, 0, L * P * sizeof(double));
    for (int64_t j = 0; j < P; ++j) onward[j] = 0.0;
    if (t == 0) move_flow(outer * w, steps, open, norm, P, onward, moves);
    for (int64_t i = 0; t > 0 && i < L; ++i)
      if (adjoint[i] != 0.0)
        move_flow(adjoint[i], steps + i * P, open, beta.row(t - 1)[i] + beta.step[t - 1], P, onward, moves + i * P);
    moves[before * P + y] -= outer * w;
    if (t && pairs) pass_on(between, L, P, counts->transitions, pairs->of(b, first + t, L));
    R* out = gradient + row * L;
    for (int64_t j = 0; j < L; ++j) out[j] = R(onward[j] - (j == y ? outer * w : 0.0));
    onward[y] += outer * (w_next - w);
    double* swap = adjoint;
    adjoint = onward;
    onward = swap;
  }
  if (counts)
    for (int64_t j = 0; j < L; ++j) counts->end[j] += adjoint[j];
  return loss;
}

}  // namespace trellis::chain::TRELLIS_ISA

// Scaled forward and backward, and Viterbi, if every pair of neighbouring tokens has its own transition scores:
// the chain's, plus its edges. One sequence at a time, since no two tokens share a matrix.
//
// With X[t, i, j] = exp(edge[t, i, j] - top[t]), the step into token t is M[t] = A X[t] (elementwise), A and the rest
// as in lockstep_kernels.h. Two factors, each scaled by its own maximum, instead of the exponential of a sum: the sum
// of two large scores would be rounded, or overflow.
//
// Why this is exact: as in lockstep_kernels.h, with M in the place of A. Steps below exp(least_log) are flushed to
// zero, so that `tiny` times any other is a normal number; how far the nearest of them lies below its top is the gap.
// Whether the chain mixes is known only when all its steps have been seen: until then what is lost is noted, and
// forgotten if it does. The backward pass loses at most what underflows, which is far below `least_overlap`.
#pragma once

#include "chain/logspace_kernels.h"
#include "chain/viterbi_kernels.h"

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

template <typename R>
struct EdgeRange;
template <>
struct EdgeRange<float> {
  static constexpr float least = 1.6e-18f;      // just above exp(Range<float>::least_log)
  static constexpr float mixing = 1.04e-13f;    // just above exp(Range<float>::mixing_log)
  static constexpr float least_overlap = 1e-26f;  // sums of what underflows are far below
};
template <>
struct EdgeRange<double> {
  static constexpr double least = 2.2e-148, mixing = 2.9e-96, least_overlap = 1e-280;
};

// A sequence on its way, and what its steps have shown so far.
template <typename R>
struct EdgeRunner : Runner<R> {
  Vec<R> gap = broadcast(infinity<R>), least_step = broadcast(R(1));
  R least_scale = infinity<R>;
};

// M[i, j] = A[i, j] exp(edge[i, j] - top) for the step into a token; returns the top.
template <typename R>
R scale_step(const R* edge, const Prepared<R>& prepared, R* M, EdgeRunner<R>& runner) {
  const int64_t L = prepared.L, P = prepared.P;
  Vec<R> highest = broadcast(-infinity<R>), gap = runner.gap, least_step = runner.least_step;  // stay in registers
  IntVec<R> bad_lanes = runner.bad_lanes;
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j < P; j += width<R>) {
      const Vec<R> e = load_first(edge + i * L + j, lanes_left<R>(L, j), -infinity<R>);
      bad_lanes |= ~(e < infinity<R>);
      highest = max<R>(highest, e);
      store(M + i * P + j, e);
    }
  R top = horizontal_max<R>(highest);
  top = top > Range<R>::lowest ? top : Range<R>::lowest;  // all forbidden: M becomes zero
  for (int64_t j = 0; j < P; j += width<R>) {
    const IntVec<R> real = iota<R>() + typename Simd<R>::Int(j) < typename Simd<R>::Int(L);
    for (int64_t i = 0; i < L; ++i) {
      const Vec<R> e = load(M + i * P + j), a = load(prepared.forward + i * P + j), below = top - e;
      const Vec<R> step = a * exp<R>(-below);
      const IntVec<R> small = step < EdgeRange<R>::least;
      least_step = min<R>(least_step, real ? step : least_step);
      gap = min<R>(gap, (small & (a > R(0)) & (e > -infinity<R>)) ? below : gap);
      store(M + i * P + j, small ? Vec<R>{} : step);
    }
  }
  runner.bad_lanes = bad_lanes, runner.gap = gap, runner.least_step = least_step;
  return top;
}

// Where the chain mixes, nothing that was lost on the way matters.
template <typename R>
double settle(const Prepared<R>& prepared, EdgeRunner<R>& runner) {
  const R least = -horizontal_max<R>(-runner.least_step), gap = -horizontal_max<R>(-runner.gap);
  if (prepared.mixing && least >= EdgeRange<R>::mixing) {
    runner.lost_lanes = IntVec<R>{};
    runner.lost = !(runner.least_scale >= Range<R>::mixing_scale);
  }
  return double(gap) < prepared.gap ? double(gap) : prepared.gap;
}

template <typename R>
void edge_forward(const Batch<R>& batch, const Prepared<R>& prepared, int64_t b, const Tape<R>* tape,
                  double* log_partition, uint8_t* status) {
  const int64_t L = prepared.L, P = prepared.P, first = batch.offsets[b], T = batch.length(b);
  const int64_t row = tape ? tape->begin[b] : 0;
  EdgeRunner<R> runner;
  runner.b = b, runner.first = first, runner.length = T;
  Block<R> current(P), next(P), factor(P), e(P), steps(tape ? 0 : L * P);
  R *x = current, *y = next;
  for (int64_t t = 0; t < T; ++t) {
    R* E = tape ? tape->factor + (row + t) * P : (R*)factor;
    runner.peaks += exp_emissions(emission<R>(batch, b, first + t, e), L, P, E, runner);
    if (t == 0) {
      __builtin_memcpy(y, prepared.start, P * sizeof(R));
    } else {
      R* M = tape ? tape->steps + (row + t) * L * P : (R*)steps;
      runner.peaks += scale_step(batch.edge(b, first + t), prepared, M, runner);
      multiply<R>(1, x, M, L, P, y);
    }
    const R scale = rescale(E, P, y, false, runner);
    runner.least_scale = scale < runner.least_scale ? scale : runner.least_scale;
    if (tape) {
      __builtin_memcpy(tape->alpha + (row + t) * P, y, P * sizeof(R));
      tape->scale[row + t] = scale;
    }
    R* swap = x;
    x = y;
    y = swap;
  }
  const double gap = settle(prepared, runner);
  finish(prepared, gap, x, runner, log_partition[b], status[b]);
}

// out[i] = sum_j M[i, j] w[j]
template <typename R>
inline void multiply_rows(const R* M, const R* w, int64_t L, int64_t P, R* out) {
  for (int64_t i = 0; i < L; ++i) out[i] = dot(M + i * P, w, P);
}

// P(y[t-1] = i, y[t] = j) = alpha[t-1, i] M[i, j] v[j], times weight: to `pair` if asked for, and added to `sums`.
template <typename R>
inline void pair_step(const R* alpha, const R* M, const R* v, R weight, int64_t L, int64_t P, R* pair, R* sums) {
  for (int64_t i = 0; i < L; ++i) {
    const Vec<R> a = broadcast(alpha[i]);
    for (int64_t j = 0; j < P; j += width<R>) {
      const Vec<R> p = a * load(M + i * P + j) * load(v + j) * weight;
      store(sums + i * P + j, load(sums + i * P + j) + p);
      if (pair) store_first(pair + i * L + j, p, lanes_left<R>(L, j));
    }
  }
}

// counts += sums, and clears them: sums in R stay short.
template <typename R>
void fold_pairs(R* sums, int64_t L, int64_t P, double* counts) {
  for (int64_t i = 0; i < L * P; ++i) {
    counts[i] += double(sums[i]);
    sums[i] = R(0);
  }
}

// One token of the backward pass. `beta` comes in as sum_j M w[t+1] (or the end vector); marginals times weight go to
// `out`, the emissions times beta to `w` for the next step, and to `v` what the pairs before this token need.
template <typename R>
inline bool absorb_edge(const R* E, int64_t L, int64_t P, const R* alpha, R scale, R weight, const R* beta, R* w, R* v,
                        R* out) {
  Vec<R> total{};
  for (int64_t j = 0; j < P; j += width<R>) total += load(beta + j);
  const R overlap = dot(alpha, beta, P), inverse = R(1) / horizontal_sum<R>(total);
  const R posterior = R(1) / (overlap * inverse), pair = posterior / scale;
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> b = load(beta + j) * inverse, next = b * load(E + j);
    store_first(out + j, load(alpha + j) * b * posterior * weight, lanes_left<R>(L, j));
    store(w + j, next);
    store(v + j, next * pair);
  }
  return overlap >= EdgeRange<R>::least_overlap && pair < Range<R>::huge;
}

// beta[T-1] = end, beta[t, i] = sum_j M[t+1, i, j] E[t+1, j] beta[t+1, j], rescaled
template <typename R>
void edge_backward(const Batch<R>& batch, const Prepared<R>& prepared, int64_t b, const Tape<R>& tape, double weight,
                   R* gradient, const Neighbours<R>* pairs, const Counts& counts, uint8_t* status) {
  constexpr int64_t fold_every = 64;
  const int64_t L = prepared.L, P = prepared.P, first = batch.offsets[b], T = batch.length(b);
  Block<R> beta(P, R(0)), w(P), v(P), sums(L * P, R(0));
  bool kept = true;
  __builtin_memcpy(beta, prepared.end, P * sizeof(R));
  for (int64_t t = T - 1; t >= 0; --t) {
    const int64_t token = first + t, row = tape.begin[b] + t;
    const R *alpha = tape.alpha + row * P, *M = tape.steps + row * L * P;
    R* out = gradient + batch.row(token) * L;
    kept &= absorb_edge(tape.factor + row * P, L, P, alpha, tape.scale[row], R(weight), (const R*)beta, (R*)w,
                        (R*)v, out);
    for (int64_t j = 0; t == T - 1 && j < L; ++j) counts.end[j] += double(out[j]);
    for (int64_t j = 0; t == 0 && j < L; ++j) counts.start[j] += double(out[j]);
    if (t == 0) break;
    pair_step(alpha - P, M, (const R*)v, R(weight), L, P, pairs ? pairs->of(b, token, L) : nullptr, (R*)sums);
    if (t % fold_every == 0) fold_pairs((R*)sums, L, P, counts.transitions);
    multiply_rows(M, (const R*)w, L, P, (R*)beta);
  }
  fold_pairs((R*)sums, L, P, counts.transitions);
  if (!kept) status[b] = chain::underflow;
}

// delta[t, j] = max_i (delta[t-1, i] + A[i, j] + edge[t, i, j]) + e[t, j], each row shifted so that its maximum is 0;
// the best predecessor of the one label that the path goes through is found again on the way back.
template <typename R>
bool edge_viterbi(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b, int64_t* tags) {
  const int64_t L = prepared.L, P = prepared.P, first = batch.offsets[b], T = batch.length(b);
  const Steps<R> steps(batch, prepared, b);
  LogRows delta(T, P);
  Block<double> e(P);
  for (int64_t t = 0; t < T; ++t) {
    double* row = delta.row(t);
    if (t == 0) {
      __builtin_memcpy(row, prepared.start, P * sizeof(double));
    } else {
      multiply<double, MaxPlus>(1, delta.row(t - 1), steps.into(first + t), L, P, row);
    }
    emission_row(batch, b, first + t, P, e);
    for (int64_t j = 0; j < P; ++j) row[j] += e[j];
    shift_row(row, P);
  }
  double best;
  int64_t label = argmax_sum(delta.row(T - 1), (const double*)prepared.end, P, best);
  const bool found = best > -infinity<double>;
  for (int64_t t = T - 1;; --t) {
    if (label >= L) label = 0;  // NaN or no path: only on the way to an error
    tags[batch.row(first + t)] = label;
    if (t == 0) return found;
    label = argmax_sum(delta.row(t - 1), steps.column(first + t, label), P, best);
  }
}

}  // namespace trellis::chain::TRELLIS_ISA

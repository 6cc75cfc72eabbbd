// Scaled forward and backward for a group of sequences that go through time in lockstep. The hot loops are `multiply`
// and `accumulate` of semiring_kernels.h; everything else is one pass over a row.
//
// Scaled arithmetic. With E[t, j] = exp(e[t, j] - peak[t]) and A = exp(transitions - transition_max),
//   alpha[0, j] = start[j] E[0, j] / scale[0]         alpha[t, j] = sum_i alpha[t-1, i] A[i, j] * E[t, j] / scale[t]
//   beta[T-1, i] = end[i]                              beta[t, i] = sum_j A[i, j] E[t+1, j] beta[t+1, j], rescaled
//   log Z = sum_t (peak[t] + log scale[t]) + (T-1) transition_max + start_max + end_max + log(alpha[T-1] . end)
//   P(y[t] = j) = alpha[t, j] beta[t, j] / (alpha[t] . beta[t])
//
// Why this is exact. Between steps every number that is not structurally zero (forbidden) is at least `tiny`, or the
// sequence is marked `underflow` and redone in log space; `tiny` times the least transition is still a normal number,
// so nothing underflows inside a step. Where every transition and end score is finite and within a narrower range
// (`mixing`), no mark is needed: what exp loses (below exp_lowest) is divided by a scale of at least exp(mixing_log),
// and a step later every label has got at least exp(mixing_log) of what was kept, so that the lost share is negligible
// for each label; and a positive linear map keeps such a bound forever. Scores flushed to zero because they lie
// further than that below the largest (magic -10000, say) are covered by `gap`: all paths through them together are
// below exp(-gap) L^T times the product of the maxima, which is compared with the result. The backward pass needs one
// check only: what beta loses is below exp_lowest of its row, so if alpha . beta is above 1 / huge, the paths lost
// are a negligible part of all.
#pragma once

#include "base/memory.h"
#include "chain/batch.h"
#include "chain/emission.h"
#include "chain/semiring_kernels.h"

#include <cmath>

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

constexpr double negligible_log = 46.0;  // exp(-46) = 1e-20, far below the rounding of a double

// A product of many scales, none of them far from the range of Range<R>; one logarithm at the end is enough.
struct Product {
  double value = 1.0;
  int64_t folds = 0;

  void times(double x) {
    constexpr double two_500 = 0x1p500;
    value *= x;
    if (__builtin_expect(value < 1.0 / two_500, 0)) {
      value *= two_500;
      --folds;
    } else if (__builtin_expect(value > two_500, 0)) {
      value /= two_500;
      ++folds;
    }
  }
  double log() const { return std::log(value) + double(folds) * 500 * 0.693147180559945309417; }
};

// The finite maximum of a row of scores; 0 if all are minus infinity.
template <typename R>
double finite_max(const R* x, int64_t n) {
  double best = -infinity<double>;
  for (int64_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best == -infinity<double> ? 0.0 : best;
}

// exp(x - top) for x within the range of scaled arithmetic, 0 below it; what is flushed narrows the gap.
template <typename R>
R scaled_exp(R x, double top, double& gap, bool& mixing) {
  const double below = double(x) - top;
  mixing &= below >= Range<R>::mixing_log;
  if (below >= Range<R>::least_log) return R(std::exp(below));
  if (x != -infinity<R>) gap = -below < gap ? -below : gap;
  return R(0);
}

template <typename R>
void prepare(const Batch<R>& batch, Prepared<R>& prepared) {
  const int64_t L = prepared.L, P = prepared.P;
  prepared.transition_max = finite_max(batch.transitions, L * L);
  prepared.start_max = finite_max(batch.start, L);
  prepared.end_max = finite_max(batch.end, L);
  prepared.gap = infinity<double>;
  bool mixing = true, start_mixing = true;  // no need to mix at the start: nothing has been lost yet
  for (int64_t i = 0; i < L * P; ++i) prepared.forward[i] = prepared.backward[i] = R(0);
  for (int64_t j = 0; j < P; ++j) prepared.start[j] = prepared.end[j] = R(0);
  for (int64_t i = 0; i < L; ++i) {
    for (int64_t j = 0; j < L; ++j) {
      const R a = scaled_exp(batch.transitions[i * L + j], prepared.transition_max, prepared.gap, mixing);
      prepared.forward[i * P + j] = prepared.backward[j * P + i] = a;
    }
    prepared.start[i] = scaled_exp(batch.start[i], prepared.start_max, prepared.gap, start_mixing);
    prepared.end[i] = scaled_exp(batch.end[i], prepared.end_max, prepared.gap, mixing);
  }
  prepared.mixing = mixing;
}

// One sequence on its way through the group. What goes wrong is noted lane by lane and looked at once, at the end.
template <typename R>
struct Runner {
  IntVec<R> lost_lanes{}, bad_lanes{};
  int64_t b, first, length;  // its first token and its length
  int64_t row = 0;           // of its first token on the tape
  double peaks = 0.0;        // sum of the emission peaks
  Product scales;
  bool lost = false;

  bool bad() const { return any<R>(bad_lanes); }
};

// With `begin` [B], the row of each sequence's first token on a tape.
template <typename R>
void start_runners(const int64_t* offsets, const int64_t* sequences, int count, const int64_t* begin,
                   Runner<R>* runners) {
  for (int g = 0; g < count; ++g) {
    const int64_t b = sequences[g];
    runners[g].b = b;
    runners[g].first = offsets[b];
    runners[g].length = offsets[b + 1] - offsets[b];
    if (begin) runners[g].row = begin[b];
  }
}

// Puts their rows one after another; returns how many there are.
template <typename R>
int64_t lay_out(int count, Runner<R>* runners) {
  int64_t total = 0;
  for (int g = 0; g < count; ++g) {
    runners[g].row = total;
    total += runners[g].length;
  }
  return total;
}

// E[j] = exp(emission[j] - peak); returns the peak, their maximum. An emission that is not forbidden but so far below
// the peak that exp gives zero becomes minus zero, so that `rescale` can tell the two apart.
template <typename R>
inline R exp_emissions(const R* emission, int64_t L, int64_t P, R* E, Runner<R>& runner) {
  Vec<R> highest;
  IntVec<R> bad = runner.bad_lanes;  // in a register, which no store can change
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> e = load_first(emission + j, lanes_left<R>(L, j), -infinity<R>);
    bad |= ~(e < infinity<R>);
    highest = j ? max<R>(highest, e) : e;
    store(E + j, e);
  }
  runner.bad_lanes = bad;
  R peak = horizontal_max<R>(highest);
  peak = peak > Range<R>::lowest ? peak : Range<R>::lowest;  // all forbidden: E becomes zero
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> e = load(E + j), x = exp<R>(e - peak);
    store(E + j, ((x == R(0)) & (e > -infinity<R>)) ? broadcast(R(-0.0)) : x);
  }
  return peak;
}

// alpha[t] from s = alpha[t-1] A (or the start vector): multiplies E in and divides by the sum, which it returns.
template <typename R>
inline R rescale(const R* E, int64_t P, R* s, bool mixing, Runner<R>& runner) {
  Vec<R> total{};
  IntVec<R> lost = runner.lost_lanes;
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> factor = load(E + j), before = load(s + j), p = before * factor;
    store(s + j, p);
    total += p;
    if (!mixing) lost |= (p == R(0)) & (before > R(0)) & ((IntVec<R>)factor != 0);
  }
  const R scale = horizontal_sum<R>(total);
  const R inverse = R(1) / scale;
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> p = load(s + j) * inverse;
    store(s + j, p);
    if (!mixing) lost |= (p < Range<R>::tiny) & (p > R(0));
  }
  runner.lost_lanes = lost;
  runner.lost |= !(scale >= (mixing ? Range<R>::mixing_scale : Range<R>::tiny));
  runner.scales.times(scale);
  return scale;
}

template <typename R>
inline R dot(const R* x, const R* y, int64_t P) {
  Vec<R> sum{};
  for (int64_t j = 0; j < P; j += width<R>) sum += load(x + j) * load(y + j);
  return horizontal_sum<R>(sum);
}

// log Z of a sequence whose last forward row is `alpha`.
template <typename R>
void finish(const Prepared<R>& prepared, double gap, const R* alpha, Runner<R>& runner, double& log_partition,
            uint8_t& status) {
  const R last = dot(alpha, prepared.end, prepared.P);
  runner.lost |= !(last >= Range<R>::tiny) || any<R>(runner.lost_lanes);
  const double relative = runner.scales.log() + std::log(double(last));
  const double T = double(runner.length);
  runner.lost |= !(relative >= T * std::log(double(prepared.L)) - gap + negligible_log);
  log_partition = relative + runner.peaks + (T - 1) * prepared.transition_max + prepared.start_max + prepared.end_max;
  status = runner.bad() ? chain::not_finite : runner.lost ? chain::underflow : chain::exact;
}

// The emission factors of a chain: exponentials, which the backward pass finds on the tape again.
template <typename R>
struct ExpFactors {
  static constexpr bool are_computed = true;
  static constexpr int64_t fold_every = 64;  // steps whose expected transitions are added up in R
  const Batch<R>& batch;
  R* tape;  // the factors there, or null
  R* row;   // [L] memory

  // E[P] of position t of a sequence, in memory[P] if there is no other place, and its peak added to the runner's. P is
  // given, since the pass may know it when it is compiled.
  __attribute__((always_inline)) const R* forward(Runner<R>& runner, int64_t t, int64_t P, R* memory) const {
    R* E = tape ? tape + (runner.row + t) * P : memory;
    runner.peaks += exp_emissions(emission<R>(batch, runner.b, runner.first + t, row), batch.L, P, E, runner);
    return E;
  }
  // The same in the backward pass.
  const R* backward(const Runner<R>& runner, int64_t t, int64_t P) const { return tape + (runner.row + t) * P; }
};

// Of both passes the runners, factors and tape are copies of their own, which no store can change: what stands in them is
// not read again after each.

// log Z of each sequence; `factors` are as ExpFactors. The tape keeps alpha and scale unless it is null.
template <typename R, int NV, typename Factors>
void forward_pass(const Prepared<R>& prepared, const Runner<R>* given, int count, const Tape<R>* tape,
                  const Factors factors, double* log_partition, uint8_t* status) {
  const int64_t L = prepared.L, P = NV ? NV * width<R> : prepared.P;
  Runner<R> runners[group_size];
  for (int g = 0; g < count; ++g) runners[g] = given[g];
  Block<R> current(group_size * P, R(0)), next(group_size * P, R(0)), memory(group_size * P);
  R *x = current, *y = next;
  const R* E[group_size];
  for (int64_t t = 0, active = count;; ++t) {
    for (; active && runners[active - 1].length == t; --active) {
      Runner<R>& runner = runners[active - 1];
      finish(prepared, prepared.gap, x + (active - 1) * P, runner, log_partition[runner.b], status[runner.b]);
    }
    if (!active) return;
    // Emissions that are computed come first: they do not wait for the step before, so the processor overlaps the two.
    for (int g = 0; g < active && Factors::are_computed; ++g) E[g] = factors.forward(runners[g], t, P, memory + g * P);
    if (t == 0) {
      for (int g = 0; g < active; ++g) __builtin_memcpy(y + g * P, prepared.start, P * sizeof(R));
    } else {
      multiply<R>(int(active), x, prepared.forward, L, P, y);
    }
    for (int g = 0; g < active; ++g) {
      const R* factor = Factors::are_computed ? E[g] : factors.forward(runners[g], t, P, memory + g * P);
      const R scale = rescale(factor, P, y + g * P, prepared.mixing, runners[g]);
      if (!tape) continue;
      const int64_t at = runners[g].row + t;
      __builtin_memcpy(tape->alpha + at * P, y + g * P, P * sizeof(R));
      tape->scale[at] = scale;
    }
    R* swap = x;
    x = y;
    y = swap;
  }
}

template <typename R>
void forward(const Batch<R>& batch, const Prepared<R>& prepared, const int64_t* sequences, int count,
             const Tape<R>* tape, double* log_partition, uint8_t* status) {
  Runner<R> runners[group_size];
  start_runners(batch.offsets, sequences, count, tape ? tape->begin : nullptr, runners);
  Block<R> row(batch.L);
  const ExpFactors<R> factors{batch, tape ? tape->factor : nullptr, row};
  with_vectors<R>(prepared.P, [&](auto NV) {
    forward_pass<R, NV>(prepared, runners, count, tape, factors, log_partition, status);
  });
}

// One token of the backward pass. `beta` comes in as sum_j A w[t+1] (or the end vector) and is rescaled; marginals
// times weight go to `out`, the emissions times beta to `w` for the next step, and to `u` what the expected
// transitions into this token need: alpha[t-1, i] A[i, j] u[j] = weight * P(y[t-1] = i, y[t] = j).
template <typename R>
inline void absorb_backward(const R* E, int64_t L, int64_t P, const R* alpha, R scale, R weight, const R* beta, R* w,
                            R* u, R* out, Runner<R>& runner) {
  Vec<R> total{}, overlap{};
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> b = load(beta + j);
    total += b;
    overlap += b * load(alpha + j);
  }
  const R sum = horizontal_sum<R>(total);
  const R inverse = R(1) / sum;
  const R posterior = sum / horizontal_sum<R>(overlap);  // 1 / (alpha . beta)
  const R pair = posterior / scale;
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> b = load(beta + j) * inverse, next = b * load(E + j);
    store_first(out + j, load(alpha + j) * b * (posterior * weight), lanes_left<R>(L, j));
    store(w + j, next);
    store(u + j, next * (pair * weight));
  }
  runner.lost |= !(sum >= Range<R>::tiny) || !(pair < Range<R>::huge);
}

// counts += sum * A (elementwise), and clears the sum: float sums stay short, the long ones are in double.
template <typename R>
void fold_transitions(const Prepared<R>& prepared, R* sum, double* counts) {
  for (int64_t i = 0; i < prepared.L * prepared.P; ++i) {
    counts[i] += double(sum[i]) * double(prepared.forward[i]);
    sum[i] = R(0);
  }
}

// Marginals times weight to row rows[n] (n if null) of `gradient` for token n, and expected
// counts, from what the forward pass left on the tape.
template <typename R, int NV, typename Factors>
void backward_pass(const Prepared<R>& prepared, const Runner<R>* given, int count, const Tape<R> tape,
                   const Factors factors, const double* weights, const int64_t* rows, R* gradient, const Counts& counts,
                   uint8_t* status) {
  const int64_t L = prepared.L, P = NV ? NV * width<R> : prepared.P;
  Runner<R> runners[group_size];
  for (int g = 0; g < count; ++g) runners[g] = given[g];
  Block<R> betas(group_size * P, R(0)), ws(group_size * P, R(0)), us(group_size * P, R(0)), sums(L * P, R(0));
  const R* previous[group_size];
  for (int g = 0; g < group_size; ++g) previous[g] = prepared.end;  // not running yet: us is zero there
  for (int64_t t = runners[0].length - 1, active = 0; t >= 0; --t) {
    const int64_t running = active;
    while (active < count && runners[active].length == t + 1) ++active;
    if (running) multiply<R>(int(running), ws, prepared.backward, L, P, betas);
    for (int64_t g = running; g < active; ++g) __builtin_memcpy(betas + g * P, prepared.end, P * sizeof(R));
    for (int g = 0; g < active; ++g) {
      Runner<R>& runner = runners[g];
      const int64_t at = runner.row + t, token = runner.first + t;
      const R weight = R(weights[runner.b]);
      R* out = gradient + (rows ? rows[token] : token) * L;
      absorb_backward(factors.backward(runner, t, P), L, P, tape.alpha + at * P, tape.scale[at], weight,
                      (const R*)betas + g * P, ws + g * P, us + g * P, out, runner);
      if (t == 0)
        for (int64_t j = 0; j < L; ++j) counts.start[j] += double(out[j]);
      if (g >= running)
        for (int64_t j = 0; j < L; ++j) counts.end[j] += double(out[j]);
      previous[g] = tape.alpha + (at - (t > 0)) * P;
    }
    if (t > 0) accumulate<R>(int(active), previous, us, L, P, sums);
    if (t % Factors::fold_every == 0) fold_transitions(prepared, (R*)sums, counts.transitions);
  }
  for (int g = 0; g < count; ++g)
    if (runners[g].lost) status[runners[g].b] = chain::underflow;
}

template <typename R>
void backward(const Batch<R>& batch, const Prepared<R>& prepared, const int64_t* sequences, int count,
              const Tape<R>& tape, const double* weights, R* gradient, const Counts& counts, uint8_t* status) {
  Runner<R> runners[group_size];
  start_runners(batch.offsets, sequences, count, tape.begin, runners);
  const ExpFactors<R> factors{batch, tape.factor, nullptr};
  with_vectors<R>(prepared.P, [&](auto NV) {
    backward_pass<R, NV>(prepared, runners, count, tape, factors, weights, batch.rows, gradient, counts, status);
  });
}

}  // namespace trellis::chain::TRELLIS_ISA

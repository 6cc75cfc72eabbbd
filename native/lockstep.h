// Scaled forward, scaled backward and Viterbi for a group of sequences that go through time in lockstep. The hot
// loops of the library are `multiply`, `multiply_max` and `accumulate`; everything else is one pass over a row.
//
// Scaled arithmetic. With E[t, j] = exp(e[t, j] - peak[t]) and A = exp(transitions - transition_max),
//   alpha[0, j] = start[j] E[0, j] / scale[0]         alpha[t, j] = sum_i alpha[t-1, i] A[i, j] * E[t, j] / scale[t]
//   beta[T-1, i] = end[i]                              beta[t, i] = sum_j A[i, j] E[t+1, j] beta[t+1, j], rescaled
//   log Z = sum_t (peak[t] + log scale[t]) + (T-1) transition_max + start_max + end_max + log(alpha[T-1] . end)
//   P(y[t] = j) = alpha[t, j] beta[t, j] / (alpha[t] . beta[t])
//
// Why this is exact. Between steps every number that is not structurally zero (forbidden) is at least `tiny`, or the
// sequence is marked `underflow` and redone in log space; `tiny` times the least transition is still a normal number,
// so nothing underflows inside a step. Where every transition and end score is finite and within that range
// (`mixing`), no mark is needed: a step later a lost label's share is below that of the labels kept, for each label,
// by the same factor, and a positive linear map keeps such a bound for ever. Scores flushed to zero because they lie
// further than that below the largest (magic -10000, say) are covered by `gap`: all paths through them together are
// below exp(-gap) L^T times the product of the maxima, which is compared with the result.
#pragma once

#include "chain.h"
#include "memory.h"
#include "simd.h"

#include <cmath>
#include <type_traits>

namespace TRELLIS_ISA {

using trellis::Batch;
using trellis::Counts;
using trellis::LogPrepared;
using trellis::Prepared;
using trellis::Tape;

template <typename R>
struct Range;
template <>
struct Range<float> {
  static constexpr float tiny = 1e-19f, huge = 1e30f;
  static constexpr double least_log = -41.0;  // exp(least_log) * tiny is a normal number
};
template <>
struct Range<double> {
  static constexpr double tiny = 1e-150, huge = 1e250;
  static constexpr double least_log = -340.0;
};

constexpr double negligible_log = 46.0;  // exp(-46) = 1e-20, far below the rounding of a double

// Sequences side by side: enough independent sums to fill the multiply-add pipeline, few enough for the registers.
constexpr int group_size = TRELLIS_VECTOR_BYTES == 64 ? 8 : 4;
constexpr int column_block = 2;

inline int64_t padded(int64_t L, int lanes) { return (L + lanes - 1) / lanes * lanes; }

template <typename R>
inline int lanes_left(int64_t L, int64_t j) {
  return L - j < width<R> ? int(L - j) : width<R>;
}

// out[g, j..] = sum_i x[g, i] A[i, j..] for G rows and V vectors of columns. The order of the sum does not depend on
// G, so a sequence gives the same bits alone and in a batch.
template <typename R, int G, int V>
inline void multiply_block(const R* x, const R* A, int64_t L, int64_t P, R* out) {
  Vec<R> sum[G][V] = {};
  for (int64_t i = 0; i < L; ++i) {
    Vec<R> a[V];
    for (int v = 0; v < V; ++v) a[v] = load(A + i * P + v * width<R>);
    for (int g = 0; g < G; ++g) {
      const Vec<R> xi = broadcast(x[g * P + i]);
      for (int v = 0; v < V; ++v) sum[g][v] += xi * a[v];
    }
  }
  for (int g = 0; g < G; ++g)
    for (int v = 0; v < V; ++v) store(out + g * P + v * width<R>, sum[g][v]);
}

// The same in the (max, +) semiring: out[g, j..] = max_i (x[g, i] + A[i, j..]).
template <typename R, int G, int V>
inline void multiply_max_block(const R* x, const R* A, int64_t L, int64_t P, R* out) {
  Vec<R> best[G][V];
  for (int g = 0; g < G; ++g)
    for (int v = 0; v < V; ++v) best[g][v] = broadcast(-infinity<R>);
  for (int64_t i = 0; i < L; ++i) {
    Vec<R> a[V];
    for (int v = 0; v < V; ++v) a[v] = load(A + i * P + v * width<R>);
    for (int g = 0; g < G; ++g) {
      const Vec<R> xi = broadcast(x[g * P + i]);
      for (int v = 0; v < V; ++v) best[g][v] = max<R>(xi + a[v], best[g][v]);
    }
  }
  for (int g = 0; g < G; ++g)
    for (int v = 0; v < V; ++v) store(out + g * P + v * width<R>, best[g][v]);
}

// sum[i, :] += sum_g x[g][i] u[g, :] for G rows: the expected transitions of one time step of the group.
template <typename R, int G>
inline void accumulate_rows(const R* const* x, const R* u, int64_t L, int64_t P, R* sum) {
  for (int64_t j = 0; j < P; j += width<R>) {
    Vec<R> ug[G];
    for (int g = 0; g < G; ++g) ug[g] = load(u + g * P + j);
    for (int64_t i = 0; i < L; ++i) {
      Vec<R> s = load(sum + i * P + j);
      for (int g = 0; g < G; ++g) s += broadcast(x[g][i]) * ug[g];
      store(sum + i * P + j, s);
    }
  }
}

// Calls f(G) with the least compiled G >= rows; rows beyond the active ones compute on stale numbers, unread.
template <typename F>
inline void with_rows(int rows, F f) {
  if (rows == 1) return f(std::integral_constant<int, 1>{});
  if (rows == 2) return f(std::integral_constant<int, 2>{});
  if (rows <= 4 || group_size == 4) return f(std::integral_constant<int, 4>{});
  return f(std::integral_constant<int, group_size>{});
}

template <typename R>
inline void multiply(int rows, const R* x, const R* A, int64_t L, int64_t P, R* out) {
  with_rows(rows, [&](auto G) {
    int64_t j = 0;
    for (; j + column_block * width<R> <= P; j += column_block * width<R>)
      multiply_block<R, G, column_block>(x, A + j, L, P, out + j);
    for (; j < P; j += width<R>) multiply_block<R, G, 1>(x, A + j, L, P, out + j);
  });
}

template <typename R>
inline void multiply_max(int rows, const R* x, const R* A, int64_t L, int64_t P, R* out) {
  with_rows(rows, [&](auto G) {
    int64_t j = 0;
    for (; j + column_block * width<R> <= P; j += column_block * width<R>)
      multiply_max_block<R, G, column_block>(x, A + j, L, P, out + j);
    for (; j < P; j += width<R>) multiply_max_block<R, G, 1>(x, A + j, L, P, out + j);
  });
}

template <typename R>
inline void accumulate(int rows, const R* const* x, const R* u, int64_t L, int64_t P, R* sum) {
  with_rows(rows, [&](auto G) { accumulate_rows<R, G>(x, u, L, P, sum); });
}

// A product of many scales as mantissa and exponent, so that one logarithm at the end is enough.
struct Product {
  double mantissa = 1.0;
  int64_t exponent = 0;

  void times(double x) {
    mantissa *= x;
    uint64_t bits;
    __builtin_memcpy(&bits, &mantissa, 8);
    exponent += int64_t(bits >> 52 & 0x7ff) - 1023;
    bits = (bits & ~(uint64_t(0x7ff) << 52)) | uint64_t(1023) << 52;
    __builtin_memcpy(&mantissa, &bits, 8);
  }
  double log() const { return std::log(mantissa) + double(exponent) * 0.693147180559945309417; }
};

// The finite maximum of a row of scores; 0 where all are minus infinity.
template <typename R>
double finite_max(const R* x, int64_t n) {
  double best = -infinity<double>;
  for (int64_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best == -infinity<double> ? 0.0 : best;
}

// exp(x - top) for x within the range of scaled arithmetic, 0 below it; what is flushed narrows the gap.
template <typename R>
R scaled_exp(R x, double top, double& gap, bool& any_zero) {
  const double below = double(x) - top;
  if (below >= Range<R>::least_log) return R(std::exp(below));
  any_zero = true;
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
  bool zero = false, start_zero = false;
  for (int64_t i = 0; i < L * P; ++i) prepared.forward[i] = prepared.backward[i] = R(0);
  for (int64_t j = 0; j < P; ++j) prepared.start[j] = prepared.end[j] = R(0);
  for (int64_t i = 0; i < L; ++i) {
    for (int64_t j = 0; j < L; ++j) {
      const R a = scaled_exp(batch.transitions[i * L + j], prepared.transition_max, prepared.gap, zero);
      prepared.forward[i * P + j] = prepared.backward[j * P + i] = a;
    }
    prepared.start[i] = scaled_exp(batch.start[i], prepared.start_max, prepared.gap, start_zero);
    prepared.end[i] = scaled_exp(batch.end[i], prepared.end_max, prepared.gap, zero);
  }
  prepared.mixing = !zero;
}

// One sequence on its way through the group.
template <typename R>
struct Runner {
  int64_t b, first, length;  // its first token and its length
  double peaks = 0.0;        // sum of the emission peaks
  Product scales;
  bool lost = false, bad = false;
};

template <typename R>
void start_runners(const Batch<R>& batch, const int64_t* sequences, int count, Runner<R>* runners) {
  for (int g = 0; g < count; ++g) {
    const int64_t b = sequences[g];
    runners[g].b = b;
    runners[g].first = batch.offsets[b];
    runners[g].length = batch.length(b);
  }
}

// alpha[t] from s = alpha[t-1] A (or the start vector): multiplies the emissions in and rescales, in place.
template <typename R>
inline void absorb(const R* emission, int64_t L, int64_t P, R* s, bool mixing, Runner<R>& runner, R& scale, R& peak) {
  Vec<R> highest = broadcast(-infinity<R>);
  IntVec<R> bad{};
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> e = load_first(emission + j, lanes_left<R>(L, j), -infinity<R>);
    bad |= ~(e < infinity<R>);
    highest = max<R>(highest, e);
  }
  peak = horizontal_max<R>(highest);
  if (peak == -infinity<R>) peak = 0;
  Vec<R> total{};
  IntVec<R> lost{};
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> e = load_first(emission + j, lanes_left<R>(L, j), -infinity<R>), before = load(s + j);
    const Vec<R> p = before * exp<R>(e - peak);
    store(s + j, p);
    total += p;
    lost |= (p == R(0)) & (before > R(0)) & (e > -infinity<R>);
  }
  scale = horizontal_sum<R>(total);
  const R inverse = R(1) / scale;
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> p = load(s + j) * inverse;
    store(s + j, p);
    lost |= (p < Range<R>::tiny) & (p > R(0));
  }
  runner.bad |= any<R>(bad);
  runner.lost |= !(scale >= Range<R>::tiny) || (!mixing && any<R>(lost));
  runner.peaks += peak;
  runner.scales.times(scale);
}

template <typename R>
inline R dot(const R* x, const R* y, int64_t P) {
  Vec<R> sum{};
  for (int64_t j = 0; j < P; j += width<R>) sum += load(x + j) * load(y + j);
  return horizontal_sum<R>(sum);
}

// log Z of a sequence whose last forward row is `alpha`.
template <typename R>
void finish(const Prepared<R>& prepared, const R* alpha, Runner<R>& runner, double& log_partition, uint8_t& status) {
  const R last = dot(alpha, prepared.end, prepared.P);
  runner.lost |= !(last >= Range<R>::tiny);
  const double relative = runner.scales.log() + std::log(double(last));
  const double T = double(runner.length);
  runner.lost |= !(relative >= T * std::log(double(prepared.L)) - prepared.gap + negligible_log);
  log_partition = relative + runner.peaks + (T - 1) * prepared.transition_max + prepared.start_max + prepared.end_max;
  status = runner.bad ? trellis::not_finite : runner.lost ? trellis::underflow : trellis::exact;
}

template <typename R>
void forward(const Batch<R>& batch, const Prepared<R>& prepared, const int64_t* sequences, int count,
             const Tape<R>* tape, double* log_partition, uint8_t* status) {
  const int64_t L = prepared.L, P = prepared.P;
  Runner<R> runners[group_size];
  start_runners(batch, sequences, count, runners);
  Block<R> current(group_size * P, R(0)), next(group_size * P, R(0));
  R *x = current, *y = next;
  for (int64_t t = 0, active = count;; ++t) {
    for (; active && runners[active - 1].length == t; --active) {
      Runner<R>& runner = runners[active - 1];
      finish(prepared, x + (active - 1) * P, runner, log_partition[runner.b], status[runner.b]);
    }
    if (!active) return;
    if (t == 0) {
      for (int g = 0; g < active; ++g) __builtin_memcpy(y + g * P, prepared.start, P * sizeof(R));
    } else {
      multiply<R>(int(active), x, prepared.forward, L, P, y);
    }
    for (int g = 0; g < active; ++g) {
      Runner<R>& runner = runners[g];
      const int64_t token = runner.first + t;
      R scale, peak;
      absorb(batch.emission(token), L, P, y + g * P, prepared.mixing, runner, scale, peak);
      if (tape) {
        __builtin_memcpy(tape->alpha + token * P, y + g * P, P * sizeof(R));
        tape->scale[token] = scale;
        tape->peak[token] = peak;
      }
    }
    R* swap = x;
    x = y;
    y = swap;
  }
}

// One token of the backward pass. `beta` comes in as sum_j A w[t+1] (or the end vector) and is rescaled; marginals
// times weight go to `out`, the emissions times beta to `w` for the next step, and to `u` what the expected
// transitions into this token need: alpha[t-1, i] A[i, j] u[j] = weight * P(y[t-1] = i, y[t] = j).
template <typename R>
inline bool absorb_backward(const R* emission, const Prepared<R>& prepared, const R* alpha, R scale, R peak, R weight,
                            R* beta, R* w, R* u, R* out) {
  const int64_t L = prepared.L, P = prepared.P;
  Vec<R> total{}, overlap{};
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> b = load(beta + j);
    total += b;
    overlap += b * load(alpha + j);
  }
  const R sum = horizontal_sum<R>(total);
  const R inverse = R(1) / sum;
  const R posterior = R(1) / (horizontal_sum<R>(overlap) * inverse);  // 1 / (alpha . beta)
  const R pair = posterior / scale;
  IntVec<R> lost{};
  for (int64_t j = 0; j < P; j += width<R>) {
    const int lanes = lanes_left<R>(L, j);
    const Vec<R> e = load_first(emission + j, lanes, -infinity<R>);
    const Vec<R> b = load(beta + j) * inverse;
    const Vec<R> next = b * exp<R>(e - peak);
    lost |= ((b < Range<R>::tiny) | ((next < Range<R>::tiny) & (e > -infinity<R>))) & (load(beta + j) > R(0));
    store_first(out + j, load(alpha + j) * b * (posterior * weight), lanes);
    store(w + j, next);
    store(u + j, next * (pair * weight));
  }
  return !(sum >= Range<R>::tiny) || !(pair < Range<R>::huge) || (!prepared.mixing && any<R>(lost));
}

// counts += sum * A (elementwise), and clears the sum: float sums stay short, the long ones are in double.
template <typename R>
void fold_transitions(const Prepared<R>& prepared, R* sum, double* counts) {
  for (int64_t i = 0; i < prepared.L * prepared.P; ++i) {
    counts[i] += double(sum[i]) * double(prepared.forward[i]);
    sum[i] = R(0);
  }
}

template <typename R>
void backward(const Batch<R>& batch, const Prepared<R>& prepared, const int64_t* sequences, int count,
              const Tape<R>& tape, const double* weights, R* gradient, const Counts& counts, uint8_t* status) {
  constexpr int64_t fold_every = 64;
  const int64_t L = prepared.L, P = prepared.P;
  Runner<R> runners[group_size];
  start_runners(batch, sequences, count, runners);
  Block<R> betas(group_size * P, R(0)), ws(group_size * P, R(0)), us(group_size * P, R(0)), sums(L * P, R(0));
  for (int64_t t = runners[0].length - 1, active = 0; t >= 0; --t) {
    if (active) multiply<R>(int(active), ws, prepared.backward, L, P, betas);
    for (; active < count && runners[active].length == t + 1; ++active)
      __builtin_memcpy(betas + active * P, prepared.end, P * sizeof(R));
    const R* previous[group_size];
    for (int g = 0; g < group_size; ++g) {
      if (g >= active) {  // a row that is not running yet must add nothing
        previous[g] = prepared.end;
        continue;
      }
      Runner<R>& runner = runners[g];
      const int64_t token = runner.first + t;
      const double weight = weights ? weights[runner.b] : 1.0;
      R* out = gradient + batch.row(token) * L;
      runner.lost |= absorb_backward(batch.emission(token), prepared, tape.alpha + token * P, tape.scale[token],
                                     tape.peak[token], R(weight), betas + g * P, ws + g * P, us + g * P, out);
      if (t == 0)
        for (int64_t j = 0; j < L; ++j) counts.start[j] += double(out[j]);
      if (t == runner.length - 1)
        for (int64_t j = 0; j < L; ++j) counts.end[j] += double(out[j]);
      previous[g] = tape.alpha + (token - (t > 0)) * P;
    }
    if (t > 0) accumulate<R>(int(active), previous, us, L, P, sums);
    if (t % fold_every == 0) fold_transitions(prepared, (R*)sums, counts.transitions);
  }
  for (int g = 0; g < count; ++g)
    if (runners[g].lost) status[runners[g].b] = trellis::underflow;
}

// The least index of the greatest x[j] + y[j].
template <typename R>
inline int64_t argmax_sum(const R* x, const R* y, int64_t P, R& best) {
  Vec<R> top = broadcast(-infinity<R>);
  for (int64_t j = 0; j < P; j += width<R>) top = max<R>(top, load(x + j) + load(y + j));
  best = horizontal_max<R>(top);
  typedef typename Simd<R>::Int Int;
  const IntVec<R> none = IntVec<R>{} + Int(P);
  IntVec<R> where = none;
  for (int64_t j = P - width<R>; j >= 0; j -= width<R>) {
    const IntVec<R> here = iota<R>() + Int(j);
    where = (load(x + j) + load(y + j)) == best ? here : where;
  }
  return horizontal_min_int<R>(where);
}

// delta[t, j] = max_i (delta[t-1, i] + A[i, j]) + e[t, j], each row shifted so that its maximum is 0: the numbers stay
// small however long the sequence, and no back-pointers are kept, since the best predecessor of the one label that
// the path goes through is found again from delta[t-1] on the way back.
template <typename R>
void viterbi(const Batch<R>& batch, const LogPrepared<R>& prepared, const int64_t* sequences, int count, int64_t* tags,
             uint8_t* status) {
  const int64_t L = prepared.L, P = prepared.P;
  Runner<R> runners[group_size];
  start_runners(batch, sequences, count, runners);
  int64_t total = 0, begin[group_size];
  for (int g = 0; g < count; ++g) {
    begin[g] = total;
    total += runners[g].length;
  }
  Block<R> deltas(total * P), current(group_size * P, R(0)), next(group_size * P);
  R *x = current, *y = next;
  int64_t active = count;
  for (int64_t t = 0; t < runners[0].length; ++t) {
    while (runners[active - 1].length == t) --active;
    if (t == 0) {
      for (int g = 0; g < active; ++g) __builtin_memcpy(y + g * P, prepared.start, P * sizeof(R));
    } else {
      multiply_max<R>(int(active), x, prepared.forward, L, P, y);
    }
    for (int g = 0; g < active; ++g) {
      const R* emission = batch.emission(runners[g].first + t);
      R *row = y + g * P, *saved = deltas + (begin[g] + t) * P;
      Vec<R> top = broadcast(-infinity<R>);
      IntVec<R> bad{};
      for (int64_t j = 0; j < P; j += width<R>) {
        const Vec<R> e = load_first(emission + j, lanes_left<R>(L, j), -infinity<R>);
        bad |= ~(e < infinity<R>);
        const Vec<R> d = load(row + j) + e;
        store(row + j, d);
        top = max<R>(top, d);
      }
      runners[g].bad |= any<R>(bad);
      R shift = horizontal_max<R>(top);
      if (shift == -infinity<R>) shift = 0;  // no path: stays minus infinity to the end
      for (int64_t j = 0; j < P; j += width<R>) {
        const Vec<R> d = load(row + j) - shift;
        store(row + j, d);
        store(saved + j, d);
      }
    }
    R* swap = x;
    x = y;
    y = swap;
  }
  for (int g = 0; g < count; ++g) status[runners[g].b] = runners[g].bad ? trellis::not_finite : trellis::exact;
  int64_t label[group_size];
  active = 0;
  for (int64_t t = runners[0].length - 1; t >= 0; --t) {
    for (int g = 0; g < active; ++g) {
      R best;
      label[g] = argmax_sum(deltas + (begin[g] + t) * P, prepared.backward + label[g] * P, P, best);
    }
    for (; active < count && runners[active].length == t + 1; ++active) {
      R best;
      Runner<R>& runner = runners[active];
      label[active] = argmax_sum(deltas + (begin[active] + t) * P, (const R*)prepared.end, P, best);
      if (best == -infinity<R> && !runner.bad) status[runner.b] = trellis::no_path;
    }
    for (int g = 0; g < active; ++g) {
      if (label[g] >= L) label[g] = 0;  // NaN or no path: only on the way to an error
      tags[batch.row(runners[g].first + t)] = label[g];
    }
  }
}

// Multiply-adds on numbers that never leave the registers: what the machine could do at best.
template <typename R>
double fma_peak(int64_t repeats) {
  constexpr int chains = 12;
  Vec<R> sum[chains];
  for (int c = 0; c < chains; ++c) sum[c] = broadcast(R(c));
  const Vec<R> a = broadcast(R(0.999)), b = broadcast(R(0.001));
  for (int64_t n = 0; n < repeats; ++n)
    for (int c = 0; c < chains; ++c) sum[c] = sum[c] * a + b;
  Vec<R> all{};
  for (int c = 0; c < chains; ++c) all += sum[c];
  volatile R sink = horizontal_sum<R>(all);
  (void)sink;
  return double(repeats) * chains * width<R>;
}

}  // namespace TRELLIS_ISA

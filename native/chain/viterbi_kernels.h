// The most probable labels of a group of sequences that go through time in lockstep.
#pragma once

#include "chain/lockstep_kernels.h"

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

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
inline void absorb_max(const R* emission, int64_t L, int64_t P, R* row, R* saved, Runner<R>& runner) {
  Vec<R> top = broadcast(-infinity<R>);
  IntVec<R> bad = runner.bad_lanes;
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> e = load_first(emission + j, lanes_left<R>(L, j), -infinity<R>);
    bad |= ~(e < infinity<R>);
    const Vec<R> d = load(row + j) + e;
    store(row + j, d);
    top = max<R>(top, d);
  }
  runner.bad_lanes = bad;
  R shift = horizontal_max<R>(top);
  if (shift == -infinity<R>) shift = 0;  // no path: stays minus infinity to the end
  for (int64_t j = 0; j < P; j += width<R>) {
    const Vec<R> d = load(row + j) - shift;
    store(row + j, d);
    store(saved + j, d);
  }
}

// Follows the best path back from the end; the deltas of a runner begin at its row.
template <typename R>
void trace_back(const Batch<R>& batch, const LogPrepared<R>& prepared, const Runner<R>* runners, int count,
                const R* deltas, int64_t P, int64_t* tags, uint8_t* status) {
  int64_t label[group_size];
  int active = 0;
  for (int64_t t = runners[0].length - 1; t >= 0; --t) {
    R best;
    for (int g = 0; g < active; ++g)
      label[g] = argmax_sum(deltas + (runners[g].row + t) * P, prepared.backward + label[g] * P, P, best);
    for (; active < count && runners[active].length == t + 1; ++active) {
      label[active] = argmax_sum(deltas + (runners[active].row + t) * P, (const R*)prepared.end, P, best);
      if (best == -infinity<R>) status[runners[active].b] = chain::no_path;
      if (runners[active].bad()) status[runners[active].b] = chain::not_finite;
    }
    for (int g = 0; g < active; ++g) {
      if (label[g] >= prepared.L) label[g] = 0;  // NaN or no path: only on the way to an error
      tags[batch.row(runners[g].first + t)] = label[g];
    }
  }
}

template <typename R, int NV>
void viterbi_group(const Batch<R>& batch, const LogPrepared<R>& prepared, const int64_t* sequences, int count,
                   int64_t* tags, uint8_t* status) {
  const int64_t L = prepared.L, P = NV ? NV * width<R> : prepared.P;
  Runner<R> runners[group_size];
  start_runners<R>(batch.offsets, sequences, count, nullptr, runners);
  Block<R> deltas(lay_out(count, runners) * P), current(group_size * P, R(0)), next(group_size * P, R(0)), row(P);
  R *x = current, *y = next;
  for (int64_t t = 0, active = count; t < runners[0].length; ++t) {
    while (runners[active - 1].length == t) --active;
    if (t == 0) {
      for (int g = 0; g < active; ++g) __builtin_memcpy(y + g * P, prepared.start, P * sizeof(R));
    } else {
      multiply<R, MaxPlus>(int(active), x, prepared.forward, L, P, y);
    }
    for (int g = 0; g < active; ++g)
      absorb_max(emission<R>(batch, runners[g].b, runners[g].first + t, row), L, P, y + g * P,
                 deltas + (runners[g].row + t) * P, runners[g]);
    R* swap = x;
    x = y;
    y = swap;
  }
  trace_back(batch, prepared, runners, count, (const R*)deltas, P, tags, status);
}

template <typename R>
void viterbi(const Batch<R>& batch, const LogPrepared<R>& prepared, const int64_t* sequences, int count, int64_t* tags,
             uint8_t* status) {
  with_vectors<R>(prepared.P, [&](auto NV) {
    viterbi_group<R, NV>(batch, prepared, sequences, count, tags, status);
  });
}

}  // namespace trellis::chain::TRELLIS_ISA

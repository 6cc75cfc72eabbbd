// Label sequences drawn from the distribution, in log space.
#pragma once

#include "base/threads.h"
#include "chain/logspace_kernels.h"

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

// A small generator whose stream depends only on (seed, sequence, sample): splitmix64.
struct Random {
  uint64_t state;
  Random(uint64_t seed, uint64_t sequence, uint64_t sample) : state(seed) {
    state = next() ^ (sequence * 0xd1342543de82ef95u);
    state = next() ^ (sample * 0xaf251af3b0f025b5u);
  }
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double uniform() { return double(next() >> 11) * 0x1p-53; }
};

// cumulative[i] = sum_{i' <= i} exp(log_weights[i']), up to a factor
inline void cumulate(const double* log_weights, int64_t L, double* cumulative) {
  double top = -infinity<double>, sum = 0.0;
  for (int64_t i = 0; i < L; ++i) top = log_weights[i] > top ? log_weights[i] : top;
  for (int64_t i = 0; i < L; ++i) cumulative[i] = sum += std::exp(log_weights[i] - top);
}

// The label whose step of the cumulative sum contains u * total; never one of weight zero.
inline int64_t draw(const double* cumulative, int64_t L, double u) {
  const double target = u * cumulative[L - 1];
  int64_t low = 0, high = L - 1;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (cumulative[middle] > target) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  while (low > 0 && cumulative[low] == cumulative[low - 1]) --low;
  return low;
}

// Forward filtering, backward sampling: y[T-1] ~ exp(a[T-1] + end), then y[t] ~ exp(a[t, i] + A[i, y[t+1]]). Sample s
// is written to tags[s * stride + row]. The distributions of a step are made once for all samples that need them.
template <typename R>
double sample(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b, int64_t n, uint64_t seed,
              int64_t* tags, int64_t stride) {
  const int64_t T = batch.length(b), L = prepared.L, P = prepared.P, first = batch.offsets[b];
  LogRows a(T, P);
  log_forward(batch, prepared, b, a);
  const double total = log_total(prepared, a);
  if (total == -infinity<double>) return total;
  Block<double> weights(L), cumulative(L * L);
  Block<uint8_t> known(L);
  Block<Random> streams(n);
  for (int64_t s = 0; s < n; ++s) streams[s] = Random(seed, uint64_t(b), uint64_t(s));
  const Steps<R> steps(batch, prepared, b);
  for (int64_t t = T - 1; t >= 0; --t) {
    const double* back = t == T - 1 ? prepared.end : steps.back_from(first + t + 1);
    __builtin_memset(known, 0, L);
    for (int64_t s = 0; s < n; ++s) {
      if (s % 4096 == 0) trellis::stop_if_asked();
      int64_t* path = tags + s * stride;
      const int64_t next = t == T - 1 ? 0 : path[batch.row(first + t + 1)];
      const double* onward = back + next * P;
      if (!known[next]) {
        for (int64_t i = 0; i < L; ++i) weights[i] = a.row(t)[i] + onward[i];
        cumulate(weights, L, cumulative + next * L);
        known[next] = 1;
      }
      path[batch.row(first + t)] = draw(cumulative + next * L, L, streams[s].uniform());
    }
  }
  return total;
}

}  // namespace trellis::chain::TRELLIS_ISA

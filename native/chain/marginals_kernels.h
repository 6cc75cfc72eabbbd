// Marginals of labels and of pairs of neighbouring labels, in log space.
#pragma once

#include "chain/logspace_kernels.h"

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

// P(y[t-1] = i, y[t] = j) = exp(a[t-1, i] + A[i, j] + e[t, j] + b[t, j]), rescaled so that it sums to one; row i of
// the result is handed to `use(i, row)`.
template <typename R, typename Use>
void pair_marginals(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b, int64_t t, const LogRows& a,
                    const LogRows& beta, const double* steps, double* e, double* rows, Use use) {
  const int64_t L = prepared.L, P = prepared.P;
  emission_row(batch, b, batch.offsets[b] + t, P, e);
  for (int64_t j = 0; j < P; ++j) e[j] += beta.row(t)[j];
  Vec<double> top = broadcast(-infinity<double>), sum{};
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j < P; j += width<double>)
      top = max<double>(top, a.row(t - 1)[i] + load(steps + i * P + j) + load(e + j));
  const double base = horizontal_max<double>(top);
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j < P; j += width<double>) {
      const Vec<double> score = a.row(t - 1)[i] + load(steps + i * P + j) + load(e + j);
      const Vec<double> p = exp<double>(score - base);
      store(rows + i * P + j, p);
      sum += p;
    }
  const double inverse = 1.0 / horizontal_sum<double>(sum);
  for (int64_t i = 0; i < L; ++i) {
    for (int64_t j = 0; j < P; j += width<double>) store(rows + i * P + j, load(rows + i * P + j) * inverse);
    use(i, rows + i * P);
  }
}

// Marginals times weight into the gradient rows, expected counts times weight added to `counts`, and, if asked
// for, P(y[t-1], y[t]) times weight for t = 1 .. T-1 into `pairs`.
template <typename R>
double log_marginals(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b, double weight, R* gradient,
                     const Counts& counts, const Neighbours<R>* pairs) {
  const int64_t T = batch.length(b), L = prepared.L, P = prepared.P, first = batch.offsets[b];
  LogRows a(T, P), beta(T, P);
  log_forward(batch, prepared, b, a);
  const double total = log_total(prepared, a);
  if (total == -infinity<double>) return total;
  log_backward(batch, prepared, b, beta);
  const Steps<R> steps(batch, prepared, b);
  Block<double> e(P), rows(L * P), both(P);
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t j = 0; j < L; ++j) both[j] = a.row(t)[j] + beta.row(t)[j];
    const double norm = log_sum_exp(both, L);
    R* out = gradient + batch.row(first + t) * L;
    for (int64_t j = 0; j < L; ++j) {
      const double p = weight * std::exp(both[j] - norm);
      out[j] = R(p);
      if (t == 0) counts.start[j] += p;
      if (t == T - 1) counts.end[j] += p;
    }
    if (t == 0) continue;
    R* pair = pairs ? pairs->of(b, first + t, L) : nullptr;
    pair_marginals(batch, prepared, b, t, a, beta, steps.into(first + t), e, rows, [&](int64_t i, const double* row) {
      for (int64_t j = 0; j < L; ++j) counts.transitions[i * P + j] += weight * row[j];
      if (pair)
        for (int64_t j = 0; j < L; ++j) pair[i * L + j] = R(weight * row[j]);
    });
  }
  return total;
}

}  // namespace trellis::chain::TRELLIS_ISA

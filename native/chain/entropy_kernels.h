// The entropy of the distribution over label sequences, in log space.
#pragma once

#include "chain/logspace_kernels.h"

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

// out[j] = sum_i p(i | j) (h[i] - log p(i | j)) with p(i | j) = exp(x[i] + A[i, j] - norm[j]), norm = lse_i(x + A)
inline void mix_entropies(const double* x, const double* A, const LogFactors& f, const double* norm, const double* h,
                          int64_t L, int64_t P, double* out) {
  for (int64_t j = 0; j < P; j += width<double>) {
    const Vec<double> whole = load(norm + j), base = whole == -infinity<double> ? Vec<double>{} : whole;
    const RowList rows(f, j / chain::live_columns, L);
    Vec<double> sum{};
    for (int64_t k = 0; k < rows.count; ++k) {
      const int64_t i = rows[k];
      // Rounding may take log p above 0.
      const Vec<double> log_p = min<double>(x[i] + load(A + i * P + j) - base, Vec<double>{}), p = exp<double>(log_p);
      sum += p > 0.0 ? p * (h[i] - log_p) : Vec<double>{};
    }
    store(out + j, sum);
  }
}

// H(y[0..t] | y[t] = j) = sum_i p(i | j) (H(y[0..t-1] | y[t-1] = i) - log p(i | j)), a sum of positive terms with no
// cancellation, where p(i | j) is the probability of y[t-1] = i given y[t] = j.
template <typename R>
double entropy(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b) {
  const int64_t T = batch.length(b), L = prepared.L, P = prepared.P;
  LogRows a(T, P);
  log_forward(batch, prepared, b, a);
  Block<double> current(P, 0.0), next(P, 0.0), norm(P), work(P), last(L);
  const double total = log_last(prepared, a, last);
  if (total == -infinity<double>) return total;
  double *h = current, *g = next;
  const Steps<R> steps(batch, prepared, b);
  for (int64_t t = 1; t < T; ++t) {
    const double* A = steps.into(batch.offsets[b] + t);
    log_multiply(a.row(t - 1), A, steps.forward_factors(), L, P, work, norm);
    mix_entropies(a.row(t - 1), A, steps.forward_factors(), norm, h, L, P, g);
    double* swap = h;
    h = g;
    g = swap;
  }
  double sum = 0.0;
  for (int64_t j = 0; j < L; ++j) {
    const double log_p = last[j] < total ? last[j] - total : 0.0;
    if (log_p != -infinity<double>) sum += std::exp(log_p) * (h[j] - log_p);
  }
  return sum;
}

}  // namespace trellis::chain::TRELLIS_ISA

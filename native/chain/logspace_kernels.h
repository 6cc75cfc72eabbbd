// Chain inference in log space, in double, one sequence at a time: exact for scores of any size. It computes
// the sequences that the scaled kernels cannot do, and serves the operations that are not hot.
//   a[t, j] = e[t, j] + lse_i(a[t-1, i] + A[i, j])        b[t, i] = lse_j(A[i, j] + e[t+1, j] + b[t+1, j])
// Each row is kept with its maximum at 0 and the sum of what was subtracted next to it, so that the differences between
// labels, which decide everything, keep full precision however long the sequence.
#pragma once

#include "chain/lockstep_kernels.h"

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

// The rows of one sequence: row(t)[j] + shift[t] is the log of the forward (or backward) sum, and step[t] is what was
// subtracted at t alone.
struct LogRows {
  int64_t T, P;
  Block<double> values, shift, step;
  LogRows(int64_t T, int64_t P) : T(T), P(P), values(T * P), shift(T), step(T) {}
  double* row(int64_t t) const { return values + t * P; }
};

// The transition scores into a token of a sequence: those of the chain, and what the edges add if there are any.
template <typename R>
class Steps {
 public:
  Steps(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b)
      : batch_(batch), prepared_(prepared), b_(b), own_(batch.edges ? prepared.L * prepared.P : 0) {}

  // What these return holds until the next call. All of them: [L, P] from, to
  const double* into(int64_t token) const {
    return batch_.edges ? add_rows(token, prepared_.forward, 0, prepared_.L, prepared_.L, 1) : prepared_.forward;
  }
  // [L, P] to, from
  const double* back_from(int64_t token) const {
    return batch_.edges ? add_rows(token, prepared_.backward, 0, prepared_.L, 1, prepared_.L) : prepared_.backward;
  }
  // [P] from label i
  const double* row(int64_t token, int64_t i) const {
    const double* shared = prepared_.forward + i * prepared_.P;
    return batch_.edges ? add_rows(token, shared, i * prepared_.L, 1, prepared_.L, 1) : shared;
  }
  // [P] to label j
  const double* column(int64_t token, int64_t j) const {
    const double* shared = prepared_.backward + j * prepared_.P;
    return batch_.edges ? add_rows(token, shared, j, 1, 1, prepared_.L) : shared;
  }

  LogFactors forward_factors() const { return factors(prepared_.forward_factors); }
  LogFactors backward_factors() const { return factors(prepared_.backward_factors); }

 private:
  // With edges the factors change from token to token; what the chain forbids stays forbidden.
  LogFactors factors(const LogFactors& shared) const {
    return batch_.edges ? LogFactors{nullptr, nullptr, shared.ends, shared.rows} : shared;
  }
  // own[i, j] = shared[i, j] + edge[first + i * row + j * column] for some rows
  const double* add_rows(int64_t token, const double* shared, int64_t first, int64_t rows, int64_t row,
                         int64_t column) const {
    const int64_t L = prepared_.L, P = prepared_.P;
    const R* edge = batch_.edge(b_, token) + first;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < L; ++j) own_[i * P + j] = shared[i * P + j] + double(edge[i * row + j * column]);
      for (int64_t j = L; j < P; ++j) own_[i * P + j] = -infinity<double>;
    }
    return own_;
  }

  const Batch<R>& batch_;
  const LogPrepared<double>& prepared_;
  int64_t b_;
  Block<double> own_;
};

template <typename R>
void emission_row(const Batch<R>& batch, int64_t b, int64_t token, int64_t P, double* e) {
  copy_emission(batch, b, token, e);
  for (int64_t j = batch.L; j < P; ++j) e[j] = -infinity<double>;
}

inline double log_sum_exp(const double* x, int64_t n) {
  double top = -infinity<double>, sum = 0.0;
  for (int64_t i = 0; i < n; ++i) top = x[i] > top ? x[i] : top;
  if (top == -infinity<double>) return top;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
  return top + std::log(sum);
}

inline double row_max(const double* row, int64_t P) {
  Vec<double> top = broadcast(-infinity<double>);
  for (int64_t j = 0; j < P; j += width<double>) top = max<double>(top, load(row + j));
  return horizontal_max<double>(top);
}

// The rows of a matrix that sums over one block of columns go through.
struct RowList {
  const int32_t* rows;  // null: 0 .. count - 1
  int64_t count;
  RowList(const LogFactors& f, int64_t block, int64_t L) : rows(nullptr), count(L) {
    if (!f.ends) return;
    const int64_t begin = block ? f.ends[block - 1] : 0;
    rows = f.rows + begin;
    count = f.ends[block] - begin;
  }
  int64_t operator[](int64_t k) const { return rows ? rows[k] : k; }
};

// lse_i(x[i] + A[i, j]) for the columns j of one vector, for scores of any size
inline Vec<double> log_sum_columns(const double* x, const double* A, const RowList& rows, int64_t P) {
  Vec<double> top = broadcast(-infinity<double>), sum{};
  for (int64_t k = 0; k < rows.count; ++k) top = max<double>(top, x[rows[k]] + load(A + rows[k] * P));
  const Vec<double> base = top == -infinity<double> ? Vec<double>{} : top;
  for (int64_t k = 0; k < rows.count; ++k) sum += exp<double>(x[rows[k]] + load(A + rows[k] * P) - base);
  for (int lane = 0; lane < width<double>; ++lane) sum[lane] = std::log(sum[lane]);
  return base + sum;
}

// out[j] = lse_i(x[i] + A[i, j]) = top + tops[j] + log(sum_i exp(x[i] - top) factors[i, j]), where top is the largest
// x. The product loses less than 1e-300, so it is exact unless the sum is nearly as small; then log space is used.
inline void log_multiply(const double* x, const double* A, const LogFactors& f, int64_t L, int64_t P, double* work,
                         double* out) {
  constexpr double least = 1e-280;
  const double top = f.factors ? row_max(x, P) : -infinity<double>;
  const bool factored = top > -infinity<double>;
  for (int64_t j = 0; j < P && factored; j += width<double>) store(work + j, exp<double>(load(x + j) - top));
  for (int64_t j = 0; j < P; j += width<double>) {
    const RowList rows(f, j / chain::live_columns, L);
    Vec<double> sum{};
    for (int64_t k = 0; k < rows.count && factored; ++k) sum += work[rows[k]] * load(f.factors + rows[k] * P + j);
    const Vec<double> above = factored ? load(f.tops + j) : Vec<double>{};
    if (!factored || any<double>((sum < least) & (above > -infinity<double>))) {
      store(out + j, log_sum_columns(x, A + j, rows, P));
      continue;
    }
    for (int lane = 0; lane < width<double>; ++lane) sum[lane] = std::log(sum[lane]);
    store(out + j, top + above + sum);
  }
}

// Subtracts the maximum of a row from it and returns it; a row of minus infinities stays unchanged.
inline double shift_row(double* row, int64_t P) {
  const double shift = row_max(row, P);
  if (shift == -infinity<double>) return 0.0;
  for (int64_t j = 0; j < P; j += width<double>) store(row + j, load(row + j) - shift);
  return shift;
}

template <typename R>
void log_forward(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b, const LogRows& a) {
  const int64_t P = prepared.P, first = batch.offsets[b];
  const Steps<R> steps(batch, prepared, b);
  Block<double> e(P), work(P);
  for (int64_t t = 0; t < a.T; ++t) {
    emission_row(batch, b, first + t, P, e);
    double* row = a.row(t);
    if (t == 0) {
      __builtin_memcpy(row, prepared.start, P * sizeof(double));
    } else {
      log_multiply(a.row(t - 1), steps.into(first + t), steps.forward_factors(), prepared.L, P, work, row);
    }
    for (int64_t j = 0; j < P; ++j) row[j] += e[j];
    a.step[t] = shift_row(row, P);
    a.shift[t] = a.step[t] + (t ? a.shift[t - 1] : 0.0);
  }
}

template <typename R>
void log_backward(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b, const LogRows& beta) {
  const int64_t P = prepared.P, first = batch.offsets[b];
  const Steps<R> steps(batch, prepared, b);
  Block<double> e(P), work(P);
  for (int64_t t = beta.T - 1; t >= 0; --t) {
    double* row = beta.row(t);
    const bool last = t == beta.T - 1;
    if (last) {
      __builtin_memcpy(row, prepared.end, P * sizeof(double));
    } else {
      emission_row(batch, b, first + t + 1, P, e);
      for (int64_t j = 0; j < P; ++j) e[j] += beta.row(t + 1)[j];
      log_multiply(e, steps.back_from(first + t + 1), steps.backward_factors(), prepared.L, P, work, row);
    }
    // What can follow a label does not matter where the label itself is on no complete path.
    emission_row(batch, b, first + t, P, e);
    for (int64_t j = 0; j < P; ++j) row[j] = e[j] > -infinity<double> ? row[j] : -infinity<double>;
    beta.step[t] = shift_row(row, P);
    beta.shift[t] = beta.step[t] + (last ? 0.0 : beta.shift[t + 1]);
  }
}

// last[j] = a[T-1, j] + end[j]; returns the log of the sum of their exponentials.
inline double log_last(const LogPrepared<double>& prepared, const LogRows& a, double* last) {
  for (int64_t j = 0; j < prepared.L; ++j) last[j] = a.row(a.T - 1)[j] + prepared.end[j];
  return log_sum_exp(last, prepared.L);
}

// log Z
inline double log_total(const LogPrepared<double>& prepared, const LogRows& a) {
  Block<double> last(prepared.L);
  return log_last(prepared, a, last) + a.shift[a.T - 1];
}

template <typename R>
double log_partition(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b) {
  LogRows a(batch.length(b), prepared.P);
  log_forward(batch, prepared, b, a);
  return log_total(prepared, a);
}

}  // namespace trellis::chain::TRELLIS_ISA

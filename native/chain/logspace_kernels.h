// Chain inference in log space, in double, one sequence at a time: exact for scores of any size. It stands behind
// the scaled kernels for the sequences they cannot do, and serves the operations that are not hot.
//   a[t, j] = e[t, j] + lse_i(a[t-1, i] + A[i, j])        b[t, i] = lse_j(A[i, j] + e[t+1, j] + b[t+1, j])
// Each row is kept with its maximum at 0 and the sum of what was taken off beside it, so that the differences between
// labels, which decide everything, keep full precision however long the sequence.
#pragma once

#include "chain/lockstep_kernels.h"

namespace TRELLIS_ISA {

using trellis::LiveRows;

// The rows of one sequence: row(t)[j] + shift[t] is the log of the forward (or backward) sum, and step[t] is what was
// taken off at t alone.
struct LogRows {
  int64_t T, P;
  Block<double> values, shift, step;
  LogRows(int64_t T, int64_t P) : T(T), P(P), values(T * P), shift(T), step(T) {}
  double* row(int64_t t) const { return values + t * P; }
};

// The transition scores into a token of a sequence: those of the chain, and what the edges add where there are any.
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

 private:
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
void emission_row(const Batch<R>& batch, int64_t token, int64_t P, double* e) {
  const R* emission = batch.emission(token);
  for (int64_t j = 0; j < batch.L; ++j) e[j] = double(emission[j]);
  for (int64_t j = batch.L; j < P; ++j) e[j] = -infinity<double>;
}

inline double log_sum_exp(const double* x, int64_t n) {
  double top = -infinity<double>, sum = 0.0;
  for (int64_t i = 0; i < n; ++i) top = x[i] > top ? x[i] : top;
  if (top == -infinity<double>) return top;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
  return top + std::log(sum);
}

// out[j] = lse_i(x[i] + A[i, j]); rows that are minus infinity add nothing, and may be left out.
inline void log_multiply(const double* x, const double* A, const LiveRows& live, int64_t L, int64_t P, double* out) {
  for (int64_t j = 0; j < P; j += width<double>) {
    const int64_t block = j / trellis::live_columns, begin = live.ends && block ? live.ends[block - 1] : 0;
    const int64_t count = live.ends ? live.ends[block] - begin : L;
    const int32_t* rows = live.ends ? live.rows + begin : nullptr;
    const auto term = [&](int64_t k) {
      const int64_t i = rows ? rows[k] : k;
      return x[i] + load(A + i * P + j);
    };
    Vec<double> top = broadcast(-infinity<double>), sum{};
    for (int64_t k = 0; k < count; ++k) top = max<double>(top, term(k));
    const Vec<double> base = top == -infinity<double> ? Vec<double>{} : top;
    for (int64_t k = 0; k < count; ++k) sum += exp<double>(term(k) - base);
    for (int lane = 0; lane < width<double>; ++lane)
      out[j + lane] = sum[lane] > 0.0 ? base[lane] + std::log(sum[lane]) : -infinity<double>;
  }
}

// Takes the maximum of a row off it and returns it; a row of minus infinities is left alone.
inline double shift_row(double* row, int64_t P) {
  Vec<double> top = broadcast(-infinity<double>);
  for (int64_t j = 0; j < P; j += width<double>) top = max<double>(top, load(row + j));
  const double shift = horizontal_max<double>(top);
  if (shift == -infinity<double>) return 0.0;
  for (int64_t j = 0; j < P; j += width<double>) store(row + j, load(row + j) - shift);
  return shift;
}

template <typename R>
void log_forward(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b, const LogRows& a) {
  const int64_t P = prepared.P, first = batch.offsets[b];
  const Steps<R> steps(batch, prepared, b);
  Block<double> e(P);
  for (int64_t t = 0; t < a.T; ++t) {
    emission_row(batch, first + t, P, e);
    double* row = a.row(t);
    if (t == 0) {
      __builtin_memcpy(row, prepared.start, P * sizeof(double));
    } else {
      log_multiply(a.row(t - 1), steps.into(first + t), prepared.forward_rows, prepared.L, P, row);
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
  Block<double> e(P);
  for (int64_t t = beta.T - 1; t >= 0; --t) {
    double* row = beta.row(t);
    const bool last = t == beta.T - 1;
    if (last) {
      __builtin_memcpy(row, prepared.end, P * sizeof(double));
    } else {
      emission_row(batch, first + t + 1, P, e);
      for (int64_t j = 0; j < P; ++j) e[j] += beta.row(t + 1)[j];
      log_multiply(e, steps.back_from(first + t + 1), prepared.backward_rows, prepared.L, P, row);
    }
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

}  // namespace TRELLIS_ISA

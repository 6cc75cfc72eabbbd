// Chain inference in log space, in double, one sequence at a time: exact for scores of any size. It stands behind
// the scaled kernels for the sequences they cannot do, and serves the operations that are not hot.
//   a[t, j] = e[t, j] + lse_i(a[t-1, i] + A[i, j])        b[t, i] = lse_j(A[i, j] + e[t+1, j] + b[t+1, j])
// Each row is kept with its maximum at 0 and the sum of what was taken off beside it, so that the differences between
// labels, which decide everything, keep full precision however long the sequence.
#pragma once

#include "chain/lockstep_kernels.h"

namespace TRELLIS_ISA {

using trellis::LiveRows;
using trellis::Neighbours;
using trellis::Span;
using trellis::StateLabels;

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

// P(y[t-1] = i, y[t] = j) = exp(a[t-1, i] + A[i, j] + e[t, j] + b[t, j]), rescaled so that it sums to one; row i of
// the result is handed to `use(i, row)`.
template <typename R, typename Use>
void pair_marginals(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b, int64_t t, const LogRows& a,
                    const LogRows& beta, const double* steps, double* e, double* rows, Use use) {
  const int64_t L = prepared.L, P = prepared.P;
  emission_row(batch, batch.offsets[b] + t, P, e);
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

// Marginals times weight into the gradient rows, expected counts times weight added to `counts`, and, where asked
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

// out[j] = sum_i p(i | j) (h[i] - log p(i | j)) with p(i | j) = exp(x[i] + A[i, j] - norm[j]), norm = lse_i(x + A)
inline void mix_entropies(const double* x, const double* A, const double* norm, const double* h, int64_t L, int64_t P,
                          double* out) {
  for (int64_t j = 0; j < P; j += width<double>) {
    const Vec<double> whole = load(norm + j), base = whole == -infinity<double> ? Vec<double>{} : whole;
    Vec<double> sum{};
    for (int64_t i = 0; i < L; ++i) {
      const Vec<double> log_p = x[i] + load(A + i * P + j) - base, p = exp<double>(log_p);
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
  Block<double> current(P, 0.0), next(P, 0.0), norm(P), last(L);
  const double total = log_last(prepared, a, last);
  if (total == -infinity<double>) return total;
  double *h = current, *g = next;
  const Steps<R> steps(batch, prepared, b);
  for (int64_t t = 1; t < T; ++t) {
    const double* A = steps.into(batch.offsets[b] + t);
    log_multiply(a.row(t - 1), A, prepared.forward_rows, L, P, norm);
    mix_entropies(a.row(t - 1), A, norm, h, L, P, g);
    double* swap = h;
    h = g;
    g = swap;
  }
  double sum = 0.0;
  for (int64_t j = 0; j < L; ++j) {
    const double log_p = last[j] - total;
    if (log_p != -infinity<double>) sum += std::exp(log_p) * (h[j] - log_p);
  }
  return sum;
}

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

// The log probability of a span: the labels of y[begin] .. y[end-1] are its tags, that of y[begin-1] is in `before`, that
// of y[end] in `after`. w[t, j] is the log of the sum over the paths that keep to this up to t and are in state j then:
//   w[begin, j] = a[begin, j], or e[begin, j] + lse_i(a[begin-1, i] + A[i, j]) over the states i in `before`
//   w[t, j]     = e[t, j] + lse_i(w[t-1, i] + A[i, j])                         over the states i of the tag before
//   log P       = lse_j(w[end-1, j] + b[end-1, j]) - lse_j(a[begin, j] + b[begin, j])
// Shifts are counted from `begin`, so that a span is as exact far into a long sequence as at its start.
template <typename R>
class SpanSums {
 public:
  SpanSums(const Batch<R>& batch, const LogPrepared<double>& prepared, const StateLabels& labels, int64_t b,
           const LogRows& a, const LogRows& beta)
      : batch_(batch), prepared_(prepared), labels_(labels), steps_(batch, prepared, b), first_(batch.offsets[b]),
        a_(a), beta_(beta), current_(prepared.L), next_(prepared.L), terms_(prepared.L) {}

  double log_prob(const Span& span) {
    enter(span);
    for (int64_t t = span.begin + 1; t < span.end; ++t) step(t, span.tags[t - span.begin - 1], span.tags[t - span.begin]);
    double score = leave(span) - whole(span.begin);
    for (int64_t t = span.begin; t < span.end - 1; ++t) score -= beta_.step[t];
    return score < 0.0 ? score : 0.0;
  }

 private:
  // f(m, j) for the states j = members[m] of a label
  template <typename F>
  void each(int64_t label, F f) const {
    for (int64_t m = labels_.begin(label); m < labels_.ends[label]; ++m) f(m, labels_.members[m]);
  }
  double emission(int64_t t, int64_t j) const { return double(batch_.emission(first_ + t)[j]); }

  void enter(const Span& span) {
    const int64_t t = span.begin;
    each(span.tags[0], [&](int64_t m, int64_t j) {
      if (t == 0 || !span.before) {
        current_[m] = a_.row(t)[j];
        return;
      }
      const double *from = a_.row(t - 1), *into = steps_.column(first_ + t, j);
      for (int64_t i = 0; i < prepared_.L; ++i)
        terms_[i] = span.before[labels_.label[i]] ? from[i] + into[i] : -infinity<double>;
      current_[m] = log_sum_exp(terms_, prepared_.L) + emission(t, j) - a_.step[t];
    });
  }

  void step(int64_t t, int64_t from, int64_t to) {
    each(to, [&](int64_t m, int64_t j) {
      int64_t count = 0;
      const double* into = steps_.column(first_ + t, j);
      each(from, [&](int64_t n, int64_t i) { terms_[count++] = current_[n] + into[i]; });
      next_[m] = log_sum_exp(terms_, count) + emission(t, j);
    });
    each(to, [&](int64_t m, int64_t) { current_[m] = next_[m]; });
  }

  double leave(const Span& span) {
    const int64_t t = span.end - 1, tail = span.tags[t - span.begin];
    each(tail, [&](int64_t m, int64_t i) { next_[m] = current_[m] + onward(span, t, i); });
    return log_sum_exp(next_ + labels_.begin(tail), labels_.ends[tail] - labels_.begin(tail));
  }

  // b[t, i], as far as `after` allows
  double onward(const Span& span, int64_t t, int64_t i) {
    if (span.end == a_.T || !span.after) return beta_.row(t)[i];
    const double *to = beta_.row(span.end), *out = steps_.row(first_ + span.end, i);
    for (int64_t j = 0; j < prepared_.L; ++j)
      terms_[j] = span.after[labels_.label[j]] ? out[j] + emission(span.end, j) + to[j] : -infinity<double>;
    return log_sum_exp(terms_, prepared_.L) - beta_.step[t];
  }

  double whole(int64_t t) {
    for (int64_t j = 0; j < prepared_.L; ++j) terms_[j] = a_.row(t)[j] + beta_.row(t)[j];
    return log_sum_exp(terms_, prepared_.L);
  }

  const Batch<R>& batch_;
  const LogPrepared<double>& prepared_;
  const StateLabels& labels_;
  Steps<R> steps_;
  int64_t first_;
  const LogRows &a_, &beta_;
  Block<double> current_, next_, terms_;  // the first two by place among the members of all labels
};

template <typename R>
double spans(const Batch<R>& batch, const LogPrepared<double>& prepared, const StateLabels& labels, int64_t b,
             const Span* spans, int64_t count, double* out) {
  LogRows a(batch.length(b), prepared.P), beta(batch.length(b), prepared.P);
  log_forward(batch, prepared, b, a);
  const double total = log_total(prepared, a);
  if (total == -infinity<double>) return total;
  log_backward(batch, prepared, b, beta);
  SpanSums<R> sums(batch, prepared, labels, b, a, beta);
  for (int64_t s = 0; s < count; ++s) out[spans[s].index] = sums.log_prob(spans[s]);
  return total;
}

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
                    const double* weights, double outer, R* gradient, const Counts* counts, const Neighbours<R>* pairs) {
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
    emission_row(batch, first + t, P, open);
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

}  // namespace TRELLIS_ISA

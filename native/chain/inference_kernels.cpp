// The kernels of one instruction set, and, in log space, the questions that are not hot: marginals, probabilities of
// spans, the loss with weights of tokens, entropy. CMake compiles this file once for each, with TRELLIS_ISA naming the
// namespace.
#include "chain/kernels.h"

#include "chain/edges_kernels.h"
#include "chain/lockstep_kernels.h"
#include "chain/logspace_kernels.h"
#include "chain/sampling_kernels.h"
#include "chain/viterbi_kernels.h"

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

// Whether any vector of the scores has bits set in what `look` makes of it.
template <typename R, typename Look>
inline bool any_of(const R* x, int64_t n, Look look) {
  IntVec<R> bits{};
  int64_t i = 0;
  for (; i + width<R> <= n; i += width<R>) bits |= look(load(x + i));
  if (i < n) bits |= look(load_first(x + i, int(n - i), R(0)));
  return any<R>(bits);
}

template <typename R>
uint8_t contents(const R* x, int64_t n) {
  // x - x is plus zero, all bits clear, unless x is infinite or NaN.
  if (!any_of(x, n, [](Vec<R> v) { return (IntVec<R>)(v - v); })) return chain::only_finite;
  const bool invalid = any_of(x, n, [](Vec<R> v) { return (IntVec<R>)~(v < infinity<R>); });
  const bool forbidden = any_of(x, n, [](Vec<R> v) { return (IntVec<R>)(v == -infinity<R>); });
  return uint8_t((invalid ? chain::some_invalid : 0) | (forbidden ? chain::some_forbidden : 0));
}

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

// The log probability of a span: the labels of y[begin] .. y[end-1] are its tags, that of y[begin-1] is in `before`,
// that of y[end] in `after`. w[t, j] is the log of the sum over the paths that keep to this up to t and are in state j
// then:
//   w[begin, j] = a[begin, j], or e[begin, j] + lse_i(a[begin-1, i] + A[i, j]) over the states i in `before`
//   w[t, j]     = e[t, j] + lse_i(w[t-1, i] + A[i, j])                         over the states i of the tag before
//   log P       = lse_j(w[end-1, j] + b[end-1, j]) - lse_j(a[begin, j] + b[begin, j])
// Shifts are counted from `begin`, so that a span is as exact far into a long sequence as at its start.
template <typename R>
class SpanSums {
 public:
  SpanSums(const Batch<R>& batch, const LogPrepared<double>& prepared, const StateLabels& labels, int64_t b,
           const LogRows& a, const LogRows& beta)
      : batch_(batch), prepared_(prepared), labels_(labels), steps_(batch, prepared, b), b_(b),
        first_(batch.offsets[b]),
        a_(a), beta_(beta), current_(prepared.L), next_(prepared.L), terms_(prepared.L), emissions_(prepared.P) {}

  double log_prob(const Span& span) {
    enter(span);
    const int64_t length = span.end - span.begin;
    for (int64_t k = 1; k < length; ++k) step(span.begin + k, span.tags[k - 1], span.tags[k]);
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
  double emission(int64_t t, int64_t j) const {
    if (row_ != t) emission_row(batch_, b_, first_ + t, prepared_.P, emissions_);
    row_ = t;
    return emissions_[j];
  }

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
  int64_t b_, first_;
  const LogRows &a_, &beta_;
  Block<double> current_, next_, terms_;  // the first two by place among the members of all labels
  Block<double> emissions_;               // [P] those of position row_
  mutable int64_t row_ = -1;
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
                    const double* weights, double outer, R* gradient, const Counts* counts,
                    const Neighbours<R>* pairs) {
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
    emission_row(batch, b, first + t, P, open);
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

TRELLIS_KERNELS_BY_TYPE(chain, Kernels, width<R>, group_size, contents<R>, prepare<R>, forward<R>, backward<R>,
                        viterbi<R>, edge_forward<R>, edge_backward<R>, edge_viterbi<R>, log_partition<R>,
                        log_marginals<R>, entropy<R>, sample<R>, spans<R>, weighted_nll<R>)

// Probabilities of labelled spans, in log space.
#pragma once

#include "chain/kernels.h"
#include "chain/logspace_kernels.h"

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

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

}  // namespace trellis::chain::TRELLIS_ISA

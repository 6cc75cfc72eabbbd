#include "chain/spans.h"

#include "base/numbers.h"
#include "chain/complete_paths.h"
#include "chain/sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trellis::chain {

LabelStates::LabelStates(const int64_t* labels, int64_t count, int64_t L)
    : label(size_t(L)), ends(size_t(count)), members(size_t(L)) {
  for (int64_t j = 0; j < L; ++j) ++ends[size_t(label[size_t(j)] = labels ? labels[j] : j)];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<int64_t> place(ends);
  for (int64_t j = L - 1; j >= 0; --j) members[size_t(--place[size_t(label[size_t(j)])])] = j;
}

SortedSpans::SortedSpans(std::vector<Span> spans, int64_t B) : spans_(std::move(spans)), ends_(size_t(B) + 1, 0) {
  std::stable_sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) { return a.sequence < b.sequence; });
  for (const Span& span : spans_) ++ends_[size_t(span.sequence) + 1];
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
}

// The forward and backward rows of some sequences, one after another.
template <typename R>
struct ScaledSpans<R>::Passes {
  int64_t L, P, N;
  std::vector<int64_t> offsets;
  Block<double> emissions, marginals, memory;
  Tape<double> tape;

  Passes(std::vector<int64_t> offsets_, int64_t L, int64_t P)
      : L(L), P(P), N(offsets_.back()), offsets(std::move(offsets_)), emissions(N * L), marginals(N * L),
        memory(Tape<double>::size(N, L, P, false)), tape(Tape<double>::in(memory, N, P, false, offsets.data())) {}

  double alpha(int64_t n, int64_t j) const { return tape.alpha[n * P + j]; }
  // E[n, j] / scale[n]
  double factor(int64_t n, int64_t j) const { return tape.factor[n * P + j] / tape.scale[n]; }
  double beta(int64_t n, int64_t j) const {
    constexpr double normal = 1e-250;
    return alpha(n, j) > normal ? marginals[n * L + j] / alpha(n, j) : 0.0;
  }
};

namespace {

// The spans of one sequence, whose first token is number `first` of the rows.
template <typename Passes>
class SpanProducts {
 public:
  SpanProducts(const Passes& rows, const Prepared<double>& chain, const StateLabels& labels, int64_t first, int64_t T)
      : rows_(rows), chain_(chain), labels_(labels), first_(first), T_(T), current_(size_t(rows.L)),
        next_(size_t(rows.L)) {}

  double probability(const Span& span) {
    enter(span);
    const int64_t length = span.end - span.begin;
    for (int64_t k = 1; k < length; ++k) step(span.begin + k, span.tags[k - 1], span.tags[k]);
    double sum = 0.0;
    each(span.tags[length - 1], [&](int64_t i) { sum += current_[size_t(i)] * leave(span, i); });
    return sum;
  }

 private:
  template <typename F>
  void each(int64_t label, F f) const {
    for (int64_t m = labels_.begin(label); m < labels_.ends[label]; ++m) f(labels_.members[m]);
  }
  double transition(int64_t i, int64_t j) const { return chain_.forward[i * chain_.P + j]; }

  void enter(const Span& span) {
    const int64_t n = first_ + span.begin;
    each(span.tags[0], [&](int64_t j) {
      if (span.begin == 0 || !span.before) {
        current_[size_t(j)] = rows_.alpha(n, j);
        return;
      }
      double sum = 0.0;
      for (int64_t i = 0; i < rows_.L; ++i)
        if (span.before[labels_.label[i]]) sum += rows_.alpha(n - 1, i) * transition(i, j);
      current_[size_t(j)] = sum * rows_.factor(n, j);
    });
  }

  void step(int64_t t, int64_t from, int64_t to) {
    each(to, [&](int64_t j) {
      double sum = 0.0;
      each(from, [&](int64_t i) { sum += current_[size_t(i)] * transition(i, j); });
      next_[size_t(j)] = sum * rows_.factor(first_ + t, j);
    });
    current_.swap(next_);
  }

  double leave(const Span& span, int64_t i) const {
    const int64_t n = first_ + span.end;
    if (span.end == T_ || !span.after) return rows_.beta(n - 1, i);
    double sum = 0.0;
    for (int64_t j = 0; j < rows_.L; ++j)
      if (span.after[labels_.label[j]]) sum += transition(i, j) * rows_.factor(n, j) * rows_.beta(n, j);
    return sum;
  }

  const Passes& rows_;
  const Prepared<double>& chain_;
  const StateLabels& labels_;
  int64_t first_, T_;
  std::vector<double> current_, next_;  // by state
};

}  // namespace

template <typename R>
ScaledSpans<R>::ScaledSpans(const Batch<R>& batch, const StateLabels& labels)
    : batch_(batch), labels_(labels), chain_(batch), scaled_(chain_.batch()) {}

template <typename R>
typename ScaledSpans<R>::Passes ScaledSpans<R>::passes_of(const int64_t* sequences, int count,
                                                           std::vector<uint8_t>& status) const {
  const int64_t L = batch_.L, P = scaled_.view().P;
  std::vector<int64_t> offsets{0}, order;
  for (int g = 0; g < count; ++g) offsets.push_back(offsets.back() + batch_.length(sequences[g]));
  Passes rows(std::move(offsets), L, P);
  for (int g = 0; g < count; ++g)
    for (int64_t t = 0; t < batch_.length(sequences[g]); ++t)
      driver::copy_emission(batch_, sequences[g], batch_.offsets[sequences[g]] + t,
                           rows.emissions + (rows.offsets[size_t(g)] + t) * L);
  Batch<double> own = chain_.batch();
  own.emissions = rows.emissions, own.offsets = rows.offsets.data(), own.B = count;
  for (int g = 0; g < count; ++g) order.push_back(g);
  std::vector<double> log_partition(static_cast<size_t>(count));
  kernels<double>().forward(own, scaled_.view(), order.data(), count, &rows.tape, log_partition.data(), status.data());
  const auto failed = [&](int64_t g) { return status[size_t(g)] != exact; };
  order.erase(std::remove_if(order.begin(), order.end(), failed), order.end());
  Sums unused(L, P);
  const std::vector<double> ones(static_cast<size_t>(count), 1.0);
  if (!order.empty())
    kernels<double>().backward(own, scaled_.view(), order.data(), int(order.size()), rows.tape, ones.data(),
                               rows.marginals, unused.counts, status.data());
  return rows;
}

template <typename R>
void ScaledSpans<R>::run(const int64_t* sequences, int count, const SortedSpans& spans, double* out,
                         uint8_t* done) const {
  const double least = scaled_.view().gap == -forbidden ? 1e-35 : 1e-6;
  std::vector<uint8_t> status(size_t(count), exact);
  const Passes rows = passes_of(sequences, count, status);
  for (int g = 0; g < count; ++g) {
    const int64_t b = sequences[g];
    SpanProducts<Passes> products(rows, scaled_.view(), labels_, rows.offsets[size_t(g)], batch_.length(b));
    bool fine = status[size_t(g)] == exact;
    for (int64_t s = 0; fine && s < spans.count(b); ++s) {
      const double p = products.probability(spans.of(b)[s]);
      fine = p >= least;
      out[spans.of(b)[s].index] = std::min(std::log(p), 0.0);
    }
    done[b] = fine;
  }
}

template class ScaledSpans<float>;
template class ScaledSpans<double>;

}  // namespace trellis::chain

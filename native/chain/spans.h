// Probabilities of labelled spans in scaled arithmetic, which is many times as fast as log space; see
// lockstep_kernels.h for the forward and backward rows. With alpha, E, A and scale from there, and b[t, j] = P(y[t] =
// j) / alpha[t, j],
//   P(span) = alpha[begin, y[begin]] prod_{begin < t < end} (A[y[t-1], y[t]] E[t, y[t]] / scale[t]) b[end-1, y[end-1]]
// What surrounds the span is restricted in the first or the last factor:
//   sum_{i in before} alpha[begin-1, i] A[i, j] E[begin, j] / scale[begin]
//   sum_{j in after} A[i, j] E[end, j] / scale[end] b[end, j]
//
// Why this is exact: the rows are, unless the kernels say `underflow`. What they may lose without saying so is below
// 1e-50 of all paths; if transitions were flushed to zero, below 1e-20. A span that is not far above is left to log
// space.
#pragma once

#include "base/numbers.h"
#include "chain/batch.h"
#include "chain/kernels.h"
#include "chain/scores.h"

#include <vector>

namespace trellis::chain {

// The states of each label, in their order; null labels: the states are the labels.
struct LabelStates {
  std::vector<int64_t> label, ends, members;
  LabelStates(const int64_t* labels, int64_t count, int64_t L);
  StateLabels view() const { return {label.data(), ends.data(), members.data()}; }
};

// Spans by their sequence, in any order before.
class SortedSpans {
 public:
  SortedSpans(std::vector<Span> spans, int64_t B);
  int64_t count(int64_t b) const { return ends_[size_t(b) + 1] - ends_[size_t(b)]; }
  const Span* of(int64_t b) const { return spans_.data() + ends_[size_t(b)]; }

 private:
  std::vector<Span> spans_;
  std::vector<int64_t> ends_;  // [B + 1]
};

// The chain of a batch in double, ready for the spans of any of its sequences.
template <typename R>
class ScaledSpans {
 public:
  ScaledSpans(const Batch<R>& batch, const StateLabels& labels);

  static int group() { return kernels<double>().group; }
  // Log probabilities of the spans of up to group() sequences, longest first. Sets `done` of each unless it is left to
  // log space.
  void run(const int64_t* sequences, int count, const SortedSpans& spans, double* out, uint8_t* done) const;

 private:
  struct Passes;
  Passes passes_of(const int64_t* sequences, int count, std::vector<uint8_t>& status) const;

  const Batch<R>& batch_;
  const StateLabels& labels_;
  DoubleChain chain_;
  ScaledScores<double> scaled_;
};

}  // namespace trellis::chain

// The scores of a chain as kernels read them: scaled probabilities, or logarithms in log space and for Viterbi.
#pragma once

#include "base/numbers.h"
#include "chain/batch.h"

#include <vector>

namespace trellis::chain {

// The bits of Contents of all transition, start and end scores.
template <typename R>
uint8_t chain_contents(const Batch<R>& batch);

// The scores of a chain in double, without sequences.
class DoubleChain {
 public:
  template <typename R>
  explicit DoubleChain(const Batch<R>& batch);
  DoubleChain(const DoubleChain&) = delete;
  const Batch<double>& batch() const { return batch_; }

 private:
  std::vector<double> scores_;  // transitions, then start, then end
  Batch<double> batch_;
};

// Probabilities, each divided by the largest of its kind.
template <typename R>
class ScaledScores {
 public:
  explicit ScaledScores(const Batch<R>& batch);
  const Prepared<R>& view() const { return view_; }

 private:
  Block<R> memory_;
  Prepared<R> view_;
};

// Scores padded with minus infinity, and the transposed transitions.
template <typename To>
class PaddedScores {
 public:
  template <typename R>
  PaddedScores(const Batch<R>& batch, int64_t P);
  const LogPrepared<To>& view() const { return view_; }

 protected:
  Block<To> memory_;
  LogPrepared<To> view_;
};

// The memory of LogFactors.
class FactoredMatrix {
 public:
  FactoredMatrix(const double* matrix, int64_t L, int64_t P);
  LogFactors view() const;

 private:
  void list_live_rows(const double* matrix, int64_t L, int64_t P);

  std::vector<double> tops_;
  Block<double> factors_;
  std::vector<int64_t> ends_;
  std::vector<int32_t> rows_;
  bool sparse_ = false;
};

// The same in double, with factors, for the kernels of log space.
class LogScores : public PaddedScores<double> {
 public:
  template <typename R>
  explicit LogScores(const Batch<R>& batch);

 private:
  FactoredMatrix forward_, backward_;
};

}  // namespace trellis::chain

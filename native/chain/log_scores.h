// The scores of a chain as the kernels of log space and of Viterbi read them.
#pragma once

#include "base/block.h"
#include "chain/batch.h"

#include <vector>

namespace trellis::chain {

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

// The same in double, with factors.
class LogScores : public PaddedScores<double> {
 public:
  template <typename R>
  LogScores(const Batch<R>& batch, int64_t P);

 private:
  FactoredMatrix forward_, backward_;
};

}  // namespace trellis::chain

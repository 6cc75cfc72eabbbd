// The scores of a chain as the kernels of log space and of Viterbi read them.
#pragma once

#include "base/block.h"
#include "chain/batch.h"

#include <vector>

namespace trellis {

// Scores padded with minus infinity, and the transitions transposed beside them.
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

// The same in double, with the live rows of the transitions.
class LogScores : public PaddedScores<double> {
 public:
  template <typename R>
  LogScores(const Batch<R>& batch, int64_t P);

 private:
  struct Rows {
    std::vector<int64_t> ends;
    std::vector<int32_t> rows;
  };
  static LiveRows find_live_rows(const double* matrix, int64_t L, int64_t P, Rows& found);

  Rows forward_, backward_;
};

}  // namespace trellis

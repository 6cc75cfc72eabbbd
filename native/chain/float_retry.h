// The sequences of a batch of floats whose scaled arithmetic lost a path that matters, once more in scaled double. Its
// range is eight times as wide (in logarithms), so that hardly any are left for log space, which takes some ten times
// as long.
#pragma once

#include "base/numbers.h"
#include "chain/batch.h"
#include "chain/scores.h"
#include "chain/sums.h"

#include <memory>
#include <vector>

namespace trellis::chain {

template <typename R>
class Inference;

class FloatRetry {
 public:
  FloatRetry(const Batch<float>& batch, std::vector<int64_t> sequences);
  ~FloatRetry();

  // log Z of each sequence, to out[b]; minus infinity if it has no path.
  void log_partition(double* out, bool keep);
  // After log_partition with keep: marginals and expected counts times weights[b], to where those of floats go.
  void gradient(const double* weights, float* emissions, const Neighbours<float>* pairs, Sums& sums);

 private:
  const Batch<float>& batch_;
  std::vector<int64_t> sequences_;
  int64_t tokens_ = 0;
  DoubleChain chain_;
  Block<double> emissions_, edges_;
  std::unique_ptr<Inference<double>> inference_;
};

}  // namespace trellis::chain

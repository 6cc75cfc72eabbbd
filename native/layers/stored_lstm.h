// A bidirectional LSTM layer whose weights stay as they are: packed once, for tagging.
#pragma once

#include "base/block.h"
#include "layers/stored_dense.h"
#include "layers/lstm.h"

#include <cstdint>

namespace trellis {

class StoredLstm {
 public:
  // inward[8H, D], bias[8H] of both biases together, recurrent[2, 4H, H]: the forward direction before the other
  StoredLstm(const float* inward, const float* bias, const float* recurrent, int64_t D, int64_t H);

  int64_t inputs() const { return inward_.inputs(); }
  int64_t H() const { return H_; }
  // features[rows, D] to states[N, 2H]; the row of each token is its own, or that of row_of[N]
  void run(const float* features, int64_t rows, const int64_t* row_of, const Sequences& sequences, int threads,
           float* states) const;

 private:
  const LstmKernels<float>& kernels_;  // of the instruction set that the weights were packed for
  int64_t H_;
  StoredDense inward_;
  Block<float> recurrent_;
};

}  // namespace trellis

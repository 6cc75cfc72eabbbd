// A dense layer whose weights stay as they are: packed once, applied to any number of rows.
#pragma once

#include "base/numbers.h"
#include "layers/kernels.h"

#include <cstdint>

namespace trellis::layers {

class StoredDense {
 public:
  // weights[M, K], bias[M]
  StoredDense(const float* weights, const float* bias, int64_t K, int64_t M);

  int64_t inputs() const { return K_; }
  int64_t outputs() const { return M_; }
  // in[rows, K] to out[rows, M]: each row by itself, so that results are the same bits in any batch, on any threads.
  void apply(const float* in, int64_t rows, int threads, float* out) const;

 private:
  const DenseKernels& kernels_;  // of the instruction set that the weights were packed for
  int64_t K_, M_;
  Block<float> packed_, bias_;
};

}  // namespace trellis::layers

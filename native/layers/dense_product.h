// The plain data that the driver of a dense layer (dense.cpp) and its kernels of every instruction set share.
#pragma once

#include "base/instruction_set.h"

#include <cstdint>

namespace trellis::layers {

// out[n] = bias + in[n] W^T with W[M, K]
struct DenseProduct {
  int64_t K, M;
  const float* packed;
  const float* bias;  // padded like the packed columns
  const float* in;    // [rows, K]
  int64_t rows;
  float* out;  // [rows, M]
};

struct DenseKernels {
  int64_t (*padded)(int64_t M);                                             // columns with those that fill vectors
  void (*pack)(const float* weights, int64_t K, int64_t M, float* packed);  // weights[M, K] to [K, padded(M)]
  void (*apply)(const DenseProduct& at);
};

}  // namespace trellis::layers

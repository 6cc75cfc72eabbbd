// Loops over long vectors, chunk by chunk, and over rows. What the driver (vectors.cpp) and the kernels of every
// instruction set (vectors_kernels.cpp) share.
#pragma once

#include "base/instruction_set.h"

#include <cstdint>

namespace trellis::features {

constexpr int64_t vector_chunk = 2048;  // what all vectors hold of one chunk fits the nearest caches

struct VectorKernels {
  double (*dot)(const double* a, const double* b, int64_t size);
  // products[3 * k + i] = three[i] . two[k]
  void (*dot_three_two)(const double* const* three, const double* const* two, int64_t size, double* products);
  void (*dot_three_two_single)(const double* const* three, const float* const* two, int64_t size, double* products);
  // to += factor * from; what the next chunk has there is fetched
  void (*add_scaled)(double* to, const double* from, double factor, int64_t size);
  void (*add_scaled_single)(double* to, const float* from, double factor, int64_t size);
  // to += factor * from
  void (*add_row)(double* to, const double* from, double factor, int64_t size);
  // to = a - b in single precision, and what that is in double
  void (*subtract)(const double* a, const double* b, int64_t size, float* to, double* wide);
  // Of OWL-QN; see vectors.h. `measure` gives |to|_1 and uphill . (to - from).
  void (*pseudo_gradient)(const double* weights, const double* gradient, double c1, int64_t size, double* out);
  void (*keep_downhill)(const double* uphill, int64_t size, double* direction);
  void (*step_in_orthant)(const double* x, const double* uphill, const double* direction, double step, int64_t size,
                          double* out);
  void (*measure)(const double* from, const double* to, const double* uphill, int64_t size, double* sums);
};

// Those of the instruction set in use.
inline const VectorKernels& vector_kernels() { return kernels_in_use<VectorKernels>(); }

}  // namespace trellis::features

#include "layers/dense.h"

#include "base/numbers.h"
#include "base/threads.h"

#include <algorithm>

namespace trellis::layers {
namespace {

constexpr int64_t rows_of_task = 96;  // a multiple of the rows that kernels take at a time

}  // namespace

StoredDense::StoredDense(const float* weights, const float* bias, int64_t K, int64_t M)
    : kernels_(kernels_in_use<DenseKernels>()),
      K_(K),
      M_(M),
      packed_(K * kernels_.padded(M)),
      bias_(kernels_.padded(M), 0.0f) {
  kernels_.pack(weights, K, M, packed_);
  std::copy(bias, bias + M, static_cast<float*>(bias_));
}

void StoredDense::apply(const float* in, int64_t rows, int threads, float* out) const {
  run_tasks(parts_of(rows, rows_of_task), threads, [&](int64_t task) {
    const int64_t first = task * rows_of_task, count = std::min(rows_of_task, rows - first);
    kernels_.apply({K_, M_, packed_, bias_, in + first * K_, count, out + first * M_});
  });
}

}  // namespace trellis::layers

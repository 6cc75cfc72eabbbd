// The kernels of kernels.h for one instruction set: a block of columns, whose weights stay in the first cache, for all
// rows; then the next one.
#include "layers/gemm_kernels.h"
#include "layers/kernels.h"

namespace trellis::layers::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

int64_t padded_columns(int64_t M) { return vectors_of<float>(M) * width<float>; }

void pack_dense(const float* weights, int64_t K, int64_t M, float* packed) {
  pack_columns<float>(weights, K, M, 1, K, packed);
}

// Rows n .. n + M of the V vectors of columns from j on.
template <int M, int V>
inline void dense_tile(const DenseProduct& at, int64_t n, int64_t j) {
  const float* rows[M];
  for (int m = 0; m < M; ++m) rows[m] = at.in + (n + m) * at.K;
  Vec<float> sums[M][V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    const Vec<float> bias = load(at.bias + j + v * width<float>);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) sums[m][v] = bias;
  }
  multiply<float, M, V>(rows, at.packed + at.K * j, at.K, sums);
  for (int m = 0; m < M; ++m)
    for (int v = 0; v < V; ++v) {
      const int64_t column = j + v * width<float>;
      store_first<float>(at.out + (n + m) * at.M + column, sums[m][v], lanes_from<float>(column, at.M));
    }
}

void apply_dense(const DenseProduct& at) {
  for (int64_t j = 0; j < at.M; j += tile_vectors * width<float>)
    with_count<tile_vectors>(vectors_of<float>(at.M - j), [&](auto V) {
      for (int64_t n = 0; n < at.rows; n += tile_rows)
        with_count<tile_rows>(at.rows - n, [&](auto M) { dense_tile<M, V>(at, n, j); });
    });
}

}  // namespace trellis::layers::TRELLIS_ISA

TRELLIS_KERNELS(layers, DenseKernels, padded_columns, pack_dense, apply_dense)

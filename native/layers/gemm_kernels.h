// Matrix products for a few rows at a time, whose sums stay in registers; compiled once per instruction set. A row's
// sums are added up in the order of k whatever rows are next to it, so that its numbers do not depend on the batch.
#pragma once

#include "base/memory.h"
#include "base/simd.h"

#include <cstdint>
#include <type_traits>

namespace trellis::layers::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

#if defined(__AVX512F__)
constexpr int tile_rows = 6;  // times 4 sums, and their operands: 32 registers
#else
constexpr int tile_rows = 3;
#endif
constexpr int tile_vectors = 4;

template <typename R>
inline int64_t vectors_of(int64_t H) {
  return parts_of(H, width<R>);
}

// The lanes of H that the vector from unit j on has.
template <typename R>
inline int lanes_from(int64_t j, int64_t H) {
  return H - j < width<R> ? int(H - j) : width<R>;
}

// packed[block of up to four vectors of columns][k][column] of a matrix[K, M] whose element (k, m) is at k * down +
// m * across; columns beyond M are zeros
template <typename R>
inline void pack_columns(const R* matrix, int64_t K, int64_t M, int64_t down, int64_t across, R* packed) {
  for (int64_t j = 0; j < M; j += tile_vectors * width<R>) {
    const int64_t rest = vectors_of<R>(M - j), columns = (rest < tile_vectors ? rest : tile_vectors) * width<R>;
    for (int64_t k = 0; k < K; ++k)
      for (int64_t u = 0; u < columns; ++u) *packed++ = j + u < M ? matrix[k * down + (j + u) * across] : R(0);
  }
}

// sums[m] += rows[m][0 .. K) times the packed matrix [K, V vectors]
template <typename R, int M, int V>
inline void multiply(const R* const* rows, const R* packed, int64_t K, Vec<R> (&sums)[M][V]) {
  for (int64_t k = 0; k < K; ++k, packed += V * width<R>) {
    Vec<R> columns[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) columns[v] = load(packed + v * width<R>);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const R x = rows[m][k];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[m][v] += x * columns[v];
    }
  }
}

// Calls f(a number known to the compiler) for count = 1 .. limit.
template <int limit, typename F>
inline void with_count(int64_t count, F f) {
  if constexpr (limit == 1) {
    f(std::integral_constant<int, 1>());
  } else if (count >= limit) {
    f(std::integral_constant<int, limit>());
  } else {
    with_count<limit - 1>(count, f);
  }
}

}  // namespace trellis::layers::TRELLIS_ISA

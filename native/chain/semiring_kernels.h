// Products of rows and a matrix in two semirings, several sequences side by side: the hot loops of the library are
// `multiply` and `accumulate`.
#pragma once

#include "base/simd.h"

#include <type_traits>

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

// Sequences side by side: enough independent sums to fill the multiply-add pipeline, few enough for the registers.
constexpr int group_size = TRELLIS_VECTOR_BYTES == 64 ? 8 : 4;

template <typename R>
inline int lanes_left(int64_t L, int64_t j) {
  return L - j < width<R> ? int(L - j) : width<R>;
}

// The two semirings of the recursions: how a path is extended by a step and joined with the others that end there.
struct SumProduct {
  template <typename R>
  static Vec<R> none() {
    return Vec<R>{};
  }
  template <typename R>
  static Vec<R> join(Vec<R> others, Vec<R> path, Vec<R> step) {
    return others + path * step;
  }
};

struct MaxPlus {
  template <typename R>
  static Vec<R> none() {
    return broadcast(-infinity<R>);
  }
  template <typename R>
  static Vec<R> join(Vec<R> others, Vec<R> path, Vec<R> step) {
    return max<R>(path + step, others);
  }
};

// out[g, j..] = join_i (x[g, i], A[i, j..]) for G rows and V vectors of columns. The order of the labels i does not
// depend on G, so a sequence gives the same bits alone and in a batch. Loops that are not unrolled at once would leave
// the sums in memory.
template <typename R, typename Semiring, int G, int V>
inline void multiply_block(const R* x, const R* A, int64_t L, int64_t P, R* out) {
  Vec<R> all[G][V];
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) all[g][v] = Semiring::template none<R>();
  for (int64_t i = 0; i < L; ++i) {
    Vec<R> a[V];
    for (int v = 0; v < V; ++v) a[v] = load(A + i * P + v * width<R>);
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
      const Vec<R> xi = broadcast(x[g * P + i]);
      for (int v = 0; v < V; ++v) all[g][v] = Semiring::template join<R>(all[g][v], xi, a[v]);
    }
  }
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) store(out + g * P + v * width<R>, all[g][v]);
}

// sum[i, j..] += sum_g x[g][i] u[g, j..] for G rows and V vectors of columns: the expected transitions of one time step
// of the group.
template <typename R, int G, int V>
inline void accumulate_block(const R* const* x, const R* u, int64_t L, int64_t P, R* sum) {
  Vec<R> ug[G][V];
#pragma GCC unroll 8
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) ug[g][v] = load(u + g * P + v * width<R>);
  for (int64_t i = 0; i < L; ++i) {
    Vec<R> s[V];
    for (int v = 0; v < V; ++v) s[v] = load(sum + i * P + v * width<R>);
#pragma GCC unroll 8
    for (int g = 0; g < G; ++g) {
      const Vec<R> xi = broadcast(x[g][i]);
      for (int v = 0; v < V; ++v) s[v] += xi * ug[g][v];
    }
    for (int v = 0; v < V; ++v) store(sum + i * P + v * width<R>, s[v]);
  }
}

// Calls f(G) with the least compiled G >= rows; rows beyond the active ones compute on stale numbers, unread.
template <typename F>
__attribute__((always_inline)) inline void with_rows(int rows, F f) {
  if (rows == 1) return f(std::integral_constant<int, 1>{});
  if (rows == 2) return f(std::integral_constant<int, 2>{});
  if (rows <= 4 || group_size == 4) return f(std::integral_constant<int, 4>{});
  return f(std::integral_constant<int, group_size>{});
}

// Calls f(NV) with NV the number of vectors a row takes if that is small, so that the loops over a row unroll, and
// 0 if it is not.
template <typename R, typename F>
inline void with_vectors(int64_t P, F f) {
  if (P == width<R>) return f(std::integral_constant<int, 1>{});
  if (P == 2 * width<R>) return f(std::integral_constant<int, 2>{});
  if (P == 3 * width<R>) return f(std::integral_constant<int, 3>{});
  if (P == 4 * width<R>) return f(std::integral_constant<int, 4>{});
  return f(std::integral_constant<int, 0>{});
}

// Calls f(j, V) for all columns of a row, three vectors at a time, and two at a time where one would be left.
// Inlined, as what it calls, so that a number of vectors that is known when compiling leaves no loop.
template <typename R, typename F>
__attribute__((always_inline)) inline void in_blocks(int64_t P, F f) {
  int64_t j = 0, left = P / width<R>;
  for (; left >= 5 || left == 3; left -= 3, j += 3 * width<R>) f(j, std::integral_constant<int, 3>{});
  for (; left >= 2; left -= 2, j += 2 * width<R>) f(j, std::integral_constant<int, 2>{});
  if (left) f(j, std::integral_constant<int, 1>{});
}

template <typename R, typename Semiring = SumProduct>
__attribute__((always_inline)) inline void multiply(int rows, const R* x, const R* A, int64_t L, int64_t P, R* out) {
  with_rows(rows, [&](auto G) __attribute__((always_inline)) {
    in_blocks<R>(P, [&](int64_t j, auto V) __attribute__((always_inline)) { multiply_block<R, Semiring, G, V>(x, A + j, L, P, out + j); });
  });
}

template <typename R>
__attribute__((always_inline)) inline void accumulate(int rows, const R* const* x, const R* u, int64_t L, int64_t P, R* sum) {
  with_rows(rows, [&](auto G) __attribute__((always_inline)) {
    in_blocks<R>(P, [&](int64_t j, auto V) __attribute__((always_inline)) { accumulate_block<R, G, V>(x, u + j, L, P, sum + j); });
  });
}

}  // namespace trellis::chain::TRELLIS_ISA

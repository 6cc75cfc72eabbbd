// Products of rows and a matrix in two semirings, several sequences side by side: the hot loops of the library are
// `multiply` and `accumulate`.
#pragma once

#include "base/simd.h"

#include <type_traits>

namespace TRELLIS_ISA {

// Sequences side by side: enough independent sums to fill the multiply-add pipeline, few enough for the registers.
constexpr int group_size = TRELLIS_VECTOR_BYTES == 64 ? 8 : 4;
constexpr int column_block = 2;

inline int64_t padded(int64_t L, int lanes) { return (L + lanes - 1) / lanes * lanes; }

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
#pragma GCC unroll 2
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
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) store(out + g * P + v * width<R>, all[g][v]);
}

// sum[i, :] += sum_g x[g][i] u[g, :] for G rows: the expected transitions of one time step of the group.
template <typename R, int G>
inline void accumulate_rows(const R* const* x, const R* u, int64_t L, int64_t P, R* sum) {
  for (int64_t j = 0; j < P; j += width<R>) {
    Vec<R> ug[G];
    for (int g = 0; g < G; ++g) ug[g] = load(u + g * P + j);
    for (int64_t i = 0; i < L; ++i) {
      Vec<R> s = load(sum + i * P + j);
      for (int g = 0; g < G; ++g) s += broadcast(x[g][i]) * ug[g];
      store(sum + i * P + j, s);
    }
  }
}

// Calls f(G) with the least compiled G >= rows; rows beyond the active ones compute on stale numbers, unread.
template <typename F>
inline void with_rows(int rows, F f) {
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
  if (P == 4 * width<R>) return f(std::integral_constant<int, 4>{});
  return f(std::integral_constant<int, 0>{});
}

template <typename R, typename Semiring = SumProduct>
inline void multiply(int rows, const R* x, const R* A, int64_t L, int64_t P, R* out) {
  with_rows(rows, [&](auto G) {
    int64_t j = 0;
    for (; j + column_block * width<R> <= P; j += column_block * width<R>)
      multiply_block<R, Semiring, G, column_block>(x, A + j, L, P, out + j);
    for (; j < P; j += width<R>) multiply_block<R, Semiring, G, 1>(x, A + j, L, P, out + j);
  });
}

template <typename R>
inline void accumulate(int rows, const R* const* x, const R* u, int64_t L, int64_t P, R* sum) {
  with_rows(rows, [&](auto G) { accumulate_rows<R, G>(x, u, L, P, sum); });
}

// Multiply-adds on numbers that never leave the registers: what the machine could do at best.
template <typename R>
double fma_peak(int64_t repeats) {
  constexpr int chains = 12;
  Vec<R> sum[chains];
  for (int c = 0; c < chains; ++c) sum[c] = broadcast(R(c));
  const Vec<R> a = broadcast(R(0.999)), b = broadcast(R(0.001));
  for (int64_t n = 0; n < repeats; ++n)
    for (int c = 0; c < chains; ++c) sum[c] = sum[c] * a + b;
  Vec<R> all{};
  for (int c = 0; c < chains; ++c) all += sum[c];
  volatile R sink = horizontal_sum<R>(all);
  (void)sink;
  return double(repeats) * chains * width<R>;
}

}  // namespace TRELLIS_ISA

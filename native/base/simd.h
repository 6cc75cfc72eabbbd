// Vectors of float and double over the compiler's vector extensions. This header is compiled once per instruction
// set, inside its own namespace (TRELLIS_ISA), so that no function built for AVX-512 is ever linked into the
// baseline. For the same reason nothing here or in the kernels uses the standard library's templates.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define TRELLIS_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define TRELLIS_VECTOR_BYTES 32
#else
#define TRELLIS_VECTOR_BYTES 16
#endif

namespace TRELLIS_ISA {

template <typename R>
struct Simd;

template <>
struct Simd<float> {
  typedef float V __attribute__((vector_size(TRELLIS_VECTOR_BYTES)));
  typedef int32_t I __attribute__((vector_size(TRELLIS_VECTOR_BYTES)));
  typedef uint32_t U __attribute__((vector_size(TRELLIS_VECTOR_BYTES)));
  typedef int32_t Int;
  static constexpr int mantissa_bits = 23;
  static constexpr float round_magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float exp_lowest = -87.0f;        // exp of less is flushed to zero
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr int exp_degree = 7;
};

template <>
struct Simd<double> {
  typedef double V __attribute__((vector_size(TRELLIS_VECTOR_BYTES)));
  typedef int64_t I __attribute__((vector_size(TRELLIS_VECTOR_BYTES)));
  typedef uint64_t U __attribute__((vector_size(TRELLIS_VECTOR_BYTES)));
  typedef int64_t Int;
  static constexpr int mantissa_bits = 52;
  static constexpr double round_magic = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double exp_lowest = -708.0;
  static constexpr double ln2_high = 6.93145751953125e-1, ln2_low = 1.42860682030941723212e-6;
  static constexpr int exp_degree = 13;
};

template <typename R>
using Vec = typename Simd<R>::V;
template <typename R>
using IntVec = typename Simd<R>::I;
template <typename R>
using BitVec = typename Simd<R>::U;  // for arithmetic on the bits of numbers, which may wrap around

template <typename R>
constexpr int width = TRELLIS_VECTOR_BYTES / int(sizeof(R));

template <typename R>
constexpr R infinity = R(__builtin_inf());

template <typename R>
inline Vec<R> broadcast(R x) {
  return x - Vec<R>{};
}

template <typename R>
inline Vec<R> load(const R* p) {
  Vec<R> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <typename R>
inline void store(R* p, Vec<R> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

template <typename R>
inline IntVec<R> iota() {
  IntVec<R> v{};
  for (int i = 0; i < width<R>; ++i) v[i] = i;
  return v;
}

// The first `count` lanes (1..width) from memory, `fill` in the others; nothing beyond them is read.
template <typename R>
inline Vec<R> load_first(const R* p, int count, R fill) {
  if (count == width<R>) return load(p);
#if defined(__AVX512F__)
  if constexpr (sizeof(R) == 4) {
    return (Vec<R>)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), __mmask16((1u << count) - 1), p);
  } else {
    return (Vec<R>)_mm512_mask_loadu_pd(_mm512_set1_pd(fill), __mmask8((1u << count) - 1), p);
  }
#elif defined(__AVX2__)
  const IntVec<R> keep = iota<R>() < typename Simd<R>::Int(count);
  Vec<R> v;
  if constexpr (sizeof(R) == 4) {
    v = (Vec<R>)_mm256_maskload_ps(p, (__m256i)keep);
  } else {
    v = (Vec<R>)_mm256_maskload_pd(p, (__m256i)keep);
  }
  return keep ? v : broadcast(fill);
#else
  Vec<R> v = broadcast(fill);
  for (int i = 0; i < count; ++i) v[i] = p[i];
  return v;
#endif
}

// Writes the first `count` lanes and touches nothing beyond them: the next row may belong to another thread.
template <typename R>
inline void store_first(R* p, Vec<R> v, int count) {
  if (count == width<R>) return store(p, v);
#if defined(__AVX512F__)
  if constexpr (sizeof(R) == 4) {
    _mm512_mask_storeu_ps(p, __mmask16((1u << count) - 1), (__m512)v);
  } else {
    _mm512_mask_storeu_pd(p, __mmask8((1u << count) - 1), (__m512d)v);
  }
#elif defined(__AVX2__)
  // In pieces of 4, 2 and 1, since stores by mask take AMD's processors dozens of steps.
  if constexpr (sizeof(R) == 4) {
    __m128 rest = _mm256_castps256_ps128((__m256)v);
    if (count & 4) {
      _mm_storeu_ps(p, rest);
      rest = _mm256_extractf128_ps((__m256)v, 1);
      p += 4;
    }
    if (count & 2) {
      _mm_storel_pi((__m64*)p, rest);
      rest = _mm_movehl_ps(rest, rest);
      p += 2;
    }
    if (count & 1) _mm_store_ss(p, rest);
  } else {
    __m128d rest = _mm256_castpd256_pd128((__m256d)v);
    if (count & 2) {
      _mm_storeu_pd(p, rest);
      rest = _mm256_extractf128_pd((__m256d)v, 1);
      p += 2;
    }
    if (count & 1) _mm_store_sd(p, rest);
  }
#else
  for (int i = 0; i < count; ++i) p[i] = v[i];
#endif
}

template <typename R>
inline Vec<R> max(Vec<R> a, Vec<R> b) {
  return a > b ? a : b;
}

template <typename R>
inline Vec<R> min(Vec<R> a, Vec<R> b) {
  return a < b ? a : b;
}

// T[16 bytes], the narrowest vector that a fold comes to.
template <typename T>
struct Quad {
  typedef T V __attribute__((vector_size(16)));
};

// op(lower half, upper half) until 16 bytes are left: half as wide is half the work.
template <typename T, typename Op>
inline typename Quad<T>::V narrow(typename Quad<T>::V v, Op) {
  return v;
}
#if defined(__AVX2__)
template <typename T>
struct Oct {
  typedef T V __attribute__((vector_size(32)));
};
template <typename T, typename Op>
inline typename Quad<T>::V narrow(typename Oct<T>::V v, Op op) {
  typedef typename Quad<T>::V Half;
  return op((Half)_mm256_castsi256_si128((__m256i)v), (Half)_mm256_extracti128_si256((__m256i)v, 1));
}
#endif
#if defined(__AVX512F__)
template <typename T>
struct Hex {
  typedef T V __attribute__((vector_size(64)));
};
template <typename T, typename Op>
inline typename Quad<T>::V narrow(typename Hex<T>::V v, Op op) {
  typedef typename Oct<T>::V Half;
  return narrow<T>(op((Half)_mm512_castsi512_si256((__m512i)v), (Half)_mm512_extracti64x4_epi64((__m512i)v, 1)), op);
}
#endif

// Folds a vector to one number: first its halves, then op(lane i, lane i ^ step) of what is left.
template <typename T, typename V, typename Op>
inline T fold(V v, Op op) {
  typename Quad<T>::V quad = narrow<T>(v, op);
  constexpr int lanes = 16 / int(sizeof(T));
  for (int step = lanes / 2; step > 0; step /= 2) {
    typename Quad<T>::V swapped;
    for (int i = 0; i < lanes; ++i) swapped[i] = quad[i ^ step];
    quad = op(quad, swapped);
  }
  return quad[0];
}

template <typename R>
inline R horizontal_max(Vec<R> v) {
  return fold<R>(v, [](auto a, auto b) { return a > b ? a : b; });
}

template <typename R>
inline R horizontal_sum(Vec<R> v) {
  return fold<R>(v, [](auto a, auto b) { return a + b; });
}

template <typename R>
inline typename Simd<R>::Int horizontal_min_int(IntVec<R> v) {
  return fold<typename Simd<R>::Int>(v, [](auto a, auto b) { return a < b ? a : b; });
}

template <typename R>
inline bool any(IntVec<R> v) {
  return fold<typename Simd<R>::Int>(v, [](auto a, auto b) { return a | b; }) != 0;
}

// 1 / d! as a table: the compiler leaves calls of a function in the loop of exp, and computes them for each vector.
template <typename R>
struct InverseFactorials {
  R of[Simd<R>::exp_degree + 1];
  constexpr InverseFactorials() : of() {
    double factorial = 1.0;
    for (int d = 0; d <= Simd<R>::exp_degree; factorial *= ++d) of[d] = R(1.0 / factorial);
  }
};

// exp(x) for x <= 0 (and a little above), to about one unit in the last place; minus infinity and everything below
// exp_lowest give exactly zero. x = n ln 2 + r with |r| <= ln 2 / 2; exp(x) = 2^n * (1 + r + r^2/2! + ...).
template <typename R>
inline Vec<R> exp(Vec<R> x) {
  typedef Simd<R> S;
  constexpr R log2_e = R(1.44269504088896340736);
  const IntVec<R> vanishes = x < S::exp_lowest;
  x = vanishes ? Vec<R>{} : x;
  const Vec<R> shifted = x * log2_e + S::round_magic;
  const Vec<R> n = shifted - S::round_magic;
  const Vec<R> r = (x - n * S::ln2_high) - n * S::ln2_low;
  constexpr InverseFactorials<R> inverse;
  Vec<R> p = broadcast(inverse.of[S::exp_degree]);
#pragma GCC unroll 16
  for (int d = S::exp_degree - 1; d >= 0; --d) p = p * r + inverse.of[d];
  const BitVec<R> power = ((BitVec<R>)shifted) << S::mantissa_bits;  // the integer n sits in the low bits
  const Vec<R> scaled = (Vec<R>)((BitVec<R>)p + power);
  return vanishes ? Vec<R>{} : scaled;
}

}  // namespace TRELLIS_ISA

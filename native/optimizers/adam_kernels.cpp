// The kernels of adam.h for one instruction set.
#include "base/simd.h"
#include "optimizers/adam.h"

namespace trellis::optimizers::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

// Sums of a few vectors each stay in single precision, all others are double.
template <typename R>
double squared_length(const R* values, int64_t count) {
  constexpr int64_t block = 64 * width<R>;
  double total = 0;
  for (int64_t first = 0; first < count; first += block) {
    const int64_t end = first + block < count ? first + block : count;
    Vec<R> sums{};
    int64_t i = first;
    for (; i + width<R> <= end; i += width<R>) sums += load(values + i) * load(values + i);
    for (int k = 0; k < width<R>; ++k) total += double(sums[k]);
    for (; i < end; ++i) total += double(values[i]) * double(values[i]);
  }
  return total;
}

template <typename R>
inline Vec<R> square_root(Vec<R> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(R) == 4) return (Vec<R>)_mm512_sqrt_ps((__m512)x);
  else return (Vec<R>)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX2__)
  if constexpr (sizeof(R) == 4) return (Vec<R>)_mm256_sqrt_ps((__m256)x);
  else return (Vec<R>)_mm256_sqrt_pd((__m256d)x);
#else
  for (int k = 0; k < width<R>; ++k) x[k] = sizeof(R) == 4 ? __builtin_sqrtf(float(x[k])) : __builtin_sqrt(double(x[k]));
  return x;
#endif
}

template <typename R>
void adam(const AdamStep& step, const Weights<R>& at) {
  const R factor = R(step.factor), penalty = R(step.penalty), shrink = R(step.shrink), b1 = R(step.b1), b2 = R(step.b2),
          c1 = R(1 - step.b1), c2 = R(1 - step.b2), rate = R(step.rate), root = R(step.root), epsilon = R(step.epsilon);
  for (int64_t i = 0; i < at.count; i += width<R>) {
    const int lanes = at.count - i < width<R> ? int(at.count - i) : width<R>;
    const auto read = [&](const R* p) { return load_first<R>(p + i, lanes, R(0)); };
    const auto write = [&](R* p, Vec<R> v) { store_first<R>(p + i, v, lanes); };
    const Vec<R> old = read(at.values), gradient = factor * read(at.gradient) + penalty * old;
    const Vec<R> means = b1 * read(at.means) + c1 * gradient, squares = b2 * read(at.squares) + c2 * gradient * gradient;
    write(at.means, means);
    write(at.squares, squares);
    write(at.values, shrink * old - rate * means / (square_root<R>(squares) * root + epsilon));
  }
}

}  // namespace trellis::optimizers::TRELLIS_ISA

TRELLIS_KERNELS_BY_TYPE(optimizers, AdamKernels, squared_length<R>, adam<R>)

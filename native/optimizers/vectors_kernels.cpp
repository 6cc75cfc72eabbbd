// The kernels of vectors.h for one instruction set. The loops are plain: compilers make vectors of them. Sums run
// in a fixed number of lanes, whatever the width of a vector.
#include "optimizers/vectors.h"

#include "base/simd.h"

namespace trellis::optimizers::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

constexpr int lanes = 16;         // sums that run side by side
constexpr int64_t stretch = 256;  // what is fetched at a time

// What the same vector has in the next chunk, `count` numbers of it: more vectors at once than the processor foresees.
template <typename T>
inline void fetch_next(const T* here, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / int64_t(sizeof(T))) __builtin_prefetch(here + vector_chunk + i, 0, 2);
}

// Where the stretch that begins here ends.
inline int64_t end_of(int64_t begin, int64_t size) { return begin + stretch < size ? begin + stretch : size; }

template <int count = lanes>
inline double fold(double* sums) {
  for (int half = count / 2; half; half /= 2)
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0];
}

double dot(const double* a, const double* b, int64_t size) {
  double sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes)
    for (int j = 0; j < lanes; ++j) sums[j] += a[i + j] * b[i + j];
  for (; i < size; ++i) sums[0] += a[i] * b[i];
  return fold(sums);
}

// A vector of double from memory, where it may be in single precision.
template <typename T>
inline Vec<double> load_wide(const T* p) {
  typedef T From __attribute__((vector_size(sizeof(T) * width<double>)));
  From v;
  __builtin_memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, Vec<double>);
}

// A number that is read is used several times, and six sums of eight lanes fit the registers of AVX2. The vectors are
// written out, since compilers turn a loop over the lanes of all sums into shuffles.
template <typename T>
void dot_three_two(const double* const* three, const T* const* two, int64_t size, double* products) {
  constexpr int few = 8;
  const double *s = three[0], *y = three[1], *v = three[2];
  const T *left = two[0], *right = two[1];
  Vec<double> sums[few / width<double>][6] = {};
  int64_t i = 0;
  for (; i + few <= size; i += few) {
    if (i % stretch == 0) fetch_next(left + i, stretch), fetch_next(right + i, stretch);
    for (int part = 0; part < few / width<double>; ++part) {
      const int64_t at = i + part * width<double>;
      const Vec<double> l = load_wide(left + at), r = load_wide(right + at);
      const Vec<double> s_at = load(s + at), y_at = load(y + at), v_at = load(v + at);
      sums[part][0] += s_at * l, sums[part][1] += y_at * l, sums[part][2] += v_at * l;
      sums[part][3] += s_at * r, sums[part][4] += y_at * r, sums[part][5] += v_at * r;
    }
  }
  for (int k = 0; k < 6; ++k) {
    double lane_sums[few];
    for (int part = 0; part < few / width<double>; ++part) store(lane_sums + part * width<double>, sums[part][k]);
    for (int64_t rest = i; rest < size; ++rest) lane_sums[0] += three[k % 3][rest] * double(two[k / 3][rest]);
    products[k] = fold<few>(lane_sums);
  }
}

template <typename T>
void add_scaled(double* __restrict to, const T* __restrict from, double factor, int64_t size) {
  for (int64_t begin = 0; begin < size; begin += stretch) {
    const int64_t end = end_of(begin, size);
    fetch_next(from + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) to[i] += factor * double(from[i]);
  }
}

void subtract(const double* a, const double* b, int64_t size, float* __restrict to, double* __restrict wide) {
  for (int64_t begin = 0; begin < size; begin += stretch) {
    const int64_t end = end_of(begin, size);
    fetch_next(a + begin, end - begin), fetch_next(b + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) {
      to[i] = float(a[i] - b[i]);
      wide[i] = double(to[i]);
    }
  }
}

inline double sign_of(double value) { return (value > 0.0 ? 1.0 : 0.0) - (value < 0.0 ? 1.0 : 0.0); }

void pseudo_gradient(const double* w, const double* g, double c1, int64_t size, double* out) {
  for (int64_t i = 0; i < size; ++i) {
    const double shrunk = g[i] > c1 ? g[i] - c1 : g[i] < -c1 ? g[i] + c1 : 0.0 * g[i];  // NaN stays NaN
    out[i] = w[i] != 0.0 ? g[i] + c1 * sign_of(w[i]) : shrunk;
  }
}

void keep_downhill(const double* uphill, int64_t size, double* direction) {
  for (int64_t i = 0; i < size; ++i) direction[i] = direction[i] * uphill[i] >= 0.0 ? 0.0 : direction[i];
}

void step_in_orthant(const double* x, const double* uphill, const double* direction, double step, int64_t size,
                     double* out) {
  for (int64_t i = 0; i < size; ++i) {
    const double next = x[i] + step * direction[i], side = x[i] != 0.0 ? x[i] : -uphill[i];
    out[i] = next * sign_of(side) <= 0.0 ? 0.0 : next;
  }
}

void measure(const double* from, const double* to, const double* uphill, int64_t size, double* sums) {
  double lengths[lanes] = {}, slopes[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    for (int j = 0; j < lanes; ++j) {
      lengths[j] += __builtin_fabs(to[i + j]);
      slopes[j] += uphill[i + j] * (to[i + j] - from[i + j]);
    }
  }
  for (; i < size; ++i) {
    lengths[0] += __builtin_fabs(to[i]);
    slopes[0] += uphill[i] * (to[i] - from[i]);
  }
  sums[0] = fold(lengths), sums[1] = fold(slopes);
}

}  // namespace trellis::optimizers::TRELLIS_ISA

TRELLIS_KERNELS(optimizers, VectorKernels, dot, dot_three_two<double>, dot_three_two<float>, add_scaled<double>,
                add_scaled<float>, subtract, pseudo_gradient, keep_downhill, step_in_orthant, measure)

#include "features/vectors.h"

#include "base/threads.h"
#include "features/scoring.h"

#include <algorithm>
#include <cmath>

namespace trellis {
namespace {

constexpr int64_t chunk = 2048;  // what all vectors hold of one chunk fits the nearest caches
constexpr int lanes = 16;        // sums that run side by side

constexpr int64_t stretch = 256;  // what is fetched at a time

// What the same vector has in the next chunk, `count` numbers of it: more vectors at once than the processor foresees.
template <typename T>
__attribute__((always_inline)) inline void fetch_next(const T* here, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / int64_t(sizeof(T))) __builtin_prefetch(here + chunk + i, 0, 2);
}

template <int count = lanes>
double fold(double* sums) {
  for (int half = count / 2; half; half /= 2)
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0];
}

TRELLIS_WIDE
double dot_chunk(const double* a, const double* b, int64_t size) {
  double sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes)
    for (int j = 0; j < lanes; ++j) sums[j] += a[i + j] * b[i + j];
  for (; i < size; ++i) sums[0] += a[i] * b[i];
  return fold(sums);
}

// products[k] = the products of three vectors with vector k of two: a number that is read is used twice, and six sums
// fit the registers of AVX2. Inlined, so that its callers' instruction sets are used.
template <typename T>
__attribute__((always_inline)) inline void dot_two(const double* const* three, const T* const* with, int64_t size,
                                                     double* products) {
  constexpr int few = 8;
  const double *s = three[0], *y = three[1], *v = three[2];
  const T *left = with[0], *right = with[1];
  double s_left[few] = {}, y_left[few] = {}, v_left[few] = {}, s_right[few] = {}, y_right[few] = {}, v_right[few] = {};
  const auto add = [&](int64_t i, int j) __attribute__((always_inline)) {
    const double l = double(left[i]), r = double(right[i]);
    s_left[j] += s[i] * l, y_left[j] += y[i] * l, v_left[j] += v[i] * l;
    s_right[j] += s[i] * r, y_right[j] += y[i] * r, v_right[j] += v[i] * r;
  };
  int64_t i = 0;
  for (; i + few <= size; i += few) {
    if (i % stretch == 0) fetch_next(left + i, stretch), fetch_next(right + i, stretch);
    for (int j = 0; j < few; ++j) add(i + j, j);
  }
  for (; i < size; ++i) add(i, 0);
  double* sums[] = {s_left, y_left, v_left, s_right, y_right, v_right};
  for (int k = 0; k < 6; ++k) products[k] = fold<few>(sums[k]);
}

TRELLIS_WIDE
void dot_three_two(const double* const* three, const float* const* with, int64_t size, double* products) {
  dot_two(three, with, size, products);
}

TRELLIS_WIDE
void dot_three_two(const double* const* three, const double* const* with, int64_t size, double* products) {
  dot_two(three, with, size, products);
}

// products[i] = the products of three vectors with vector i
template <typename T>
void dot_three(const double* const* three, const T* const* vectors, size_t count, int64_t from, int64_t size,
               double* products) {
  for (size_t i = 0; i < count; i += 2) {
    const size_t own = std::min<size_t>(2, count - i);
    const T* two[] = {vectors[i] + from, vectors[i + own - 1] + from};
    double found[6];
    dot_three_two(three, two, size, found);
    std::copy_n(found, 3 * own, products + 3 * i);
  }
}

// to += factor * from. Inlined, as above.
template <typename T>
__attribute__((always_inline)) inline void add_numbers(double* __restrict to, const T* __restrict from, double factor,
                                                       int64_t size) {
  for (int64_t begin = 0; begin < size; begin += stretch) {
    const int64_t end = std::min(begin + stretch, size);
    fetch_next(from + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) to[i] += factor * double(from[i]);
  }
}

TRELLIS_WIDE
void add_scaled(double* to, const double* from, double factor, int64_t size) { add_numbers(to, from, factor, size); }

TRELLIS_WIDE
void add_scaled(double* to, const float* from, double factor, int64_t size) { add_numbers(to, from, factor, size); }

// to = a - b in single precision, and what that is in double
TRELLIS_WIDE
void subtract(const double* a, const double* b, int64_t size, float* __restrict to, double* __restrict wide) {
  for (int64_t begin = 0; begin < size; begin += stretch) {
    const int64_t end = std::min(begin + stretch, size);
    fetch_next(a + begin, end - begin), fetch_next(b + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) {
      to[i] = float(a[i] - b[i]);
      wide[i] = double(to[i]);
    }
  }
}

inline double sign_of(double value) { return (value > 0.0 ? 1.0 : 0.0) - (value < 0.0 ? 1.0 : 0.0); }

TRELLIS_WIDE
void pseudo_chunk(const double* w, const double* g, double c1, int64_t size, double* out) {
  for (int64_t i = 0; i < size; ++i) {
    const double shrunk = g[i] > c1 ? g[i] - c1 : g[i] < -c1 ? g[i] + c1 : 0.0 * g[i];  // NaN stays NaN
    out[i] = w[i] != 0.0 ? g[i] + c1 * sign_of(w[i]) : shrunk;
  }
}

TRELLIS_WIDE
void downhill_chunk(const double* uphill, int64_t size, double* direction) {
  for (int64_t i = 0; i < size; ++i) direction[i] = direction[i] * uphill[i] >= 0.0 ? 0.0 : direction[i];
}

TRELLIS_WIDE
void orthant_chunk(const double* x, const double* uphill, const double* direction, double step, int64_t size,
                   double* out) {
  for (int64_t i = 0; i < size; ++i) {
    const double next = x[i] + step * direction[i], side = x[i] != 0.0 ? x[i] : -uphill[i];
    out[i] = next * sign_of(side) <= 0.0 ? 0.0 : next;
  }
}

// |to|_1 and uphill . (to - from)
TRELLIS_WIDE
void measure_chunk(const double* from, const double* to, const double* uphill, int64_t size, double* sums) {
  double lengths[lanes] = {}, slopes[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    for (int j = 0; j < lanes; ++j) {
      lengths[j] += std::fabs(to[i + j]);
      slopes[j] += uphill[i + j] * (to[i + j] - from[i + j]);
    }
  }
  for (; i < size; ++i) {
    lengths[0] += std::fabs(to[i]);
    slopes[0] += uphill[i] * (to[i] - from[i]);
  }
  sums[0] = fold(lengths), sums[1] = fold(slopes);
}

// f(c, from, count) for each chunk c, which is elements from .. from + count - 1
template <typename F>
void by_chunk(int64_t size, F f) {
  const int64_t chunks = (size + chunk - 1) / chunk;
  run_tasks(chunks, size < 8 * chunk ? 1 : num_threads(), [&](int64_t c) {
    f(c, c * chunk, std::min(chunk, size - c * chunk));
  });
}

// The sum over chunks of the `width` numbers that f(from, count, numbers) gives for each.
template <typename F>
std::vector<double> sum_chunks(int64_t size, size_t width, F f) {
  std::vector<double> parts(size_t((size + chunk - 1) / chunk) * width), sums(width, 0.0);
  by_chunk(size, [&](int64_t c, int64_t from, int64_t count) { f(from, count, parts.data() + size_t(c) * width); });
  for (size_t i = 0; i < parts.size(); ++i) sums[i % width] += parts[i];
  return sums;
}

}  // namespace

double dot(const double* a, const double* b, int64_t size) {
  return sum_chunks(size, 1, [&](int64_t from, int64_t count, double* part) {
    *part = dot_chunk(a + from, b + from, count);
  })[0];
}

void combine(const std::vector<const double*>& vectors, const std::vector<double>& factors, int64_t size,
             double* out) {
  by_chunk(size, [&](int64_t, int64_t from, int64_t count) {
    double sums[chunk] = {};
    for (size_t i = 0; i < vectors.size(); ++i) add_scaled(sums, vectors[i] + from, factors[i], count);
    std::copy_n(sums, count, out + from);
  });
}

void combine(const std::vector<const float*>& vectors, const std::vector<double>& factors, const double* v,
             double factor, int64_t size, double* out) {
  by_chunk(size, [&](int64_t, int64_t from, int64_t count) {
    double sums[chunk] = {};
    for (size_t i = 0; i < vectors.size(); ++i) add_scaled(sums, vectors[i] + from, factors[i], count);
    add_scaled(sums, v + from, factor, count);
    std::copy_n(sums, count, out + from);
  });
}

double add_decay(const double* weights, double factor, int64_t size, double* gradient) {
  return sum_chunks(size, 1, [&](int64_t from, int64_t count, double* part) {
    add_scaled(gradient + from, weights + from, factor, count);
    *part = dot_chunk(weights + from, weights + from, count);
  })[0];
}

std::vector<double> learn_step(const Steps& step, const double* v, const std::vector<const float*>& vectors,
                               int64_t size, float* s, float* y) {
  const size_t columns = vectors.size() + 3;
  const auto found = sum_chunks(size, 3 * columns, [&](int64_t from, int64_t count, double* part) {
    double wide_s[chunk], wide_y[chunk];
    subtract(step.x + from, step.x_before + from, count, s + from, wide_s);
    subtract(step.g + from, step.g_before + from, count, y + from, wide_y);
    const double* three[] = {wide_s, wide_y, v + from};
    dot_three(three, vectors.data(), vectors.size(), from, count, part);
    dot_three(three, three, 3, 0, count, part + 3 * vectors.size());
  });
  std::vector<double> products(found.size());
  for (size_t i = 0; i < columns; ++i)
    for (size_t row = 0; row < 3; ++row) products[row * columns + i] = found[3 * i + row];
  return products;
}

void pseudo_gradient(const double* weights, const double* gradient, double c1, int64_t size, double* out) {
  by_chunk(size, [&](int64_t, int64_t from, int64_t count) {
    pseudo_chunk(weights + from, gradient + from, c1, count, out + from);
  });
}

void keep_downhill(const double* uphill, int64_t size, double* direction) {
  by_chunk(size, [&](int64_t, int64_t from, int64_t count) { downhill_chunk(uphill + from, count, direction + from); });
}

OrthantStep step_in_orthant(const double* x, const double* uphill, const double* direction, double step, int64_t size,
                            double* out) {
  const auto sums = sum_chunks(size, 2, [&](int64_t from, int64_t count, double* part) {
    orthant_chunk(x + from, uphill + from, direction + from, step, count, out + from);
    measure_chunk(x + from, out + from, uphill + from, count, part);
  });
  return {sums[0], sums[1]};
}

}  // namespace trellis

#include "features/vectors.h"

#include "base/threads.h"
#include "features/scoring.h"

#include <algorithm>

namespace trellis {
namespace {

constexpr int64_t chunk = 2048;  // what all vectors hold of one chunk fits the nearest caches
constexpr int lanes = 16;        // sums that run side by side

double fold(double* sums) {
  for (int half = lanes / 2; half; half /= 2)
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

// The products of three vectors with a fourth. Inlined, so that its callers' instruction sets are used.
template <typename T>
__attribute__((always_inline)) inline void dot_three(const double* a, const double* b, const double* c, const T* with, int64_t size, double* out) {
  double x[lanes] = {}, y[lanes] = {}, z[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    for (int j = 0; j < lanes; ++j) {
      const double w = double(with[i + j]);
      x[j] += a[i + j] * w;
      y[j] += b[i + j] * w;
      z[j] += c[i + j] * w;
    }
  }
  for (; i < size; ++i) {
    x[0] += a[i] * double(with[i]);
    y[0] += b[i] * double(with[i]);
    z[0] += c[i] * double(with[i]);
  }
  out[0] = fold(x), out[1] = fold(y), out[2] = fold(z);
}

TRELLIS_WIDE
void dot_three_single(const double* a, const double* b, const double* c, const float* with, int64_t size, double* out) {
  dot_three(a, b, c, with, size, out);
}

TRELLIS_WIDE
void dot_three_double(const double* a, const double* b, const double* c, const double* with, int64_t size,
                      double* out) {
  dot_three(a, b, c, with, size, out);
}

TRELLIS_WIDE
void add_scaled(double* to, const double* from, double factor, int64_t size) {
  for (int64_t i = 0; i < size; ++i) to[i] += factor * from[i];
}

TRELLIS_WIDE
void add_scaled(double* to, const float* from, double factor, int64_t size) {
  for (int64_t i = 0; i < size; ++i) to[i] += factor * double(from[i]);
}

// to = a - b in single precision, and what that is in double
TRELLIS_WIDE
void subtract(const double* a, const double* b, int64_t size, float* to, double* wide) {
  for (int64_t i = 0; i < size; ++i) {
    to[i] = float(a[i] - b[i]);
    wide[i] = double(to[i]);
  }
}

inline double sign_of(double value) { return value > 0.0 ? 1.0 : value < 0.0 ? -1.0 : 0.0; }

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
                   double* out, double* sums) {
  double lengths[lanes] = {}, slopes[lanes] = {};
  const auto take = [&](int64_t i, int lane) {
    const double next = x[i] + step * direction[i], side = x[i] != 0.0 ? x[i] : -uphill[i];
    const double kept = next * sign_of(side) <= 0.0 ? 0.0 : next;
    out[i] = kept;
    lengths[lane] += kept < 0.0 ? -kept : kept;
    slopes[lane] += uphill[i] * (kept - x[i]);
  };
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes)
    for (int j = 0; j < lanes; ++j) take(i + j, j);
  for (; i < size; ++i) take(i, 0);
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
    for (const float* vector : vectors) {
      dot_three_single(wide_s, wide_y, v + from, vector + from, count, part);
      part += 3;
    }
    dot_three_double(wide_s, wide_y, v + from, wide_s, count, part);
    dot_three_double(wide_s, wide_y, v + from, wide_y, count, part + 3);
    dot_three_double(wide_s, wide_y, v + from, v + from, count, part + 6);
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
    orthant_chunk(x + from, uphill + from, direction + from, step, count, out + from, part);
  });
  return {sums[0], sums[1]};
}

}  // namespace trellis

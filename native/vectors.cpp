#include "vectors.h"

#include "scoring.h"
#include "threads.h"

#include <algorithm>

namespace trellis {
namespace {

constexpr int64_t chunk = 2048;  // what all vectors hold of one chunk fits the nearest caches

TRELLIS_WIDE
double dot(const double* a, const double* b, int64_t size) {
  double sums[16] = {};
  int64_t i = 0;
  for (; i + 16 <= size; i += 16)
    for (int j = 0; j < 16; ++j) sums[j] += a[i + j] * b[i + j];
  for (; i < size; ++i) sums[0] += a[i] * b[i];
  for (int half = 8; half; half /= 2)
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0];
}

TRELLIS_WIDE
void add_scaled(double* to, const double* from, double factor, int64_t size) {
  for (int64_t i = 0; i < size; ++i) to[i] += factor * from[i];
}

int64_t chunks_of(int64_t size) { return (size + chunk - 1) / chunk; }

}  // namespace

std::vector<double> dot_products(const std::vector<const double*>& left, const std::vector<const double*>& right,
                                 int64_t size) {
  const size_t pairs = left.size() * right.size();
  std::vector<double> parts(size_t(chunks_of(size)) * pairs), sums(pairs, 0.0);
  run_tasks(chunks_of(size), size < 8 * chunk ? 1 : num_threads(), [&](int64_t c) {
    const int64_t from = c * chunk, count = std::min(chunk, size - from);
    double* part = parts.data() + size_t(c) * pairs;
    for (const double* a : left)
      for (const double* b : right) *part++ = dot(a + from, b + from, count);
  });
  for (size_t i = 0; i < parts.size(); ++i) sums[i % pairs] += parts[i];
  return sums;
}

void combine(const std::vector<const double*>& vectors, const std::vector<double>& factors, int64_t size,
             double* out) {
  run_tasks(chunks_of(size), size < 8 * chunk ? 1 : num_threads(), [&](int64_t c) {
    const int64_t from = c * chunk, count = std::min(chunk, size - from);
    double sums[chunk] = {};
    for (size_t i = 0; i < vectors.size(); ++i) add_scaled(sums, vectors[i] + from, factors[i], count);
    std::copy_n(sums, count, out + from);
  });
}

}  // namespace trellis

#include "optimizers/vectors.h"

#include "base/numbers.h"
#include "base/threads.h"

#include <algorithm>

namespace trellis::optimizers {
namespace {

constexpr int64_t chunk = vector_chunk;

void dot_two(const double* const* three, const double* const* two, int64_t size, double* products) {
  vector_kernels().dot_three_two(three, two, size, products);
}
void dot_two(const double* const* three, const float* const* two, int64_t size, double* products) {
  vector_kernels().dot_three_two_single(three, two, size, products);
}

// products[i] = the products of three vectors with vector i
template <typename T>
void dot_three(const double* const* three, const T* const* vectors, size_t count, int64_t from, int64_t size,
               double* products) {
  for (size_t i = 0; i < count; i += 2) {
    const size_t own = std::min<size_t>(2, count - i);
    const T* two[] = {vectors[i] + from, vectors[i + own - 1] + from};
    double found[6];
    dot_two(three, two, size, found);
    std::copy_n(found, 3 * own, products + 3 * i);
  }
}

// f(c, from, count) for each chunk c, which is elements from .. from + count - 1
template <typename F>
void by_chunk(int64_t size, F f) {
  const int64_t chunks = parts_of(size, chunk);
  run_tasks(chunks, size < 8 * chunk ? 1 : num_threads(), [&](int64_t c) {
    f(c, c * chunk, std::min(chunk, size - c * chunk));
  });
}

// The sum over chunks of the `width` numbers that f(from, count, numbers) gives for each.
template <typename F>
std::vector<double> sum_chunks(int64_t size, size_t width, F f) {
  std::vector<double> parts(size_t(parts_of(size, chunk)) * width), sums(width, 0.0);
  by_chunk(size, [&](int64_t c, int64_t from, int64_t count) { f(from, count, parts.data() + size_t(c) * width); });
  for (size_t i = 0; i < parts.size(); ++i) sums[i % width] += parts[i];
  return sums;
}

}  // namespace

double dot(const double* a, const double* b, int64_t size) {
  return sum_chunks(size, 1, [&](int64_t from, int64_t count, double* part) {
    *part = vector_kernels().dot(a + from, b + from, count);
  })[0];
}

void combine(const std::vector<const double*>& vectors, const std::vector<double>& factors, int64_t size,
             double* out) {
  const VectorKernels& kernels = vector_kernels();
  by_chunk(size, [&](int64_t, int64_t from, int64_t count) {
    double sums[chunk] = {};
    for (size_t i = 0; i < vectors.size(); ++i) kernels.add_scaled(sums, vectors[i] + from, factors[i], count);
    std::copy_n(sums, count, out + from);
  });
}

void combine(const std::vector<const float*>& vectors, const std::vector<double>& factors, const double* v,
             double factor, int64_t size, double* out) {
  const VectorKernels& kernels = vector_kernels();
  by_chunk(size, [&](int64_t, int64_t from, int64_t count) {
    double sums[chunk] = {};
    for (size_t i = 0; i < vectors.size(); ++i) kernels.add_scaled_single(sums, vectors[i] + from, factors[i], count);
    kernels.add_scaled(sums, v + from, factor, count);
    std::copy_n(sums, count, out + from);
  });
}

double add_decay(const double* weights, double factor, int64_t size, double* gradient) {
  return sum_chunks(size, 1, [&](int64_t from, int64_t count, double* part) {
    vector_kernels().add_scaled(gradient + from, weights + from, factor, count);
    *part = vector_kernels().dot(weights + from, weights + from, count);
  })[0];
}

std::vector<double> learn_step(const Steps& step, const double* v, const std::vector<const float*>& vectors,
                               int64_t size, float* s, float* y) {
  const size_t columns = vectors.size() + 3;
  const auto found = sum_chunks(size, 3 * columns, [&](int64_t from, int64_t count, double* part) {
    double wide_s[chunk], wide_y[chunk];
    vector_kernels().subtract(step.x + from, step.x_before + from, count, s + from, wide_s);
    vector_kernels().subtract(step.g + from, step.g_before + from, count, y + from, wide_y);
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
    vector_kernels().pseudo_gradient(weights + from, gradient + from, c1, count, out + from);
  });
}

void keep_downhill(const double* uphill, int64_t size, double* direction) {
  by_chunk(size, [&](int64_t, int64_t from, int64_t count) {
    vector_kernels().keep_downhill(uphill + from, count, direction + from);
  });
}

OrthantStep step_in_orthant(const double* x, const double* uphill, const double* direction, double step, int64_t size,
                            double* out) {
  const auto sums = sum_chunks(size, 2, [&](int64_t from, int64_t count, double* part) {
    vector_kernels().step_in_orthant(x + from, uphill + from, direction + from, step, count, out + from);
    vector_kernels().measure(x + from, out + from, uphill + from, count, part);
  });
  return {sums[0], sums[1]};
}

}  // namespace trellis::optimizers

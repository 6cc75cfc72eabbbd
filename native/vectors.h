// Vector operations of L-BFGS on long vectors of doubles, in fixed chunks: the same result with any number of threads.
#pragma once

#include <cstdint>
#include <vector>

namespace trellis {

// dots[i * right.size() + j] = left[i] . right[j]; each vector is read once.
std::vector<double> dot_products(const std::vector<const double*>& left, const std::vector<const double*>& right,
                                 int64_t size);
// out = sum_i factors[i] * vectors[i]; out may be one of the vectors.
void combine(const std::vector<const double*>& vectors, const std::vector<double>& factors, int64_t size,
             double* out);

}  // namespace trellis

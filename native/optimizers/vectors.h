// Vector operations of L-BFGS on long vectors, in fixed chunks: the same result with any number of threads. What is
// remembered of earlier steps is in single precision, half the memory to read; all arithmetic is in double. The drivers (vectors.cpp), and what
// they share with the kernels of every instruction set (vectors_kernels.cpp).
#pragma once

#include "base/instruction_set.h"

#include <cstdint>
#include <vector>

namespace trellis::optimizers {

double dot(const double* a, const double* b, int64_t size);

// out = sum_i factors[i] * vectors[i]; out may be one of the vectors.
void combine(const std::vector<const double*>& vectors, const std::vector<double>& factors, int64_t size,
             double* out);
// out = sum_i factors[i] * vectors[i] + factor * v
void combine(const std::vector<const float*>& vectors, const std::vector<double>& factors, const double* v,
             double factor, int64_t size, double* out);

// gradient += factor * weights; returns weights . weights
double add_decay(const double* weights, double factor, int64_t size, double* gradient);

// A step of the optimizer from x_before to x, where the gradient went from g_before to g.
struct Steps {
  const double *x, *x_before, *g, *g_before;
};
// s = x - x_before, y = g - g_before, and the products of s, y and v with the vectors, s, y and v, row after row: all
// in one pass.
std::vector<double> learn_step(const Steps& step, const double* v, const std::vector<const float*>& vectors,
                               int64_t size, float* s, float* y);

// Of OWL-QN, see trellis.training.owlqn: the way up of a loss with gradient g and the term c1 |w|_1.
void pseudo_gradient(const double* weights, const double* gradient, double c1, int64_t size, double* out);
// direction = 0 where it does not lead down
void keep_downhill(const double* uphill, int64_t size, double* direction);
// out = x + step * direction, and 0 where that leaves the orthant of x, or of the way down where x is 0.
struct OrthantStep {
  double length;  // |out|_1
  double slope;   // uphill . (out - x)
};
OrthantStep step_in_orthant(const double* x, const double* uphill, const double* direction, double step, int64_t size,
                            double* out);

constexpr int64_t vector_chunk = 2048;  // what all vectors hold of one chunk fits the nearest caches

struct VectorKernels {
  double (*dot)(const double* a, const double* b, int64_t size);
  // products[3 * k + i] = three[i] . two[k]
  void (*dot_three_two)(const double* const* three, const double* const* two, int64_t size, double* products);
  void (*dot_three_two_single)(const double* const* three, const float* const* two, int64_t size, double* products);
  // to += factor * from; what the next chunk has there is fetched
  void (*add_scaled)(double* to, const double* from, double factor, int64_t size);
  void (*add_scaled_single)(double* to, const float* from, double factor, int64_t size);
  // to = a - b in single precision, and what that is in double
  void (*subtract)(const double* a, const double* b, int64_t size, float* to, double* wide);
  // Of OWL-QN; see vectors.h. `measure` gives |to|_1 and uphill . (to - from).
  void (*pseudo_gradient)(const double* weights, const double* gradient, double c1, int64_t size, double* out);
  void (*keep_downhill)(const double* uphill, int64_t size, double* direction);
  void (*step_in_orthant)(const double* x, const double* uphill, const double* direction, double step, int64_t size,
                          double* out);
  void (*measure)(const double* from, const double* to, const double* uphill, int64_t size, double* sums);
};

// Those of the instruction set in use.
inline const VectorKernels& vector_kernels() { return kernels_in_use<VectorKernels>(); }

}  // namespace trellis::optimizers

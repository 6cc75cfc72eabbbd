// Steps of Adam over weights that lie in several arrays, and the length of their gradient. The plain data that the driver
// (adam.cpp) and its kernels of every instruction set (adam_kernels.cpp) share.
#pragma once

#include "base/instruction_set.h"

#include <cstdint>

namespace trellis::optimizers {

// Some weights with their gradient and what Adam remembers of earlier ones: means of gradients and of their squares.
template <typename R>
struct Weights {
  R* values;
  const R* gradient;
  R *means, *squares;
  int64_t count;
};

// One step: with g the gradient times `factor`, plus `penalty` times the weights,
//   weights <- shrink * weights;  means <- b1 means + (1 - b1) g;  squares <- b2 squares + (1 - b2) g^2
//   weights <- weights - rate * means / (sqrt(squares) * root + epsilon)
struct AdamStep {
  double factor, penalty, shrink, b1, b2, rate, root, epsilon;
};

template <typename R>
struct AdamKernels {
  double (*squared_length)(const R* values, int64_t count);
  void (*adam)(const AdamStep& step, const Weights<R>& at);
};

// Of all gradients as one vector; the same bits with any number of threads.
template <typename R>
double gradient_length(const Weights<R>* weights, int64_t arrays, int threads);

// steps[a] is the step of weights[a].
template <typename R>
void adam(const Weights<R>* weights, const AdamStep* steps, int64_t arrays, int threads);

}  // namespace trellis::optimizers

// Training that moves the weights after a few sentences at a time.
#pragma once

#include "features/objective.h"

namespace trellis {

// One pass of mini-batch gradient descent over the sentences `order`. The weights are scale * weights, so that the
// decay of L2 costs one multiplication per batch; step k of the pass takes
//   rate = rate0 / (1 + rate0 * decay * (done + k)),   w -= rate * (decay * w + mean gradient of the batch)
struct Descent {
  double rate0, decay, scale;
  int64_t batch, done;
};
Outcome descend(const Objective& objective, const int64_t* order, int64_t count, Descent& descent, double* weights,
                double* loss);

// One pass of the averaged perceptron. `sums` gathers what averaging needs: the average after `seen` sentences is
// weights - sums / seen. Mistakes are counted by token.
void perceptron(const Objective& objective, const int64_t* order, int64_t count, double* weights, double* sums,
                int64_t* seen, int64_t* mistakes);

}  // namespace trellis

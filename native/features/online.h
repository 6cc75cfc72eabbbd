// Training that moves the weights after a few sentences at a time.
#pragma once

#include "features/objective.h"

namespace trellis::features {

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
// weights - sums / (seen + 1), which counts the weights at first too. Mistakes are counted by token.
void perceptron(const Objective& objective, const int64_t* order, int64_t count, double* weights, double* sums,
                int64_t* seen, int64_t* mistakes);

// One pass of passive-aggressive learning (Crammer et al. 2006). With f the features of the right path less those of
// the best one, and d labels wrong, a sentence that is tagged wrongly moves the weights just far enough:
//   cost = -w f + (sqrt(d) or 1),   w += tau f,   tau = cost / |f|^2 | min(c, cost / |f|^2) | cost / (|f|^2 + 1 / 2c)
// `sums` and `seen` are those of the perceptron. Returns the sum of the costs.
struct Aggression {
  int64_t type;  // 0 without slack, 1 PA-I, 2 PA-II
  double c;
  bool by_errors;
};
double passive_aggressive(const Objective& objective, const int64_t* order, int64_t count, const Aggression& aggression,
                          double* weights, double* sums, int64_t* seen);

// One pass of AROW (Crammer et al. 2009): each weight has a variance v, which falls as it is used.
//   cost = -w f + d,   w += cost / (gamma + f v f) * v f,   1 / v += f^2 / gamma
double arow(const Objective& objective, const int64_t* order, int64_t count, double gamma, double* weights,
            double* variances);

}  // namespace trellis::features

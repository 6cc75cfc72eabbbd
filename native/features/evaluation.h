// One evaluation of the objective and its gradient.
#pragma once

#include "chain/inference.h"

#include <memory>

namespace trellis {

class Objective;

// How the objective is computed, in single or double precision.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  // The gradient is added to what is there.
  virtual Outcome evaluate(const double* weights, double* gradient, double* loss) = 0;
};

std::unique_ptr<Evaluation> make_evaluation(const Objective& objective, bool single_precision);

}  // namespace trellis

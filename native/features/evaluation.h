// One evaluation of the objective and its gradient.
#pragma once

#include "chain/inference.h"
#include "features/plan_data.h"
#include "features/states.h"

#include <memory>

namespace trellis::features {

using namespace chain;

class Objective;

// Some sentences, how they are scored, and what is known about their labels. All of it lies elsewhere, be it in a file
// that is mapped.
struct CorpusPart {
  PlanView plan;
  Supervision known;
  const int64_t* chain_tags = nullptr;  // the states of the tokens, as in Objective::set_chain
};

// How the objective is computed, in single or double precision.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  // The gradient is added to what is there.
  virtual Outcome evaluate(const CorpusPart& part, const double* weights, double* gradient, double* loss) = 0;
};

std::unique_ptr<Evaluation> make_evaluation(const Objective& objective, bool single_precision);

}  // namespace trellis::features

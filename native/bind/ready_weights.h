// Weights of attributes as Python holds them, made ready for scoring.
#pragma once

#include "features/scoring.h"

#include <nanobind/nanobind.h>

namespace trellis::bind {

using namespace features;


// Keeps the array of labels that it points into.
struct ReadyWeights {
  WeightTable<double> table;
  nanobind::object labels;
};

}  // namespace trellis::bind

// Which pairs (attribute, label) get a weight, given what is known about the labels.
#pragma once

#include "features/dataset.h"

#include <cstdint>
#include <vector>

namespace trellis::features {

// What is known about the labels of the corpus, and how much each part of it counts; null if there is nothing.
struct Supervision {
  const int64_t* tags = nullptr;             // [N]
  const uint8_t* allowed = nullptr;          // [N, L] labels not ruled out, if some are only partly known
  const double* sentence_weights = nullptr;  // [B]
  const double* token_weights = nullptr;     // [N]
};

struct StateFeatures {
  std::vector<int64_t> ends;  // [A]
  std::vector<uint16_t> labels;
};

// The state features that occur (sum of absolute values at least min_freq), or all of them, and their sums if asked for.
StateFeatures choose_states(const Dataset& data, const Supervision& known, int64_t attributes, int64_t L,
                            double min_freq, bool all, std::vector<double>* counts = nullptr);

}  // namespace trellis::features

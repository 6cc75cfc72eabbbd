// Labelled spans, and chains whose states stand for labels.
#pragma once

#include <cstdint>

namespace trellis::chain {

// The label that each state of a chain stands for, and the states of each label. Mostly states are labels.
struct StateLabels {
  const int64_t* label;    // [L] of each state
  const int64_t* ends;     // [labels] label k has the states members[ends[k - 1] .. ends[k] - 1]
  const int64_t* members;  // [L]

  int64_t begin(int64_t k) const { return k ? ends[k - 1] : 0; }
};

// One labelled span and what surrounds it; see span_log_prob in spans_kernels.h.
struct Span {
  int64_t index;           // its place among all spans asked for
  int64_t sequence, begin, end;
  const int64_t* tags;     // [end - begin]
  const uint8_t* before;   // [labels] which are allowed just before, or null
  const uint8_t* after;    // [labels] which are allowed just after, or null
};

}  // namespace trellis::chain

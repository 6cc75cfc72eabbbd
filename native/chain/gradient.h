// Where the gradients of Inference go, which gradient.cpp computes.
#pragma once

#include <cstdint>

namespace trellis::chain {

template <typename R>
struct Gradient {
  R *emissions, *transitions, *start, *end;
  int64_t rows;            // of the emissions
  R* edges = nullptr;      // null if nobody asks
  int64_t edge_count = 0;  // matrices
};

}  // namespace trellis::chain

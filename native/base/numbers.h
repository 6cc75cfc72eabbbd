// Small arithmetic that every room needs, and the one place that compares counts with what 32 bits can number.
#pragma once

#include "base/block.h"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace trellis {

constexpr double forbidden = -std::numeric_limits<double>::infinity();  // the score of what cannot be

// Less than 2^31 by what kernels read ahead of the last one.
constexpr int64_t most_numbered = std::numeric_limits<int32_t>::max() - 1024;

// The count itself; throws std::length_error if it is too large.
inline int64_t checked_count(int64_t count, const char* of_what) {
  if (count >= 0 && count <= most_numbered) return count;
  throw std::length_error(std::string("there are ") + std::to_string(count) + " " + of_what + ", and at most " +
                          std::to_string(most_numbered) + " can be numbered");
}

}  // namespace trellis

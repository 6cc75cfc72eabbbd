// Blocks of numbers and small arithmetic that every room needs, for code that is compiled once, and the one place that
// compares counts with what 32 bits can number.
#pragma once

#define TRELLIS_ISA driver
#include "base/memory.h"
#undef TRELLIS_ISA

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace trellis {

using driver::Block;
using driver::parts_of;
using driver::round_up;

// Gives memory back: `v = {}` would only make it empty.
template <typename T>
void release(std::vector<T>& v) {
  std::vector<T>().swap(v);
}

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

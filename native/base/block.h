// What memory.h has, for code that is compiled once, and giving memory back.
#pragma once

#define TRELLIS_ISA driver
#include "base/memory.h"
#undef TRELLIS_ISA

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

}  // namespace trellis

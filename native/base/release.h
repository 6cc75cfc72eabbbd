// Gives memory back.
#pragma once

#include <vector>

namespace trellis {

// `v = {}` would only make it empty.
template <typename T>
void release(std::vector<T>& v) {
  std::vector<T>().swap(v);
}

}  // namespace trellis

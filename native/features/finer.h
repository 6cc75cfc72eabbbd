// From labels to the states of a chain that are finer than labels, and back.
#pragma once

#include <cstdint>
#include <vector>

namespace trellis::features {

// to[n, s] = from[n, labels[s]]
template <typename T>
void spread_labels(const T* from, int64_t tokens, int64_t L, const std::vector<uint16_t>& labels, T* to) {
  for (int64_t n = 0; n < tokens; ++n, from += L)
    for (const uint16_t label : labels) *to++ = from[label];
}

// to[n, l] = sum over the states s of label l of from[n, s]
template <typename R>
void gather_labels(const R* from, int64_t tokens, int64_t L, const std::vector<uint16_t>& labels, R* to) {
  for (int64_t n = 0; n < tokens; ++n, to += L) {
    for (int64_t l = 0; l < L; ++l) to[l] = R(0);
    for (const uint16_t label : labels) to[label] += *from++;
  }
}

}  // namespace trellis::features

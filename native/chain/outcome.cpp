#include "chain/outcome.h"

#include <cmath>

namespace trellis::chain {

Outcome first_problem(const std::vector<uint8_t>& status) {
  for (size_t b = 0; b < status.size(); ++b)
    if (status[b] > underflow) return {status[b], int64_t(b)};
  return {};
}

void check_range(double result, uint8_t& status) {
  if (status <= underflow && !(std::abs(result) < -forbidden)) status = sum_too_large;
}

}  // namespace trellis::chain

#include "chain/outcome.h"

#include <cmath>
#include <limits>

namespace trellis::chain {

Outcome first_problem(const std::vector<uint8_t>& status) {
  for (size_t b = 0; b < status.size(); ++b)
    if (status[b] > underflow) return {status[b], int64_t(b)};
  return {};
}

template <typename R>
bool all_below_infinity(const R* x, int64_t n) {
  bool fine = true;
  for (int64_t i = 0; i < n; ++i) fine &= x[i] < std::numeric_limits<R>::infinity();
  return fine;
}

template bool all_below_infinity(const float*, int64_t);
template bool all_below_infinity(const double*, int64_t);

void check_range(double result, uint8_t& status) {
  if (status <= underflow && !(std::abs(result) < std::numeric_limits<double>::infinity())) status = sum_too_large;
}

}  // namespace trellis::chain

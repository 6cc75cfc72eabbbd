// What a batch of inference reports.
#pragma once

#include "chain/batch.h"

#include <vector>

namespace trellis::chain {

// What went wrong first, in order of sequences; `status` is exact if nothing did. In addition to the kernels' codes:
enum Problem : uint8_t {
  tag_out_of_range = 4,
  forbidden_path = 5,     // the given tags use a score of minus infinity
  bad_chain_score = 6,    // a transition, start or end score is NaN or plus infinity
  sum_too_large = 7,      // finite scores that add up to more than a double holds
};

struct Outcome {
  uint8_t status = exact;
  int64_t sequence = 0;
};

// The first problem among the statuses of the sequences.
Outcome first_problem(const std::vector<uint8_t>& status);
// Whether no score is NaN or plus infinity.
template <typename R>
bool all_below_infinity(const R* x, int64_t n);
// A result that is not finite although nothing was forbidden: scores near the end of a double's range.
void check_range(double result, uint8_t& status);

}  // namespace trellis::chain

// What a batch of inference reports.
#pragma once

#include "base/numbers.h"
#include "base/tasks.h"
#include "chain/batch.h"

#include <cmath>
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
inline Outcome first_problem(const std::vector<uint8_t>& status) {
  for (size_t b = 0; b < status.size(); ++b)
    if (status[b] > underflow) return {status[b], int64_t(b)};
  return {};
}

// A result that is not finite although nothing was forbidden: scores near the end of a double's range.
inline void check_range(double result, uint8_t& status) {
  if (status <= underflow && !(std::abs(result) < -forbidden)) status = sum_too_large;
}

// f(task, b) for every sequence that has tokens and whose scores are valid(b); it gives minus infinity if b has no path.
template <typename Valid, typename F>
Outcome for_valid_sequences(const Tasks& tasks, int threads, std::vector<uint8_t>& status, Valid valid, F f) {
  tasks.for_groups(1, threads, [&](int64_t task, const int64_t* sequences, int) {
    const int64_t b = *sequences;
    uint8_t& own = status[size_t(b)];
    if (!valid(b)) {
      own = not_finite;
      return;
    }
    const double result = f(task, b);
    if (result == forbidden) own = no_path;
    check_range(result, own);
  });
  return first_problem(status);
}

}  // namespace trellis::chain

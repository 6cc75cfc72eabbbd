// How the sequences of a batch are shared out. Tasks depend on the input only, so that sums come out the same with any
// number of threads.
#pragma once

#include "base/threads.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trellis {

struct Tasks {
  std::vector<int64_t> order;     // sequences that are not empty, longest first, equal lengths in their order
  std::vector<int64_t> begin{0};  // task i owns order[begin[i] .. begin[i + 1] - 1]

  int64_t count() const { return int64_t(begin.size()) - 1; }
  // f(task, sequences, count) for the sequences of every task, up to `group` at a time
  template <typename F>
  void for_groups(int64_t group, int threads, F f) const {
    run_tasks(count(), threads, [&](int64_t task) {
      const int64_t stop = begin[size_t(task) + 1];
      for (int64_t i = begin[size_t(task)]; i < stop; i += group)
        f(task, order.data() + i, int(std::min(group, stop - i)));
    });
  }
};

// Tasks of whole groups, as far as there are any. There are enough to share the work evenly, and few enough that their
// sums, of `sum_bytes` each, fit in a few megabytes.
Tasks plan_tasks(const int64_t* offsets, int64_t B, int64_t group, int64_t sum_bytes);

}  // namespace trellis

#include "base/tasks.h"

#include <numeric>

namespace trellis {
namespace {

// Sequences by length, longest first, equal lengths in their order; empty ones are left out.
std::vector<int64_t> longest_first(const int64_t* offsets, int64_t B) {
  auto length = [&](int64_t b) { return offsets[b + 1] - offsets[b]; };
  int64_t longest = 0;
  for (int64_t b = 0; b < B; ++b) longest = std::max(longest, length(b));
  std::vector<int64_t> order(static_cast<size_t>(B));
  if (longest <= 4 * B + 1024) {  // counting sort
    std::vector<int64_t> place(size_t(longest) + 2, 0);
    for (int64_t b = 0; b < B; ++b) ++place[size_t(longest - length(b)) + 1];
    std::partial_sum(place.begin(), place.end(), place.begin());
    for (int64_t b = 0; b < B; ++b) order[size_t(place[size_t(longest - length(b))]++)] = b;
  } else {
    std::iota(order.begin(), order.end(), int64_t(0));
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
  }
  while (!order.empty() && length(order.back()) == 0) order.pop_back();
  return order;
}

}  // namespace

Tasks plan_tasks(const int64_t* offsets, int64_t B, int64_t group, int64_t sum_bytes) {
  constexpr int64_t least_tokens = 256, most_tasks = 64, most_bytes = 8 << 20;
  const int64_t affordable = std::clamp<int64_t>(most_bytes / std::max<int64_t>(sum_bytes, 1), 4, most_tasks);
  const int64_t per_task = std::max(least_tokens, (offsets[B] - offsets[0]) / affordable + 1);
  Tasks tasks;
  tasks.order = longest_first(offsets, B);
  const int64_t count = int64_t(tasks.order.size());
  int64_t tokens = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t b = tasks.order[size_t(i)];
    tokens += offsets[b + 1] - offsets[b];
    const bool group_full = (i + 1 - tasks.begin.back()) % group == 0;
    if (i + 1 == count || (group_full && tokens >= per_task)) {
      tasks.begin.push_back(i + 1);
      tokens = 0;
    }
  }
  return tasks;
}

}  // namespace trellis

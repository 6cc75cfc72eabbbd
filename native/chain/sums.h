// Expected counts, summed by task and then over the tasks, always in their order.
#pragma once

#include "base/numbers.h"
#include "chain/batch.h"

#include <memory>
#include <vector>

namespace trellis::chain {

// Expected counts, each row padded to P.
struct Sums {
  int64_t L, P;
  Block<double> memory;
  Counts counts;
  Sums(int64_t L, int64_t P)
      : L(L), P(P), memory((L + 2) * P, 0.0), counts{memory, memory + L * P, memory + (L + 1) * P} {}
  static int64_t bytes(int64_t L, int64_t P) { return (L + 2) * P * int64_t(sizeof(double)); }
  void clear() {
    for (int64_t i = 0; i < (L + 2) * P; ++i) memory[i] = 0.0;
  }
  void add(const Sums& other) {
    for (int64_t i = 0; i < L + 2; ++i)
      for (int64_t j = 0; j < L; ++j) memory[i * P + j] += other.memory[i * other.P + j];
  }
};

// What pass(sequences, n, counts) counts for the sequences of a group whose status is `exact`, added to `sums`. If one of
// them underflows, the counts of the whole group are wrong: the others are counted again without it.
template <typename Pass>
void add_exact(const int64_t* sequences, int count, const std::vector<uint8_t>& status, Sums& sums, Pass pass) {
  Sums group(sums.L, sums.P);
  for (bool again = true; again;) {
    int64_t kept[64];
    int n = 0;
    for (int g = 0; g < count; ++g)
      if (status[size_t(sequences[g])] == exact) kept[n++] = sequences[g];
    if (n == 0) return;
    group.clear();
    pass(kept, n, group.counts);
    again = false;
    for (int g = 0; g < n; ++g) again |= status[size_t(kept[g])] != exact;
  }
  sums.add(group);
}

// The expected counts of every task.
struct TaskSums {
  int64_t L, P;
  std::vector<std::unique_ptr<Sums>> tasks;
  TaskSums(int64_t count, int64_t L, int64_t P) : L(L), P(P), tasks(size_t(count)) {}
  Sums& of(int64_t task) {
    auto& sums = tasks[size_t(task)];
    if (!sums) sums = std::make_unique<Sums>(L, P);
    return *sums;
  }
  // The total, always added up in the order of the tasks.
  template <typename R>
  void write(R* transitions, R* start, R* end) const {
    Sums total(L, P);
    for (const auto& sums : tasks)
      if (sums) total.add(*sums);
    for (int64_t i = 0; i < L; ++i) {
      for (int64_t j = 0; j < L; ++j) transitions[i * L + j] = R(total.counts.transitions[i * P + j]);
      start[i] = R(total.counts.start[i]);
      end[i] = R(total.counts.end[i]);
    }
  }
};

}  // namespace trellis::chain

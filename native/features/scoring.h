// From weights to emissions; see dataset.h for the flow. Work is split into tasks by the data alone, so that results
// do not depend on the number of threads.
#pragma once

#include "base/numbers.h"
#include "base/threads.h"
#include "features/dataset.h"
#include "features/kernels.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trellis::features {

// The labels that each attribute has a weight for; the weights lie in the same order.
struct Pairs {
  const int64_t* ends;     // [A]
  const uint16_t* labels;  // [pairs]
  int64_t attributes, labels_in_all;

  // Throws std::length_error if there are too many to number.
  Pairs(const int64_t* ends, const uint16_t* labels, int64_t attributes, int64_t labels_in_all)
      : ends(ends), labels(labels), attributes(attributes), labels_in_all(labels_in_all) {
    checked_count(attributes, "features");
    checked_count(count(), "pairs of a feature and a label");
  }
  int64_t begin(int64_t a) const { return a ? ends[a - 1] : 0; }
  int64_t count() const { return begin(attributes); }
};

// f(pair, label, value) for every weight of the attributes of a token
template <typename F>
void for_pairs(const Dataset& data, const Pairs& pairs, int64_t token, F f) {
  data.for_attributes(token, [&](int64_t a, double value) {
    for (int64_t p = pairs.begin(a); p < pairs.ends[a]; ++p) f(p, pairs.labels[p], value);
  });
}

// The same made ready for many look-ups in the numbers R. Attributes with many labels keep a full row of weights: a row
// is added in a few vector operations, and the frequent attributes are those with many labels.
template <typename R>
class WeightTable {
 public:
  explicit WeightTable(const Pairs& pairs);
  void fill(const double* weights);

  // After the last fill: only the array of labels is needed from now on.
  void forget_ends() { pairs_.ends = nullptr; }
  int64_t labels() const { return pairs_.labels_in_all; }
  // What the kernels read.
  AttributeWeights<R> view() const {
    return {slots_.data(), rows_.data(), weights_.data(), pairs_.labels, pairs_.labels_in_all};
  }

 private:
  Pairs pairs_;
  std::vector<WeightSlot> slots_;  // [A]
  std::vector<int32_t> owners_;    // of the rows
  std::vector<R> rows_, weights_;
};

// row[l] += sum over the attributes (a, v) of bundle u of v * weights[a, l]. Bundles are scored in about their order.
void add_bundle(const Dataset& data, const WeightTable<double>& weights, int64_t u, double* row);

// f(first, last) for chunks of 0 .. count - 1, shared out.
template <typename F>
void for_chunks(int64_t count, F f) {
  constexpr int64_t chunk = 1024;
  run_tasks(parts_of(count, chunk), num_threads(), [&](int64_t task) {
    f(task * chunk, std::min(count, (task + 1) * chunk));
  });
}

// f(0) .. f(count - 1), shared out in chunks.
template <typename F>
void in_chunks(int64_t count, F f) {
  for_chunks(count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) f(i);
  });
}

// emissions[N, L] of a whole dataset
void score_dataset(const Dataset& data, const WeightTable<double>& weights, double* emissions);

// Cuts 0 .. count - 1, where item i ends at work ends[i], into ranges of about equal work; run(first, last) for each.
template <typename End, typename F>
void run_balanced(const End* ends, int64_t count, F run) {
  constexpr int64_t most_tasks = 64, least_work = 2048;
  const int64_t work = count ? int64_t(ends[count - 1]) + count : 0;
  const int64_t tasks = std::clamp<int64_t>(work / least_work, 1, most_tasks);
  const auto cut = [&](int64_t task) {  // the first item whose work lies beyond task / tasks of all
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      (int64_t(ends[middle]) + middle + 1) * tasks <= work * task ? low = middle + 1 : high = middle;
    }
    return low;
  };
  run_tasks(tasks, num_threads(), [&](int64_t task) {
    const int64_t first = cut(task), last = task + 1 == tasks ? count : cut(task + 1);
    if (first < last) run(first, last);
  });
}

}  // namespace trellis::features

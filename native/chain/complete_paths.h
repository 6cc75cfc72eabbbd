// Which states of a batch lie on a complete path: one from start to end without a score of minus infinity. No kernel may
// see the scores of the others. Kernels shift rows by their largest score, so that a label of score 1e8 from which the
// end cannot be reached would round away what is left of the others.
#pragma once

#include "base/numbers.h"
#include "chain/batch.h"
#define TRELLIS_ISA driver
#include "chain/emission.h"
#undef TRELLIS_ISA

#include <cstdint>
#include <memory>
#include <vector>

namespace trellis::chain {

template <typename R>
class CompletePaths {
 public:
  // For the sequences of a batch whose transition, start or end scores have minus infinities (`chain_forbids`) or not.
  CompletePaths(const Batch<R>& batch, bool chain_forbids);
  // Whether any state can be on no complete path although its sequence has one.
  bool needed() const { return chain_forbids_ || batch_.edges; }
  // What `emission` of emission.h needs to know.
  Pruning<R> view() const;
  // Has to come before the emissions of sequence b are read if the sequence itself has scores of minus infinity.
  // Threads may do this at once for different sequences.
  void prune(int64_t b);

 private:
  using Labels = std::vector<uint64_t>;  // a set of labels, as bits

  Labels none() const { return Labels(size_t(parts_of(batch_.L, 64)), 0); }
  Labels possible(const R* scores) const;
  // The labels that one step leads to from those of a set, or from which it leads to them. `next` are those of each
  // label; edges, if given, forbid steps too: that of labels i and j is edges[i * row + j * column].
  Labels step(const Labels& from, const std::vector<Labels>& next, const R* edges, int64_t row, int64_t column) const;
  std::vector<R> masks(Labels set, const std::vector<Labels>& next) const;

  const Batch<R>& batch_;
  bool chain_forbids_;
  std::vector<Labels> successors_, predecessors_;  // [L]
  std::vector<R> from_start_, to_end_;             // [steps, L] 0, or minus infinity if no path leads there
  std::vector<std::unique_ptr<R[]>> copies_;       // [B] emissions of pruned sequences
  std::vector<const R*> rows_;                     // [B] where they are, or null
};

}  // namespace trellis::chain

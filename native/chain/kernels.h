// What the kernels of an instruction set can do, and which instruction set is in use.
#pragma once

#include "base/instruction_set.h"
#include "chain/batch.h"

namespace trellis::chain {

// The label that each state of a chain stands for, and the states of each label. Mostly states are labels.
struct StateLabels {
  const int64_t* label;    // [L] of each state
  const int64_t* ends;     // [labels] label k has the states members[ends[k - 1] .. ends[k] - 1]
  const int64_t* members;  // [L]

  int64_t begin(int64_t k) const { return k ? ends[k - 1] : 0; }
};

// One labelled span and what surrounds it; see SpanSums in inference_kernels.cpp.
struct Span {
  int64_t index;           // its place among all spans asked for
  int64_t sequence, begin, end;
  const int64_t* tags;     // [end - begin]
  const uint8_t* before;   // [labels] which are allowed just before, or null
  const uint8_t* after;    // [labels] which are allowed just after, or null
};

// The kernels of one instruction set for one number type. A group is up to `group` sequences, longest first, that go
// through time side by side: one load of the transition matrix serves them all, and their latencies overlap.
template <typename R>
struct Kernels {
  int width, group;

  uint8_t (*contents)(const R* scores, int64_t n);  // bits of Contents
  void (*prepare)(const Batch<R>&, Prepared<R>&);
  // Log partition of each sequence of the group; the tape is filled unless null.
  void (*forward)(const Batch<R>&, const Prepared<R>&, const int64_t* sequences, int count, const Tape<R>* tape,
                  double* log_partition, uint8_t* status);
  // Marginals times weight into gradient rows, expected counts into counts (both from the tape). A sequence that
  // underflows is marked in status; then the counts of the whole group are wrong.
  void (*backward)(const Batch<R>&, const Prepared<R>&, const int64_t* sequences, int count, const Tape<R>& tape,
                   const double* weights, R* gradient, const Counts& counts, uint8_t* status);

  void (*viterbi)(const Batch<R>&, const LogPrepared<R>&, const int64_t* sequences, int count, int64_t* tags,
                  uint8_t* status);

  // The same with edges: no two tokens share a matrix, so sequences go one by one; see edges_kernels.h. Viterbi is in double.
  void (*edge_forward)(const Batch<R>&, const Prepared<R>&, int64_t b, const Tape<R>* tape, double* log_partition,
                       uint8_t* status);
  void (*edge_backward)(const Batch<R>&, const Prepared<R>&, int64_t b, const Tape<R>& tape, double weight, R* gradient,
                        const Neighbours<R>* pairs, const Counts& counts, uint8_t* status);
  bool (*edge_viterbi)(const Batch<R>&, const LogPrepared<double>&, int64_t b, int64_t* tags);  // false: no path

  // Log space, one sequence at a time, always in double; see logspace_kernels.h.
  double (*log_partition)(const Batch<R>&, const LogPrepared<double>&, int64_t b);
  double (*log_marginals)(const Batch<R>&, const LogPrepared<double>&, int64_t b, double weight, R* gradient,
                          const Counts& counts, const Neighbours<R>* pairs);
  double (*entropy)(const Batch<R>&, const LogPrepared<double>&, int64_t b);
  double (*sample)(const Batch<R>&, const LogPrepared<double>&, int64_t b, int64_t n, uint64_t seed, int64_t* tags,
                   int64_t stride);
  double (*spans)(const Batch<R>&, const LogPrepared<double>&, const StateLabels&, int64_t b, const Span* spans,
                  int64_t count, double* out);
  double (*weighted_nll)(const Batch<R>&, const LogPrepared<double>&, int64_t b, const int32_t* tags,
                         const double* weights, double outer, R* gradient, const Counts* counts,
                         const Neighbours<R>* pairs);
};

// Those of the instruction set in use.
template <typename R>
const Kernels<R>& kernels() {
  return kernels_in_use<Kernels<R>>();
}

}  // namespace trellis::chain

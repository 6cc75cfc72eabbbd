// The plain data that the driver and the kernels of every instruction set share. Shapes: B sequences, N tokens in all
// (flat, ragged), segments of at most K tokens, L labels, P labels rounded up to whole vectors.
#pragma once

#include "base/instruction_set.h"
#include "chain/batch.h"

namespace trellis::segments {

using namespace chain;

// The scores of segments, each kept with the token that it ends with.
struct SegmentBatch {
  const double* segments;  // [N, K, L] that end at token n, have k + 1 tokens and label l
  const int64_t* offsets;  // [B + 1]
  int64_t B, K, L;

  int64_t length(int64_t b) const { return offsets[b + 1] - offsets[b]; }
  const double* scores(int64_t b, int64_t t, int64_t k) const { return segments + ((offsets[b] + t) * K + k) * L; }
  // The longest segment that ends at position t of a sequence.
  int64_t longest(int64_t t) const { return K < t + 1 ? K : t + 1; }
};

// The scores between segments as probabilities, and where they were flushed to zero although they are not forbidden.
struct SegmentPrepared {
  Prepared<double> chain;
  const double* flushed;  // [P] 1 for a label with such a transition into it
  bool start_flushed, end_flushed, any_flushed;
};

// A segment on a path, found from its end.
struct PathSegment {
  int64_t begin, end, label;
};

struct SegmentKernels {
  // In scaled probabilities: false if that is not exact, and nothing has been added to `counts`.
  bool (*scaled_log_partition)(const SegmentBatch&, const SegmentPrepared&, int64_t b, double* out);
  bool (*scaled_marginals)(const SegmentBatch&, const SegmentPrepared&, int64_t b, double weight, double* gradient,
                           const Counts& counts, double* out);
  double (*log_partition)(const SegmentBatch&, const LogPrepared<double>&, int64_t b);
  // Probabilities of segments times weight into gradient[N, K, L], 0 where a segment would begin before its sequence;
  // expected counts of transitions, first and last labels times weight are added to `counts`.
  double (*marginals)(const SegmentBatch&, const LogPrepared<double>&, int64_t b, double weight, double* gradient,
                      const Counts& counts);
  double (*entropy)(const SegmentBatch&, const LogPrepared<double>&, int64_t b);
  // The best segments from the last to the first; returns their score and sets how many there are.
  double (*viterbi)(const SegmentBatch&, const LogPrepared<double>&, int64_t b, PathSegment* path, int64_t* count);
  // Sample s from its last segment to its first at path[s * T], and how many there are in counts[s].
  double (*sample)(const SegmentBatch&, const LogPrepared<double>&, int64_t b, int64_t n, uint64_t seed,
                   PathSegment* path, int64_t* counts);
};

}  // namespace trellis::segments

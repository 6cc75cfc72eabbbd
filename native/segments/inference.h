// One batch of inference over segments (semi-Markov) from start to finish: prepares the scores, splits the sequences
// into tasks and runs the kernels of the best instruction set this machine has.
#pragma once

#include "base/numbers.h"
#include "base/tasks.h"
#include "chain/scores.h"
#include "chain/outcome.h"
#include "segments/batch.h"

#include <mutex>
#include <optional>
#include <vector>

namespace trellis::segments {

using namespace chain;

// The segments of some paths, one path after another, each in order.
struct SegmentPaths {
  std::vector<int64_t> counts;  // how many segments each path has
  std::vector<PathSegment> segments;
  std::vector<double> scores;   // of each path, where there are any
  std::vector<int64_t> found;   // how many paths each sequence has
};

// The memory of SegmentPrepared.
class SegmentScores {
 public:
  explicit SegmentScores(const Batch<double>& chain);
  const SegmentPrepared& view() const { return view_; }

 private:
  ScaledScores<double> scaled_;
  std::vector<double> flushed_;
  SegmentPrepared view_;
};

class SegmentInference {
 public:
  // Segments [N, K, L] that end at each token; see SegmentBatch. They and the other scores must outlive this object.
  SegmentInference(const double* segments, std::vector<int64_t> offsets, int64_t K, const double* transitions,
                   const double* start, const double* end, int64_t L);

  // log Z of each sequence.
  Outcome log_partition(double* out);
  // Score of the given paths: counts[B] segments of each sequence, one after another.
  Outcome score(const int64_t* counts, const PathSegment* path, double* out) const;
  // Probabilities of segments and expected counts, times the weight of each sequence (null: 1).
  Outcome marginals(const double* weights, double* log_partition, double* segments, double* transitions, double* start,
                    double* end);
  Outcome entropy(double* out);
  Outcome viterbi(SegmentPaths& paths);
  Outcome kbest(int64_t k, SegmentPaths& paths);
  Outcome sample(int64_t n, uint64_t seed, SegmentPaths& paths);

 private:
  bool is_valid(int64_t b) const;
  // Whether scores are so large that sums of them may leave the range of a double.
  bool may_overflow(int64_t b) const;
  double path_score(int64_t b, const PathSegment* path, int64_t count) const;
  template <typename F>
  Outcome for_sequences(F f);
  // The scores in log space, made when they are first needed, by any thread.
  const LogPrepared<double>& log_scores();

  std::vector<int64_t> offsets_;
  SegmentBatch batch_;
  Batch<double> chain_;  // transitions, start and end alone
  int64_t P_;
  const SegmentKernels& kernels_;
  std::once_flag once_;
  std::optional<LogScores> log_scores_;
  Tasks tasks_;
};

}  // namespace trellis::segments

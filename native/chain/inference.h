// One batch of chain inference from start to finish: prepares the scores, splits the sequences into tasks, runs the
// kernels of the best instruction set this machine has, and redoes in a wider range what they could not do exactly.
#pragma once

#include "base/numbers.h"
#include "base/tasks.h"
#include "chain/batch.h"
#include "chain/complete_paths.h"
#include "chain/kernels.h"
#include "chain/layout.h"
#include "chain/scores.h"
#include "chain/outcome.h"
#include "chain/spans.h"
#include "chain/sums.h"

#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <vector>

namespace trellis::chain {

// Where gradients go.
template <typename R>
struct Gradient {
  R *emissions, *transitions, *start, *end;
  int64_t rows;            // of the emissions
  R* edges = nullptr;      // null if nobody asks
  int64_t edge_count = 0;  // matrices
};

template <typename R>
class Inference {
 public:
  Inference(std::shared_ptr<const Layout> layout, const R* emissions, const R* transitions, const R* start,
            const R* end, int64_t L, const R* edges = nullptr);

  // log Z of each sequence. With keep, what `gradient` needs is kept.
  Outcome log_partition(double* out, bool keep);
  // Score of the given tags (rows as the emissions), which go to `kept` by token.
  Outcome score(const int64_t* tags, double* out, int32_t* kept = nullptr) const;
  // log Z - score, never negative: the negative log-likelihood of the tags. With keep, `gradient` and `kept_tags`
  // have their own tags: those of the caller may change before the backward pass.
  Outcome nll(const int64_t* tags, double* out, bool keep);
  // Weighted marginals and expected counts, minus the indicators of the kept tags if there are any: the gradient of
  // sum_b weights[b] (log Z_b - score_b). The rows of no token become zero, and the edges of no pair.
  void gradient(const double* weights, const Gradient<R>& to);
  // `nll` (`log_partition` if tags is null) and `gradient` in one pass: a group's forward rows are still in the cache
  // when the backward pass reads them, and none are kept.
  Outcome forward_backward(const int64_t* tags, double* out, const double* weights, const Gradient<R>& to);
  // The same with one weight for all.
  Outcome forward_backward(const int64_t* tags, double* out, double weight, const Gradient<R>& to) {
    return forward_backward(tags, out, std::vector<double>(size_t(batch_.B), weight).data(), to);
  }
  // By token; empty unless `nll` or `weighted_nll` kept them.
  const std::vector<int32_t>& kept_tags() const { return kept_tags_; }
  // Everything `log_partition` and `gradient` give, and also the pairwise marginals [pairs, L, L].
  Outcome pairwise(double* log_partition, R* emissions, R* transitions, R* start, R* end, R* pairs);
  // The best tags and their scores; the tags of rows of no token, of `rows` in all, become -1.
  Outcome viterbi(int64_t* tags, int64_t rows, double* scores);
  Outcome entropy(double* out);
  Outcome sample(int64_t n, uint64_t seed, int64_t* tags, int64_t stride);
  // labels[L]: what each state stands for, in 0 .. count - 1, or null if the states are the labels
  Outcome spans(const SortedSpans& spans, const int64_t* labels, int64_t count, double* out);
  Outcome weighted_nll(const int64_t* tags, const double* weights, double* out);
  // Of the tags that `weighted_nll` was asked for.
  Outcome weighted_nll_gradient(const double* weights, const double* outer, R* emissions, R* transitions, R* start,
                                R* end, int64_t edge_count = 0, R* edges = nullptr);
  // For each sequence the count of paths found, their scores and their tags, one path after another.
  Outcome kbest(int64_t k, std::vector<int64_t>& counts, std::vector<double>& scores, std::vector<int64_t>& tags);

  const Layout& layout() const { return *layout_; }
  int64_t labels() const { return batch_.L; }

 private:
  // What scaled floats lose is redone in scaled double first; only double goes to log space at once.
  static constexpr bool retries_in_double = std::is_same_v<R, float>;

  // What the backward pass of a group needs to know.
  struct Backward {
    const double* weights;  // [B]
    R* gradient;
    const Neighbours<R>* pairs;
  };
  // The same for both passes in one: what they find of each sequence.
  struct Both {
    const int64_t* tags;
    double* log_partition;
    std::vector<int64_t> begin;  // its rows on the tape of its group
    std::vector<double> gold;    // the score of its tags
    std::vector<uint8_t> status;  // of its tags
    Both(const int64_t* tags, double* log_partition, size_t B)
        : tags(tags), log_partition(log_partition), begin(B), gold(B, 0.0), status(B, exact) {}
  };

  const LogPrepared<double>& log_prepared();
  const Prepared<R>& prepared() const { return scaled_scores_->view(); }
  std::vector<int64_t> lost_sequences() const;
  Outcome settle(double* out);
  uint8_t path_score(int64_t b, const int64_t* tags, double& out, int32_t* kept = nullptr) const;
  int32_t* keep_tags();
  uint8_t settle_loss(double gold, uint8_t status, double& out) const;
  uint8_t sequence_contents(int64_t b) const;  // bits of Contents
  // Whether the scores of the chain are valid; every operation on the batch begins with this.
  bool check_chain();
  // Prunes sequences (see CompletePaths): no kernel may read their emissions before.
  void prune(const int64_t* sequences, int count);
  // The same for one, and whether its scores are valid.
  bool check_sequence(int64_t b);
  int threads_for(double cost_per_token) const;
  double forward_cost() const;  // nanoseconds per token
  // Whether each sequence has its spans; the others are left to log space.
  std::vector<uint8_t> scaled_spans(const SortedSpans& spans, const StateLabels& labels, double* out);
  Outcome viterbi_edges(int64_t* tags, double* scores);
  // f(task, sequences, count) for groups of sequences
  template <typename F>
  void for_groups(int threads, F f) const {
    tasks_.for_groups(kernels_.group, threads, f);
  }
  template <typename F>
  Outcome for_sequences(F f);
  void forward_group(const int64_t* sequences, int count, const Tape<R>* tape, double* out);
  void backward_group(const int64_t* sequences, int count, const Tape<R>& tape, const Backward& job, Sums& sums);
  void backward_chain(const int64_t* sequences, int count, const Tape<R>& tape, const Backward& job, Sums& sums);
  void backward_edges(const int64_t* sequences, int count, const Tape<R>& tape, const Backward& job, Sums& sums);
  void both_passes(const int64_t* sequences, int count, Both& found, const Backward& job, Sums& sums);
  void backward_lost(const Backward& job, double* out, TaskSums& sums);
  void log_marginals(int64_t b, const Backward& job, Sums& sums);
  void subtract_tags(int64_t b, const Backward& job, Sums& sums) const;
  void clear(const Gradient<R>& to) const;
  Neighbours<R> edge_pairs(R* values) const { return {values, batch_.rows, batch_.edge_shift}; }

  std::shared_ptr<const Layout> layout_;
  std::vector<int64_t> edge_shift_;
  Batch<R> batch_;
  const Kernels<R>& kernels_;
  int64_t P_;

  Tasks tasks_;
  std::vector<uint8_t> status_;
  std::optional<CompletePaths<R>> paths_;

  std::optional<ScaledScores<R>> scaled_scores_;
  std::unique_ptr<Block<R>> tape_memory_;
  Tape<R> tape_{};
  std::vector<int32_t> kept_tags_;
  std::once_flag log_once_;
  std::optional<LogScores> log_scores_;
};

}  // namespace trellis::chain

// The gradients of Inference: marginals and expected counts.
#include "chain/inference.h"

#include "base/numbers.h"
#include "chain/float_retry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trellis::chain {

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace

template <typename R>
void Inference<R>::backward_chain(const int64_t* sequences, int count, const Tape<R>& tape, const Backward& job,
                                  Sums& sums) {
  add_exact(sequences, count, status_, sums, [&](const int64_t* kept, int n, const Counts& counts) {
    kernels_.backward(batch_, prepared(), kept, n, tape, job.weights, job.gradient, counts, status_.data());
  });
}

// The same with edges, one sequence after another.
template <typename R>
void Inference<R>::backward_edges(const int64_t* sequences, int count, const Tape<R>& tape, const Backward& job,
                                  Sums& sums) {
  Sums own(batch_.L, P_);
  for (int g = 0; g < count; ++g) {
    const int64_t b = sequences[g];
    if (status_[size_t(b)] != exact) continue;
    own.clear();
    kernels_.edge_backward(batch_, prepared(), b, tape, job.weights[b], job.gradient, job.pairs, own.counts,
                           status_.data());
    if (status_[size_t(b)] == exact) sums.add(own);
  }
}

template <typename R>
void Inference<R>::backward_group(const int64_t* sequences, int count, const Tape<R>& tape, const Backward& job,
                                  Sums& sums) {
  if (batch_.edges) {
    backward_edges(sequences, count, tape, job, sums);
  } else {
    backward_chain(sequences, count, tape, job, sums);
  }
  for (int g = 0; g < count; ++g) {
    const bool lost = status_[size_t(sequences[g])] == underflow;
    if (lost && retries_in_double) continue;
    if (lost) log_marginals(sequences[g], job, sums);
    if (!kept_tags_.empty()) subtract_tags(sequences[g], job, sums);
  }
}

template <typename R>
void Inference<R>::subtract_tags(int64_t b, const Backward& job, Sums& sums) const {
  const int32_t* tags = kept_tags_.data();
  const double weight = job.weights[b];
  const int64_t first = batch_.offsets[b], last = batch_.offsets[b + 1] - 1;
  if (last < first) return;
  for (int64_t n = first; n <= last; ++n) {
    job.gradient[batch_.row(n) * batch_.L + tags[n]] -= R(weight);
    if (n == first) continue;
    sums.counts.transitions[tags[n - 1] * P_ + tags[n]] -= weight;
    if (job.pairs) job.pairs->of(b, n, batch_.L)[tags[n - 1] * batch_.L + tags[n]] -= R(weight);
  }
  sums.counts.start[tags[first]] -= weight;
  sums.counts.end[tags[last]] -= weight;
}

template <typename R>
void Inference<R>::log_marginals(int64_t b, const Backward& job, Sums& sums) {
  Sums own(batch_.L, log_prepared().P);
  kernels_.log_marginals(batch_, log_prepared(), b, job.weights[b], job.gradient, own.counts, job.pairs);
  sums.add(own);
}

// The sequences of floats that underflowed, some of them only in the backward pass: the log partition of the others,
// unknown so far, goes to `out`.
template <>
void Inference<float>::backward_lost(const Backward& job, double* out, TaskSums& sums) {
  const std::vector<int64_t> lost = lost_sequences();
  if (lost.empty()) return;
  std::vector<double> log_partition(size_t(batch_.B));
  FloatRetry retry(batch_, lost);
  retry.log_partition(log_partition.data(), true);
  bool dead = false;
  for (const int64_t b : lost) {
    if (out && std::isnan(out[b])) out[b] = log_partition[size_t(b)];
    dead |= !(log_partition[size_t(b)] > forbidden);
  }
  if (dead) return;  // an error follows, and no gradient
  Sums& mine = sums.of(tasks_.count());
  retry.gradient(job.weights, job.gradient, job.pairs, mine);
  if (kept_tags_.empty()) return;
  for (const int64_t b : lost) subtract_tags(b, job, mine);
}

// Those of doubles have gone through log space with their group.
template <>
void Inference<double>::backward_lost(const Backward&, double*, TaskSums&) {}

// The places that no token and no pair writes to.
template <typename R>
void Inference<R>::clear(const Gradient<R>& to) const {
  const int64_t L = batch_.L;
  if (to.rows != layout_->tokens()) std::fill_n(to.emissions, to.rows * L, R(0));
  if (to.edges && to.edge_count != layout_->pairs()) std::fill_n(to.edges, to.edge_count * L * L, R(0));
}

template <typename R>
void Inference<R>::gradient(const double* weights, const Gradient<R>& to) {
  clear(to);
  const Neighbours<R> pairs = edge_pairs(to.edges);
  const Backward job{weights, to.emissions, to.edges ? &pairs : nullptr};
  TaskSums sums(tasks_.count() + 1, batch_.L, P_);  // the last one of what is redone
  for_groups(threads_for(2 * forward_cost()), [&](int64_t task, const int64_t* sequences, int count) {
    backward_group(sequences, count, tape_, job, sums.of(task));
  });
  backward_lost(job, nullptr, sums);
  sums.write(to.transitions, to.start, to.end);
}

template <typename R>
void Inference<R>::both_passes(const int64_t* sequences, int count, Both& found, const Backward& job, Sums& sums) {
  int64_t rows = 0;
  for (int g = 0; g < count; ++g) {
    found.begin[size_t(sequences[g])] = rows;
    rows += batch_.length(sequences[g]);
  }
  const Block<R> memory(Tape<R>::size(rows, batch_.L, P_, batch_.edges));
  const Tape<R> tape = Tape<R>::in(memory, rows, P_, batch_.edges, found.begin.data());
  forward_group(sequences, count, &tape, found.log_partition);
  for (int g = 0; g < count; ++g) {
    const size_t b = size_t(sequences[g]);
    if (retries_in_double && status_[b] == underflow) found.log_partition[b] = unknown;
    if (found.tags) found.status[b] = path_score(sequences[g], found.tags, found.gold[b], kept_tags_.data());
  }
  backward_group(sequences, count, tape, job, sums);
}

template <typename R>
Outcome Inference<R>::forward_backward(const int64_t* tags, double* out, const double* weights,
                                       const Gradient<R>& to) {
  if (!check_chain()) return {bad_chain_score, 0};
  scaled_scores_.emplace(batch_);
  clear(to);
  kept_tags_.assign(size_t(tags ? layout_->tokens() : 0), 0);
  const Neighbours<R> pairs = edge_pairs(to.edges);
  const Backward job{weights, to.emissions, to.edges ? &pairs : nullptr};
  Both found(tags, out, size_t(batch_.B));
  TaskSums sums(tasks_.count() + 1, batch_.L, P_);  // the last one of what is redone
  for_groups(threads_for(3 * forward_cost()), [&](int64_t task, const int64_t* sequences, int count) {
    both_passes(sequences, count, found, job, sums.of(task));
  });
  backward_lost(job, out, sums);
  const Outcome outcome = settle(out);
  if (outcome.status != exact) return outcome;
  sums.write(to.transitions, to.start, to.end);
  for (size_t b = 0; tags && b < found.gold.size(); ++b)
    found.status[b] = settle_loss(found.gold[b], found.status[b], out[b]);
  return first_problem(found.status);
}

template void Inference<float>::gradient(const double*, const Gradient<float>&);
template void Inference<double>::gradient(const double*, const Gradient<double>&);
template Outcome Inference<float>::forward_backward(const int64_t*, double*, const double*, const Gradient<float>&);
template Outcome Inference<double>::forward_backward(const int64_t*, double*, const double*, const Gradient<double>&);

}  // namespace trellis::chain

#include "chain/inference.h"

#include "base/numbers.h"
#include "chain/kbest.h"
#include "chain/float_retry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trellis::chain {
namespace {

constexpr double score_cost = 3.0;  // nanoseconds per token
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

// A sequence as a graph for KBestSearch: node t * L + j is label j at position t, and the last one is the end.
template <typename R>
class ChainGraph {
 public:
  ChainGraph(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b)
      : batch_(batch), prepared_(prepared), b_(b), T_(batch.length(b)), emissions_(size_t(T_ * batch.L)) {
    for (int64_t t = 0; t < T_; ++t)
      driver::copy_emission(batch, b, batch.offsets[b] + t, emissions_.data() + t * batch.L);
  }

  struct Node {
    const ChainGraph& graph;
    int64_t t, j;

    int64_t choices() const { return t ? graph.batch_.L : 0; }
    int64_t before(int64_t i) const { return (t - 1) * graph.batch_.L + i; }
    double step(int64_t i) const {
      const Batch<R>& batch = graph.batch_;
      const LogPrepared<double>& prepared = graph.prepared_;
      if (t == graph.T_) return prepared.end[i];
      if (t == 0) return prepared.start[j];
      const double shared = prepared.forward[i * prepared.P + j];
      return batch.edges ? shared + double(batch.edge(graph.b_, batch.offsets[graph.b_] + t)[i * batch.L + j]) : shared;
    }
    double stay() const { return t == graph.T_ ? 0.0 : double(graph.emissions_[size_t(t * graph.batch_.L + j)]); }
  };
  int64_t nodes() const { return T_ * batch_.L + 1; }
  Node at(int64_t n) const { return {*this, n / batch_.L, n % batch_.L}; }

 private:
  const Batch<R>& batch_;
  const LogPrepared<double>& prepared_;
  int64_t b_, T_;
  std::vector<R> emissions_;  // [T, L]
};

// The best paths of a sequence.
struct Paths {
  std::vector<double> scores;  // descending; fewer than k if fewer paths exist
  std::vector<int32_t> tags;   // one path after another
};

}  // namespace

template <typename R>
Inference<R>::Inference(std::shared_ptr<const Layout> layout, const R* emissions, const R* transitions,
                        const R* start, const R* end, int64_t L, const R* edges)
    : layout_(std::move(layout)),
      edge_shift_(edges ? layout_->edge_shift() : std::vector<int64_t>()),
      batch_{emissions,  layout_->rows.empty() ? nullptr : layout_->rows.data(), layout_->offsets.data(),
             transitions, start, end, layout_->sequences(), L, edges, edge_shift_.data()},
      kernels_(kernels<R>()),
      P_(round_up(L, kernels_.width)),
      tasks_(plan_tasks(batch_.offsets, batch_.B, kernels_.group, Sums::bytes(L, P_))),
      status_(size_t(batch_.B), exact) {}

// A thread costs some microseconds to wake: one is enough for small batches.
template <typename R>
int Inference<R>::threads_for(double nanoseconds_per_token) const {
  constexpr double worth_a_thread = 40e3;
  const double cost = double(layout_->tokens()) * nanoseconds_per_token;
  return cost < worth_a_thread ? 1 : num_threads();
}

template <typename R>
double Inference<R>::forward_cost() const {
  const double cells = double(batch_.L * P_);
  return batch_.edges ? 50 + 0.5 * cells : 15 + 0.03 * cells;
}

template <typename R>
const LogPrepared<double>& Inference<R>::log_prepared() {
  std::call_once(log_once_, [this] { log_scores_.emplace(batch_); });
  return log_scores_->view();
}

template <typename R>
uint8_t Inference<R>::sequence_contents(int64_t b) const {
  const int64_t L = batch_.L, first = batch_.offsets[b], T = batch_.length(b);
  if (T == 0) return only_finite;
  uint8_t found = only_finite;
  if (batch_.row(first + T - 1) - batch_.row(first) == T - 1) {  // one block
    found = kernels_.contents(batch_.emissions + batch_.row(first) * L, T * L);
  } else {
    for (int64_t n = first; n < first + T; ++n) found |= kernels_.contents(batch_.emissions + batch_.row(n) * L, L);
  }
  for (int64_t n = first + 1; n < first + T && batch_.edges; ++n)
    found |= kernels_.contents(batch_.edge(b, n), L * L);
  return found;
}

template <typename R>
bool Inference<R>::check_chain() {
  const uint8_t found = chain_contents(batch_);
  if (found & some_invalid) return false;
  paths_.emplace(batch_, found & some_forbidden);
  batch_.pruning = paths_->view();
  return true;
}

template <typename R>
void Inference<R>::prune(const int64_t* sequences, int count) {
  for (int g = 0; g < count && paths_->needed(); ++g)
    if (sequence_contents(sequences[g]) == some_forbidden) paths_->prune(sequences[g]);
}

template <typename R>
bool Inference<R>::check_sequence(int64_t b) {
  const uint8_t found = sequence_contents(b);
  if (found & some_invalid) return false;
  if (found & some_forbidden) paths_->prune(b);
  return true;
}

template <typename R>
Outcome Inference<R>::log_partition(double* out, bool keep) {
  kept_tags_.clear();
  if (!check_chain()) return {bad_chain_score, 0};
  scaled_scores_.emplace(batch_);
  if (keep) {
    const int64_t N = layout_->tokens();
    tape_memory_ = std::make_unique<Block<R>>(Tape<R>::size(N, batch_.L, P_, batch_.edges));
    tape_ = Tape<R>::in(*tape_memory_, N, P_, batch_.edges, batch_.offsets);
  }
  for_groups(threads_for(forward_cost()), [&](int64_t, const int64_t* sequences, int count) {
    forward_group(sequences, count, keep ? &tape_ : nullptr, out);
  });
  if constexpr (retries_in_double) {
    const std::vector<int64_t> lost = lost_sequences();
    if (!lost.empty()) FloatRetry(batch_, lost).log_partition(out, false);
  }
  return settle(out);
}

// log Z of each sequence is known: what is wrong with it.
template <typename R>
Outcome Inference<R>::settle(double* out) {
  for (int64_t b = 0; b < batch_.B; ++b) {
    if (batch_.length(b) == 0) out[b] = 0.0;
    if (status_[size_t(b)] == underflow && out[b] == forbidden) status_[size_t(b)] = no_path;
    check_range(out[b], status_[size_t(b)]);
  }
  return first_problem(status_);
}

template <typename R>
std::vector<int64_t> Inference<R>::lost_sequences() const {
  std::vector<int64_t> found;
  for (int64_t b = 0; b < batch_.B; ++b)
    if (status_[size_t(b)] == underflow) found.push_back(b);
  return found;
}

// log Z of the group. What scaled doubles lose is redone in log space here, what floats lose is left to FloatRetry.
template <typename R>
void Inference<R>::forward_group(const int64_t* sequences, int count, const Tape<R>* tape, double* out) {
  prune(sequences, count);
  if (!batch_.edges) kernels_.forward(batch_, prepared(), sequences, count, tape, out, status_.data());
  for (int g = 0; g < count && batch_.edges; ++g)
    kernels_.edge_forward(batch_, prepared(), sequences[g], tape, out, status_.data());
  for (int g = 0; g < count && !retries_in_double; ++g)
    if (status_[size_t(sequences[g])] == underflow)
      out[sequences[g]] = kernels_.log_partition(batch_, log_prepared(), sequences[g]);
}

// start + sum of emissions and transitions + end of one sequence, in double; the tags go to `kept`, by token
template <typename R>
uint8_t Inference<R>::path_score(int64_t b, const int64_t* tags, double& out, int32_t* kept) const {
  const int64_t L = batch_.L, first = batch_.offsets[b];
  double sum = 0.0;
  int64_t previous = 0;
  for (int64_t n = first; n < batch_.offsets[b + 1]; ++n) {
    const int64_t tag = tags[batch_.row(n)];
    if (tag < 0 || tag >= L) return tag_out_of_range;
    sum += double(batch_.emissions[batch_.row(n) * L + tag]) +
           double(n == first ? batch_.start[tag] : batch_.transitions[previous * L + tag]);
    if (batch_.edges && n > first) sum += double(batch_.edge(b, n)[previous * L + tag]);
    if (kept) kept[n] = int32_t(tag);
    previous = tag;
  }
  out = batch_.length(b) ? sum + double(batch_.end[previous]) : 0.0;
  return out < -forbidden ? uint8_t(exact) : uint8_t(sum_too_large);
}

template <typename R>
Outcome Inference<R>::score(const int64_t* tags, double* out, int32_t* kept) const {
  if (chain_contents(batch_) & some_invalid) return {bad_chain_score, 0};
  for (int64_t b = 0; b < batch_.B; ++b) {
    if (sequence_contents(b) & some_invalid) return {not_finite, b};
    const uint8_t status = path_score(b, tags, out[b], kept);
    if (status != exact) return {status, b};
  }
  return {};
}

template <typename R>
int32_t* Inference<R>::keep_tags() {
  kept_tags_.resize(size_t(layout_->tokens()));
  return kept_tags_.data();
}

template <typename R>
Outcome Inference<R>::nll(const int64_t* tags, double* out, bool keep) {
  const Outcome outcome = log_partition(out, keep);
  if (outcome.status != exact) return outcome;
  int32_t* kept = keep ? keep_tags() : nullptr;
  std::vector<uint8_t> status(size_t(batch_.B), exact);
  for_groups(threads_for(score_cost), [&](int64_t, const int64_t* sequences, int count) {
    for (int g = 0; g < count; ++g) {
      const int64_t b = sequences[g];
      double gold;
      const uint8_t found = path_score(b, tags, gold, kept);
      status[size_t(b)] = settle_loss(gold, found, out[b]);
    }
  });
  return first_problem(status);
}

// From log Z to the loss; what is wrong with it.
template <typename R>
uint8_t Inference<R>::settle_loss(double gold, uint8_t status, double& out) const {
  if (status == exact && gold == forbidden) status = forbidden_path;
  out = std::max(out - gold, 0.0);
  check_range(out, status);
  return status;
}

template <typename R>
template <typename F>
Outcome Inference<R>::for_sequences(F f) {
  if (!check_chain()) return {bad_chain_score, 0};
  log_prepared();
  return for_valid_sequences(tasks_, threads_for(100), status_, [&](int64_t b) { return check_sequence(b); }, f);
}

template <typename R>
Outcome Inference<R>::pairwise(double* log_partition, R* emissions, R* transitions, R* start, R* end, R* pairs) {
  std::fill_n(log_partition, batch_.B, 0.0);
  const std::vector<int64_t> shift = layout_->pair_shift();
  const Neighbours<R> in_order{pairs, nullptr, shift.data()};
  TaskSums sums(tasks_.count(), batch_.L, log_prepared().P);
  const Outcome outcome = for_sequences([&](int64_t task, int64_t b) {
    const Counts& counts = sums.of(task).counts;
    return log_partition[b] = kernels_.log_marginals(batch_, log_prepared(), b, 1.0, emissions, counts, &in_order);
  });
  sums.write(transitions, start, end);
  return outcome;
}

template <typename R>
Outcome Inference<R>::viterbi_edges(int64_t* tags, double* scores) {
  return for_sequences([&](int64_t, int64_t b) {
    const bool found = kernels_.edge_viterbi(batch_, log_prepared(), b, tags);
    path_score(b, tags, scores[b]);
    return found ? 0.0 : forbidden;
  });
}

template <typename R>
Outcome Inference<R>::viterbi(int64_t* tags, int64_t rows, double* scores) {
  if (!check_chain()) return {bad_chain_score, 0};
  if (rows != layout_->tokens()) std::fill_n(tags, rows, int64_t(-1));
  std::fill_n(scores, batch_.B, 0.0);
  if (batch_.edges) return viterbi_edges(tags, scores);
  const PaddedScores<R> padded(batch_, P_);
  std::vector<uint8_t> status(size_t(batch_.B), exact);
  for_groups(threads_for(10 + 0.04 * double(batch_.L * P_)), [&](int64_t, const int64_t* sequences, int count) {
    prune(sequences, count);
    kernels_.viterbi(batch_, padded.view(), sequences, count, tags, status.data());
    for (int g = 0; g < count; ++g) {
      const int64_t b = sequences[g];
      path_score(b, tags, scores[b]);
      check_range(scores[b], status[size_t(b)]);
    }
  });
  return first_problem(status);
}

template <typename R>
Outcome Inference<R>::entropy(double* out) {
  std::fill(out, out + batch_.B, 0.0);
  return for_sequences([&](int64_t, int64_t b) { return out[b] = kernels_.entropy(batch_, log_prepared(), b); });
}

template <typename R>
Outcome Inference<R>::sample(int64_t n, uint64_t seed, int64_t* tags, int64_t stride) {
  return for_sequences(
      [&](int64_t, int64_t b) { return kernels_.sample(batch_, log_prepared(), b, n, seed, tags, stride); });
}

// Scaled arithmetic goes over all transitions: log space is as fast if most of them are forbidden.
template <typename R>
std::vector<uint8_t> Inference<R>::scaled_spans(const SortedSpans& spans, const StateLabels& labels, double* out) {
  std::vector<uint8_t> done(size_t(batch_.B), 0);
  if (batch_.edges || log_prepared().forward_factors.ends) return done;
  const ScaledSpans<R> scaled(batch_, labels);
  run_tasks(tasks_.count(), threads_for(4 * forward_cost()), [&](int64_t task) {
    std::vector<int64_t> asked;
    for (int64_t i = tasks_.begin[size_t(task)]; i < tasks_.begin[size_t(task) + 1]; ++i)
      if (spans.count(tasks_.order[size_t(i)]) && check_sequence(tasks_.order[size_t(i)]))
        asked.push_back(tasks_.order[size_t(i)]);
    for (size_t i = 0; i < asked.size(); i += size_t(scaled.group()))
      scaled.run(&asked[i], int(std::min(asked.size() - i, size_t(scaled.group()))), spans, out, done.data());
  });
  return done;
}

template <typename R>
Outcome Inference<R>::spans(const SortedSpans& spans, const int64_t* labels, int64_t count, double* out) {
  if (!check_chain()) return {bad_chain_score, 0};
  const LabelStates states(labels, count, batch_.L);
  const std::vector<uint8_t> done = scaled_spans(spans, states.view(), out);
  return for_sequences([&](int64_t, int64_t b) {
    if (done[size_t(b)] || spans.count(b) == 0) return 0.0;
    return kernels_.spans(batch_, log_prepared(), states.view(), b, spans.of(b), spans.count(b), out);
  });
}

template <typename R>
Outcome Inference<R>::weighted_nll(const int64_t* tags, const double* weights, double* out) {
  const Outcome scored = score(tags, out, keep_tags());
  if (scored.status != exact) return scored;
  for (int64_t b = 0; b < batch_.B; ++b)
    if (out[b] == forbidden) return {forbidden_path, b};
  std::fill(out, out + batch_.B, 0.0);
  return for_sequences([&](int64_t, int64_t b) {
    const int32_t* own = kept_tags_.data();
    return out[b] = kernels_.weighted_nll(batch_, log_prepared(), b, own, weights, 1.0, nullptr, nullptr, nullptr);
  });
}

template <typename R>
Outcome Inference<R>::weighted_nll_gradient(const double* weights, const double* outer, R* emissions, R* transitions,
                                            R* start, R* end, int64_t edge_count, R* edges) {
  if (edges) std::fill_n(edges, edge_count * batch_.L * batch_.L, R(0));
  const Neighbours<R> by_edge = edge_pairs(edges), *pairs = edges ? &by_edge : nullptr;
  TaskSums sums(tasks_.count(), batch_.L, log_prepared().P);
  const Outcome outcome = for_sequences([&](int64_t task, int64_t b) {
    const Counts& counts = sums.of(task).counts;
    const int32_t* tags = kept_tags_.data();
    return kernels_.weighted_nll(batch_, log_prepared(), b, tags, weights, outer[b], emissions, &counts, pairs);
  });
  sums.write(transitions, start, end);
  return outcome;
}

template <typename R>
Outcome Inference<R>::kbest(int64_t k, std::vector<int64_t>& counts, std::vector<double>& scores,
                            std::vector<int64_t>& tags) {
  std::vector<Paths> found(size_t(batch_.B));
  const Outcome outcome = for_sequences([&](int64_t, int64_t b) {
    Paths& own = found[size_t(b)];
    const ChainGraph<R> graph(batch_, log_prepared(), b);
    KBestSearch search(graph);
    const int64_t T = batch_.length(b), L = batch_.L;
    for (int64_t rank = 0; rank < k && search.next(); ++rank) {
      own.scores.push_back(search.score(rank));
      own.tags.resize(own.tags.size() + size_t(T));
      int32_t* tag = own.tags.data() + own.tags.size();
      search.trace(rank, [&](int64_t node) { *--tag = int32_t(node % L); });
    }
    return own.scores.empty() ? forbidden : 0.0;
  });
  size_t paths = 0, total = 0;
  for (int64_t b = 0; b < batch_.B; ++b) {
    if (batch_.length(b) == 0) found[size_t(b)].scores = {0.0};
    paths += found[size_t(b)].scores.size();
    total += found[size_t(b)].tags.size();
  }
  scores.reserve(paths);
  tags.reserve(total);
  for (Paths& one : found) {
    counts.push_back(int64_t(one.scores.size()));
    scores.insert(scores.end(), one.scores.begin(), one.scores.end());
    tags.insert(tags.end(), one.tags.begin(), one.tags.end());
    one = {};
  }
  return outcome;
}

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

template class Inference<float>;
template class Inference<double>;

}  // namespace trellis::chain

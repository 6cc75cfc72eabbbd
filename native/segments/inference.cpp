#include "segments/inference.h"

#include "base/numbers.h"
#include "chain/kbest.h"
#include "chain/kernels.h"
#include "chain/sums.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace trellis::segments {

using namespace chain;

namespace {

// Adds the paths of all sequences to one list, in order.
void join(const std::vector<SegmentPaths>& by_sequence, SegmentPaths& all) {
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (const SegmentPaths& own : by_sequence) {
    append(all.counts, own.counts);
    append(all.segments, own.segments);
    append(all.scores, own.scores);
    all.found.push_back(int64_t(own.counts.size()));
  }
}

// A path that was found from its end.
void add_reversed(SegmentPaths& paths, const PathSegment* segments, int64_t count) {
  paths.counts.push_back(count);
  paths.segments.insert(paths.segments.end(), std::make_reverse_iterator(segments + count),
                        std::make_reverse_iterator(segments));
}

// A sequence as a graph for KBestSearch: at each position t there are L nodes for segments that begin there, then L for
// those that end there; the last node is the end.
class SegmentGraph {
 public:
  SegmentGraph(const SegmentBatch& batch, const LogPrepared<double>& prepared, int64_t b)
      : batch_(batch), prepared_(prepared), b_(b), T_(batch.length(b)) {}

  struct Node {
    const SegmentGraph& graph;
    int64_t t, l;
    bool ends;

    int64_t choices() const { return ends ? graph.batch_.longest(t) : t ? graph.batch_.L : 0; }
    int64_t before(int64_t c) const { return ends ? graph.number(t - c, l, false) : graph.number(t - 1, c, true); }
    double step(int64_t c) const {
      const LogPrepared<double>& prepared = graph.prepared_;
      if (ends) return graph.batch_.scores(graph.b_, t, c)[l];
      if (t == graph.T_) return prepared.end[c];
      return t ? prepared.forward[c * prepared.P + l] : prepared.start[l];
    }
    double stay() const { return 0.0; }
  };
  int64_t nodes() const { return T_ * 2 * batch_.L + 1; }
  Node at(int64_t n) const {
    const int64_t L = batch_.L;
    return {*this, n / (2 * L), n % L, n / L % 2 == 1};
  }

 private:
  int64_t number(int64_t t, int64_t l, bool ends) const { return (2 * t + ends) * batch_.L + l; }

  const SegmentBatch& batch_;
  const LogPrepared<double>& prepared_;
  int64_t b_, T_;
};

// The one path of a sequence without tokens.
std::vector<SegmentPaths> empty_paths(const SegmentBatch& batch, int64_t each) {
  std::vector<SegmentPaths> paths(static_cast<size_t>(batch.B));
  for (int64_t b = 0; b < batch.B; ++b)
    if (batch.length(b) == 0) paths[size_t(b)] = {std::vector<int64_t>(size_t(each), 0), {}, {0.0}, {}};
  return paths;
}

}  // namespace

SegmentScores::SegmentScores(const Batch<double>& chain) : scaled_(chain), flushed_(size_t(scaled_.view().P), 0.0) {
  const Prepared<double>& scaled = scaled_.view();
  const auto lost = [](double score, double probability) { return score > forbidden && probability == 0.0; };
  view_ = {scaled, flushed_.data(), false, false, false};
  for (int64_t j = 0; j < chain.L; ++j) {
    for (int64_t i = 0; i < chain.L; ++i)
      if (lost(chain.transitions[i * chain.L + j], scaled.forward[i * scaled.P + j])) flushed_[size_t(j)] = 1.0;
    view_.any_flushed |= flushed_[size_t(j)] > 0.0;
    view_.start_flushed |= lost(chain.start[j], scaled.start[j]);
    view_.end_flushed |= lost(chain.end[j], scaled.end[j]);
  }
  view_.any_flushed |= view_.start_flushed || view_.end_flushed;
}

SegmentInference::SegmentInference(const double* segments, std::vector<int64_t> offsets, int64_t K,
                                   const double* transitions, const double* start, const double* end, int64_t L)
    : offsets_(std::move(offsets)),
      batch_{segments, offsets_.data(), int64_t(offsets_.size()) - 1, K, L},
      chain_{nullptr, nullptr, nullptr, transitions, start, end, 0, L},
      P_(round_up(L, kernels<double>().width)),
      kernels_(kernels_in_use<SegmentKernels>()),
      tasks_(plan_tasks(batch_.offsets, batch_.B, 1, Sums::bytes(L, P_))) {}

const LogPrepared<double>& SegmentInference::log_scores() {
  std::call_once(once_, [&] { log_scores_.emplace(chain_); });
  return log_scores_->view();
}

bool SegmentInference::is_valid(int64_t b) const {
  const auto contents = chain::kernels<double>().contents;
  for (int64_t t = 0; t < batch_.length(b); ++t)
    if (contents(batch_.scores(b, t, 0), batch_.longest(t) * batch_.L) & some_invalid) return false;
  return true;
}

bool SegmentInference::may_overflow(int64_t b) const {
  double largest = 0.0;
  const auto see = [&](const double* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      if (x[i] > forbidden) largest = std::max(largest, std::abs(x[i]));
  };
  see(chain_.transitions, batch_.L * batch_.L), see(chain_.start, batch_.L), see(chain_.end, batch_.L);
  for (int64_t t = 0; t < batch_.length(b); ++t) see(batch_.scores(b, t, 0), batch_.longest(t) * batch_.L);
  return largest > std::numeric_limits<double>::max() / double(2 * batch_.length(b) + 2);
}

template <typename F>
Outcome SegmentInference::for_sequences(F f) {
  if (chain_contents(chain_) & some_invalid) return {bad_chain_score, 0};
  std::vector<uint8_t> status(size_t(batch_.B), exact);
  const auto valid = [&](int64_t b) { return is_valid(b); };
  return for_valid_sequences(tasks_, num_threads(), status, valid, [&](int64_t task, int64_t b) {
    const double result = f(task, b);
    return result == forbidden && may_overflow(b) ? -forbidden : result;
  });
}

Outcome SegmentInference::log_partition(double* out) {
  std::fill(out, out + batch_.B, 0.0);
  const SegmentScores scaled(chain_);
  return for_sequences([&](int64_t, int64_t b) {
    if (!kernels_.scaled_log_partition(batch_, scaled.view(), b, out + b))
      out[b] = kernels_.log_partition(batch_, log_scores(), b);
    return out[b];
  });
}

Outcome SegmentInference::marginals(const double* weights, double* log_partition, double* segments,
                                    double* transitions, double* start, double* end) {
  std::fill(log_partition, log_partition + batch_.B, 0.0);
  const SegmentScores scaled(chain_);
  TaskSums sums(tasks_.count(), batch_.L, P_);
  const Outcome outcome = for_sequences([&](int64_t task, int64_t b) {
    const double weight = weights ? weights[b] : 1.0;
    const Counts& counts = sums.of(task).counts;
    if (!kernels_.scaled_marginals(batch_, scaled.view(), b, weight, segments, counts, log_partition + b))
      log_partition[b] = kernels_.marginals(batch_, log_scores(), b, weight, segments, counts);
    return log_partition[b];
  });
  sums.write(transitions, start, end);
  return outcome;
}

Outcome SegmentInference::entropy(double* out) {
  std::fill(out, out + batch_.B, 0.0);
  return for_sequences([&](int64_t, int64_t b) { return out[b] = kernels_.entropy(batch_, log_scores(), b); });
}

// start + sum of segments and transitions + end; the segments must follow each other from the first token to the last
double SegmentInference::path_score(int64_t b, const PathSegment* path, int64_t count) const {
  const int64_t L = batch_.L;
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const PathSegment& own = path[i];
    sum += batch_.scores(b, own.end - 1, own.end - own.begin - 1)[own.label] +
           (i ? chain_.transitions[path[i - 1].label * L + own.label] : chain_.start[own.label]);
  }
  return count ? sum + chain_.end[path[count - 1].label] : sum;
}

Outcome SegmentInference::score(const int64_t* counts, const PathSegment* path, double* out) const {
  if (chain_contents(chain_) & some_invalid) return {bad_chain_score, 0};
  std::vector<uint8_t> status(size_t(batch_.B), exact);
  for (int64_t b = 0; b < batch_.B; path += counts[b], ++b) {
    if (!is_valid(b)) status[size_t(b)] = not_finite;
    out[b] = path_score(b, path, counts[b]);
  }
  return first_problem(status);
}

Outcome SegmentInference::viterbi(SegmentPaths& paths) {
  std::vector<SegmentPaths> found = empty_paths(batch_, 1);
  const Outcome outcome = for_sequences([&](int64_t, int64_t b) {
    std::vector<PathSegment> path(static_cast<size_t>(batch_.length(b)));
    int64_t count = 0;
    const double score = kernels_.viterbi(batch_, log_scores(), b, path.data(), &count);
    add_reversed(found[size_t(b)], path.data(), count);
    found[size_t(b)].scores.push_back(score);
    return score;
  });
  join(found, paths);
  return outcome;
}

Outcome SegmentInference::kbest(int64_t k, SegmentPaths& paths) {
  std::vector<SegmentPaths> found = empty_paths(batch_, 1);
  const Outcome outcome = for_sequences([&](int64_t, int64_t b) {
    SegmentPaths& own = found[size_t(b)];
    const SegmentGraph graph(batch_, log_scores(), b);
    KBestSearch search(graph);
    std::vector<PathSegment> path;
    for (int64_t rank = 0; rank < k && search.next(); ++rank) {
      path.clear();
      search.trace(rank, [&](int64_t n) {
        const SegmentGraph::Node node = graph.at(n);
        node.ends ? path.push_back({0, node.t + 1, node.l}) : void(path.back().begin = node.t);
      });
      add_reversed(own, path.data(), int64_t(path.size()));
      own.scores.push_back(search.score(rank));
    }
    return own.scores.empty() ? forbidden : own.scores[0];
  });
  join(found, paths);
  return outcome;
}

Outcome SegmentInference::sample(int64_t n, uint64_t seed, SegmentPaths& paths) {
  std::vector<SegmentPaths> found = empty_paths(batch_, n);
  const Outcome outcome = for_sequences([&](int64_t, int64_t b) {
    const int64_t T = batch_.length(b);
    std::vector<PathSegment> path(size_t(n * T));
    std::vector<int64_t> counts(static_cast<size_t>(n));
    const double total = kernels_.sample(batch_, log_scores(), b, n, seed, path.data(), counts.data());
    for (int64_t s = 0; s < n; ++s) add_reversed(found[size_t(b)], path.data() + s * T, counts[size_t(s)]);
    return total;
  });
  join(found, paths);
  return outcome;
}

}  // namespace trellis::segments

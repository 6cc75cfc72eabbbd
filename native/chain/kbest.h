// The k best label sequences of one sequence, one after another (Huang and Chiang 2005, algorithm 3). Viterbi gives the
// best way to every label at every position; a second or later way to one is made only when a path asks for it, by
// taking the next of the sorted ways to its predecessors. So memory goes with T L and with the paths that are found.
#pragma once

#include "base/numbers.h"
#include "base/threads.h"
#include "chain/complete_paths.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trellis::chain {

struct KBest {
  std::vector<double> scores;  // descending; fewer than k if fewer paths exist
  std::vector<int32_t> tags;   // the paths, one after another
};

// A way to reach a label: by the rank-th best way to its predecessor `label`. The score is that of the way up to the
// step, without the emission of the label that is reached.
struct Candidate {
  double score;
  int32_t label, rank;
};

// Greater score first; among equals the smaller label, then the better rank.
inline bool worse(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score < b.score;
  return a.label != b.label ? a.label > b.label : a.rank > b.rank;
}

template <typename R>
class KBestSearch {
 public:
  KBestSearch(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b)
      : batch_(batch), prepared_(prepared), b_(b), first_(batch.offsets[b]), T_(batch.length(b)), L_(batch.L) {
    emissions_.resize(size_t(T_ * L_));
    for (int64_t t = 0; t < T_; ++t) driver::copy_emission(batch, b, first_ + t, emissions_.data() + t * L_);
    // best[t, j] = e[t, j] + max_i (best[t-1, i] + A[i, j])
    best_.reserve(size_t(T_ * L_));
    back_.reserve(size_t(T_ * L_ + 1));
    for (int64_t t = 0; t <= T_; ++t) {
      if (t % 64 == 0) stop_if_asked();
      for (int64_t j = 0; j < (t == T_ ? 1 : L_); ++j) {
        const Candidate best = best_way(t, j);
        back_.push_back(best.label);
        if (t < T_) best_.push_back(best.score + emission(t, j));
      }
    }
    opened_.assign(back_.size(), -1);
  }

  KBest find(size_t k) {
    KBest result;
    if (first_way(T_, 0).score == forbidden) return result;
    for (size_t n = 0; n < k && (n == 0 || extend(T_, 0)); ++n) {
      if (n % 64 == 0) stop_if_asked();
      result.scores.push_back(way(T_, 0, int64_t(n)).score);
      trace(int64_t(n), result.tags);
    }
    return result;
  }

 private:

  // The ways to a label at a position that are known so far, and the next ones to choose from: one for each
  // predecessor but that of the last way found, whose successor may not be known yet.
  struct Node {
    std::vector<Candidate> found, heap;
    bool exhausted = false;
  };

  // Position T is one past the last, with a single label: the end.
  double step(int64_t t, int64_t i, int64_t j) const {
    if (t == T_) return prepared_.end[i];
    const double shared = prepared_.forward[i * prepared_.P + j];
    return batch_.edges ? shared + double(batch_.edge(b_, first_ + t)[i * L_ + j]) : shared;
  }
  double emission(int64_t t, int64_t j) const { return t == T_ ? 0.0 : double(emissions_[size_t(t * L_ + j)]); }

  Candidate head(int64_t t, int64_t i, int64_t j) const {
    return {best_[size_t((t - 1) * L_ + i)] + step(t, i, j), int32_t(i), 0};
  }

  Candidate first_way(int64_t t, int64_t j) const { return head(t, back_[size_t(t * L_ + j)], j); }

  // The first way to label j at t: that of the greatest score, among equals by the smallest label.
  Candidate best_way(int64_t t, int64_t j) const {
    if (t == 0) return {prepared_.start[j], 0, 0};
    Candidate best = head(t, 0, j);
    for (int64_t i = 1; i < L_; ++i) {
      const Candidate other = head(t, i, j);
      if (worse(best, other)) best = other;
    }
    return best;
  }

  int32_t& opened(int64_t t, int64_t j) { return opened_[size_t(t * L_ + j)]; }

  // The rank-th way to label j at t, which must be known.
  Candidate way(int64_t t, int64_t j, int64_t rank) {
    const int32_t node = opened(t, j);
    return node < 0 ? first_way(t, j) : nodes_[size_t(node)].found[size_t(rank)];
  }

  int64_t known(int64_t t, int64_t j) {
    const int32_t node = opened(t, j);
    return node < 0 ? 1 : int64_t(nodes_[size_t(node)].found.size());
  }

  // Whether more than the known ways to label j at t may be found.
  bool may_grow(int64_t t, int64_t j) {
    const int32_t node = opened(t, j);
    return t > 0 && (node < 0 || !nodes_[size_t(node)].exhausted);
  }

  Node& open(int64_t t, int64_t j) {
    int32_t& number = opened(t, j);
    if (number < 0) {
      number = int32_t(nodes_.size());
      Node node;
      node.found.push_back(first_way(t, j));
      for (int64_t i = 0; i < L_; ++i) {
        const Candidate other = head(t, i, j);
        if (i != node.found[0].label && other.score > forbidden) node.heap.push_back(other);
      }
      std::make_heap(node.heap.begin(), node.heap.end(), worse);
      nodes_.push_back(std::move(node));
    }
    return nodes_[size_t(number)];
  }

  // Finds one more way to label j at t; false if there is none. Before the next way can be taken from the heap, the
  // successor of the last one must be in it, which may have to be found first, and so on down to the start.
  bool extend(int64_t t, int64_t j) {
    waiting_.clear();
    for (;;) {
      const Candidate last = open(t, j).found.back();
      waiting_.emplace_back(t, j);
      --t, j = last.label;
      if (known(t, j) > last.rank + 1 || !may_grow(t, j)) break;
    }
    for (; !waiting_.empty(); waiting_.pop_back()) take_next(waiting_.back().first, waiting_.back().second);
    return !nodes_[size_t(opened(T_, 0))].exhausted;
  }

  void take_next(int64_t t, int64_t j) {
    Node& node = open(t, j);
    const Candidate last = node.found.back();
    const int64_t i = last.label, rank = last.rank + 1;
    if (rank < known(t - 1, i)) {
      const double score = way(t - 1, i, rank).score + emission(t - 1, i) + step(t, i, j);
      node.heap.push_back({score, int32_t(i), int32_t(rank)});
      std::push_heap(node.heap.begin(), node.heap.end(), worse);
    }
    node.exhausted = node.heap.empty();
    if (node.exhausted) return;
    std::pop_heap(node.heap.begin(), node.heap.end(), worse);
    node.found.push_back(node.heap.back());
    node.heap.pop_back();
  }

  // Appends the labels of the rank-th best path.
  void trace(int64_t rank, std::vector<int32_t>& tags) {
    const size_t begin = tags.size();
    tags.resize(begin + size_t(T_));
    int64_t label = 0;
    for (int64_t t = T_; t > 0; --t) {
      const Candidate at = way(t, label, rank);
      tags[begin + size_t(t - 1)] = at.label;
      label = at.label, rank = at.rank;
    }
  }

  const Batch<R>& batch_;
  const LogPrepared<double>& prepared_;
  int64_t b_, first_, T_, L_;
  std::vector<R> emissions_;      // [T, L]
  std::vector<double> best_;      // [T, L] score of the best way to each label, with its emission
  std::vector<int32_t> back_;     // [T L + 1] the predecessor on that way
  std::vector<int32_t> opened_;   // [T L + 1] the node of each label, or -1 if only the best way is known
  std::vector<Node> nodes_;
  std::vector<std::pair<int64_t, int64_t>> waiting_;
};

}  // namespace trellis::chain

// The k best paths to the last node of a graph, one after another (Huang and Chiang 2005, algorithm 3). The best way to
// every node is found first; a second or later one is made only when a path asks for it, by taking the next of the
// sorted ways to the nodes before. So memory goes with the graph and with the paths that are found.
#pragma once

#include "base/numbers.h"
#include "base/threads.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trellis::chain {

// A graph has `nodes()`, each behind those that lead to it, and node `at(n)` says
//   choices()    how many nodes lead to it; 0 if paths begin there
//   before(c)    which node the c-th of them is
//   step(c)      the score of the step from there, or, if paths begin there, of beginning
//   stay()       what is added to the score of every way to it
template <typename Graph>
class KBestSearch {
 public:
  explicit KBestSearch(const Graph& graph) : graph_(graph), last_(graph.nodes() - 1), opened_(size_t(last_) + 1, -1) {
    best_.reserve(opened_.size());
    choice_.reserve(opened_.size());
    // best[n] = stay(n) + max_c (best[before(n, c)] + step(n, c))
    for (int64_t n = 0; n <= last_; ++n) {
      if (n % 64 == 0) stop_if_asked();
      const auto node = graph.at(n);
      Way best = head(node, 0);
      for (int64_t c = 1; c < node.choices(); ++c)
        if (const Way other = head(node, c); worse(best, other)) best = other;
      choice_.push_back(best.choice);
      best_.push_back(best.score + node.stay());
    }
  }

  // Finds the next path; false if there is none.
  bool next() {
    if (found_ % 64 == 0) stop_if_asked();
    if (found_ ? !extend() : best_.back() == forbidden) return false;
    return ++found_;
  }
  double score(int64_t rank) { return way(last_, rank).score; }
  // f(node) for the nodes of the rank-th best path, from the last but one to the first
  template <typename F>
  void trace(int64_t rank, F f) {
    for (int64_t n = last_; graph_.at(n).choices();) {
      const Way at = way(n, rank);
      n = graph_.at(n).before(at.choice), rank = at.rank;
      f(n);
    }
  }

 private:
  // A way to a node: by the rank-th best way to the node that is its choice. The score is that of the way up to the step,
  // without what the node itself adds.
  struct Way {
    double score;
    int32_t choice, rank;
  };
  // Greater score first; among equals the smaller choice, then the better rank.
  static bool worse(const Way& a, const Way& b) {
    if (a.score != b.score) return a.score < b.score;
    return a.choice != b.choice ? a.choice > b.choice : a.rank > b.rank;
  }

  // The ways to a node that are known so far, and the next ones to choose from: one for each choice but that of the last
  // way found, whose successor may not be known yet.
  struct Ways {
    std::vector<Way> found, heap;
    bool exhausted = false;
  };

  template <typename Node>
  Way head(const Node& node, int64_t c) const {
    return {(node.choices() ? best_[size_t(node.before(c))] : 0.0) + node.step(c), int32_t(c), 0};
  }
  Way first_way(int64_t n) const { return head(graph_.at(n), choice_[size_t(n)]); }
  // The rank-th way to a node, which must be known.
  Way way(int64_t n, int64_t rank) const {
    const int32_t own = opened_[size_t(n)];
    return own < 0 ? first_way(n) : ways_[size_t(own)].found[size_t(rank)];
  }
  int64_t known(int64_t n) const {
    const int32_t own = opened_[size_t(n)];
    return own < 0 ? 1 : int64_t(ways_[size_t(own)].found.size());
  }
  // Whether more than the known ways to a node may be found.
  bool may_grow(int64_t n) const {
    const int32_t own = opened_[size_t(n)];
    return graph_.at(n).choices() && (own < 0 || !ways_[size_t(own)].exhausted);
  }

  Ways& open(int64_t n) {
    int32_t& number = opened_[size_t(n)];
    if (number < 0) {
      number = int32_t(ways_.size());
      const auto node = graph_.at(n);
      Ways own;
      own.found.push_back(first_way(n));
      for (int64_t c = 0; c < node.choices(); ++c)
        if (const Way other = head(node, c); c != own.found[0].choice && other.score > forbidden) own.heap.push_back(other);
      std::make_heap(own.heap.begin(), own.heap.end(), worse);
      ways_.push_back(std::move(own));
    }
    return ways_[size_t(number)];
  }

  // Finds one more way to the last node; false if there is none. Before the next way can be taken from the heap, the
  // successor of the last one must be in it, which may have to be found first, and so on down to the start.
  bool extend() {
    waiting_.clear();
    for (int64_t n = last_;;) {
      const Way last = open(n).found.back();
      waiting_.push_back(n);
      n = graph_.at(n).before(last.choice);
      if (known(n) > last.rank + 1 || !may_grow(n)) break;
    }
    for (; !waiting_.empty(); waiting_.pop_back()) take_next(waiting_.back());
    return !open(last_).exhausted;
  }

  void take_next(int64_t n) {
    Ways& own = open(n);
    const Way last = own.found.back();
    const auto node = graph_.at(n);
    const int64_t before = node.before(last.choice);
    const int32_t rank = last.rank + 1;
    if (rank < known(before)) {
      const double score = way(before, rank).score + graph_.at(before).stay() + node.step(last.choice);
      own.heap.push_back({score, last.choice, rank});
      std::push_heap(own.heap.begin(), own.heap.end(), worse);
    }
    own.exhausted = own.heap.empty();
    if (own.exhausted) return;
    std::pop_heap(own.heap.begin(), own.heap.end(), worse);
    own.found.push_back(own.heap.back());
    own.heap.pop_back();
  }

  const Graph& graph_;
  const int64_t last_;
  int64_t found_ = 0;             // paths
  std::vector<double> best_;      // of each node, with what the node adds
  std::vector<int32_t> choice_;   // on the best way to each node
  std::vector<int32_t> opened_;   // where the ways to each node are, or -1 if only the best one is known
  std::vector<Ways> ways_;
  std::vector<int64_t> waiting_;
};

}  // namespace trellis::chain

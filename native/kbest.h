// The k best label sequences of one sequence, by list Viterbi: every label at every position keeps its k best ways to
// get there, merged from the sorted lists of its predecessors.
#pragma once

#include "chain.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace trellis {

struct KBest {
  std::vector<double> scores;             // descending; fewer than k where fewer paths exist
  std::vector<std::vector<int64_t>> tags;  // one path for each score
};

struct Candidate {
  double score;
  int32_t label, rank;  // the rank-th best way to reach the predecessor `label`
};

// Greater score first; among equals the smaller label, then the better rank.
inline bool worse(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score < b.score;
  return a.label != b.label ? a.label > b.label : a.rank > b.rank;
}

// The k best of the sums lists[i][rank] + step[i * stride], each list sorted, with a heap of one head a list.
inline void merge(const std::vector<std::vector<double>>& lists, const double* step, int64_t stride, size_t k,
                  std::vector<Candidate>& heap, std::vector<Candidate>& out) {
  heap.clear();
  out.clear();
  for (size_t i = 0; i < lists.size(); ++i) {
    const double onward = step[int64_t(i) * stride];
    if (!lists[i].empty() && onward > -std::numeric_limits<double>::infinity())
      heap.push_back({lists[i][0] + onward, int32_t(i), 0});
  }
  std::make_heap(heap.begin(), heap.end(), worse);
  while (!heap.empty() && out.size() < k) {
    std::pop_heap(heap.begin(), heap.end(), worse);
    Candidate best = heap.back();
    heap.pop_back();
    out.push_back(best);
    const auto& list = lists[size_t(best.label)];
    if (size_t(++best.rank) == list.size()) continue;
    best.score = list[size_t(best.rank)] + step[best.label * stride];
    heap.push_back(best);
    std::push_heap(heap.begin(), heap.end(), worse);
  }
}

template <typename R>
KBest kbest(const Batch<R>& batch, const LogPrepared<double>& prepared, int64_t b, size_t k) {
  const int64_t T = batch.length(b), L = batch.L, P = prepared.P, first = batch.offsets[b];
  KBest result;
  if (T == 0) {
    result.scores.push_back(0.0);
    result.tags.emplace_back();
    return result;
  }
  constexpr double forbidden = -std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> current(static_cast<size_t>(L)), next(static_cast<size_t>(L));
  std::vector<std::vector<Candidate>> back(static_cast<size_t>(T * L));  // of token t and label j, by rank
  std::vector<Candidate> heap, merged;
  for (int64_t t = 0; t < T; ++t) {
    const R* e = batch.emission(first + t);
    for (int64_t j = 0; j < L; ++j) {
      auto& list = next[size_t(j)];
      list.clear();
      if (double(e[j]) == forbidden) continue;
      if (t == 0) {
        if (prepared.start[j] > forbidden) list.push_back(prepared.start[j] + double(e[j]));
        continue;
      }
      merge(current, prepared.forward + j, P, k, heap, merged);
      for (const Candidate& c : merged) list.push_back(c.score + double(e[j]));
      back[size_t(t * L + j)] = merged;
    }
    std::swap(current, next);
  }
  merge(current, prepared.end, 1, k, heap, merged);
  for (const Candidate& last : merged) {
    std::vector<int64_t> path(static_cast<size_t>(T));
    Candidate at = last;
    for (int64_t t = T - 1; t >= 0; --t) {
      path[size_t(t)] = at.label;
      if (t > 0) at = back[size_t(t * L + at.label)][size_t(at.rank)];
    }
    result.scores.push_back(last.score);
    result.tags.push_back(std::move(path));
  }
  return result;
}

}  // namespace trellis

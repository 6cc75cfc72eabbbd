// The k best paths of one sequence. Each place (a label that begins at a token, or ends there) keeps its k best ways,
// sorted; those of the next place are merged from them, so that work and memory go with k.
#pragma once

#include "base/numbers.h"
#include "base/threads.h"
#include "segments/batch.h"

#include <algorithm>
#include <queue>
#include <vector>

namespace trellis::segments {

class SegmentKBest {
 public:
  SegmentKBest(const SegmentBatch& batch, const LogPrepared<double>& prepared, int64_t b, int64_t k)
      : batch_(batch), prepared_(prepared), b_(b), k_(size_t(k)), T_(batch.length(b)), L_(batch.L) {
    into_.resize(size_t(T_ * L_));
    alpha_.resize(size_t(T_ * L_));
    for (int64_t t = 0; t < T_; ++t) {
      for (int64_t l = 0; l < L_; ++l) begin_at(t, l);
      for (int64_t l = 0; l < L_; ++l) end_at(t, l);
    }
    last_ = merge(L_, [&](int64_t l) { return &ways(alpha_, T_ - 1, l); }, [&](int64_t l) { return prepared_.end[l]; });
  }

  size_t found() const { return last_.size(); }
  double score(size_t rank) const { return last_[rank].score; }
  // The segments of the rank-th best path, in order.
  std::vector<PathSegment> path(size_t rank) const {
    stop_if_asked();
    std::vector<PathSegment> segments;
    Way way = last_[rank];
    int64_t label = way.choice, t = T_ - 1;
    while (t >= 0) {
      const Way end = ways(alpha_, t, label)[size_t(way.rank)];
      const int64_t begin = t - end.choice;
      segments.push_back({begin, t + 1, label});
      way = ways(into_, begin, label)[size_t(end.rank)];
      label = way.choice;
      t = begin - 1;
    }
    std::reverse(segments.begin(), segments.end());
    return segments;
  }

 private:
  // By the rank-th best way to the place named by the choice: a label before, or a length.
  struct Way {
    double score;
    int64_t choice;
    int32_t rank;
  };
  using Ways = std::vector<Way>;

  const Ways& ways(const std::vector<Ways>& table, int64_t t, int64_t l) const { return table[size_t(t * L_ + l)]; }

  void begin_at(int64_t t, int64_t l) {
    Ways& own = into_[size_t(t * L_ + l)];
    if (t == 0) {
      if (prepared_.start[l] > forbidden) own.push_back({prepared_.start[l], 0, 0});
      return;
    }
    own = merge(L_, [&](int64_t i) { return &ways(alpha_, t - 1, i); },
                [&](int64_t i) { return prepared_.forward[i * prepared_.P + l]; });
  }
  void end_at(int64_t t, int64_t l) {
    alpha_[size_t(t * L_ + l)] = merge(batch_.longest(t), [&](int64_t k) { return &ways(into_, t - k, l); },
                                       [&](int64_t k) { return batch_.scores(b_, t, k)[l]; });
  }

  // The k best of from(c)[rank].score + step(c); among equals the smaller choice, then the better rank.
  template <typename From, typename Step>
  Ways merge(int64_t choices, From from, Step step) const {
    stop_if_asked();
    const auto worse = [](const Way& a, const Way& b) {
      if (a.score != b.score) return a.score < b.score;
      return a.choice != b.choice ? a.choice > b.choice : a.rank > b.rank;
    };
    std::priority_queue<Way, Ways, decltype(worse)> next(worse);
    const auto offer = [&](int64_t choice, int32_t rank) {
      const Ways& before = *from(choice);
      if (size_t(rank) >= before.size() || !(step(choice) > forbidden)) return;
      next.push({before[size_t(rank)].score + step(choice), choice, rank});
    };
    for (int64_t c = 0; c < choices; ++c) offer(c, 0);
    Ways best;
    while (best.size() < k_ && !next.empty()) {
      best.push_back(next.top());
      next.pop();
      offer(best.back().choice, best.back().rank + 1);
    }
    return best;
  }


  const SegmentBatch& batch_;
  const LogPrepared<double>& prepared_;
  int64_t b_;
  size_t k_;
  int64_t T_, L_;
  std::vector<Ways> into_, alpha_;
  Ways last_;
};

}  // namespace trellis::segments

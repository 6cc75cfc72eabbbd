// Features of transitions: an attribute of a token may have a weight for a pair of labels, that of the token before and
// its own. To all code that stores, scores and prunes weights, such a pair (from, to) is one label of L * L, with the
// number from * L + to:
//
//   edge[n, from, to] = sum over attributes a of token n:  weight[a, from * L + to]
//
// for each token n that has one before it. Few of the L * L pairs have a weight, so a token's attributes are added one
// weight at a time; matrices exist for some sentences at a time only. These attributes come from templates: all values
// are 1.
#pragma once

#include "features/scoring.h"
#include "features/states.h"

#include <vector>

namespace trellis::features {

// The tokens first .. last - 1 that have one before them in their sentence.
std::vector<int64_t> later_tokens(const std::vector<int64_t>& offsets, int64_t first, int64_t last);

// The edge features that occur (at least min_freq times), or all, of transitions that are not
// forbidden: scores[L, L] is minus infinity for those. How often they occur if asked for.
StateFeatures choose_edges(const Dataset& data, const Supervision& known, int64_t attributes, int64_t L,
                           const double* scores, double min_freq, bool all, std::vector<double>* counts = nullptr);

// edges[N - B, L * L] of a whole dataset; B counts sentences that are not empty
void score_edges(const Dataset& data, const WeightTable<double>& weights, double* edges);

// How edges are computed for an evaluation, shard after shard.
template <typename R>
class EdgePlan {
 public:
  // Shards begin at the sentences `shards`, which end with B.
  EdgePlan(const Dataset& data, const Pairs& pairs, const std::vector<int64_t>& shards);

  // edges[p, L * L] of the pairs of neighbouring tokens of a shard
  void score(size_t shard, const double* weights, R* edges) const;
  // gradient[p] += ... from the derivatives of the edges of a shard
  void add_gradient(size_t shard, const R* derivatives, double* gradient) const;

 private:
  // The attributes that have weights and occur in a shard, with the matrices they belong to.
  struct Uses {
    std::vector<int64_t> tokens;      // the later one of each pair
    std::vector<int32_t> attributes, rows;
    std::vector<int64_t> ends, work;  // of each attribute: where its rows end; multiplications up to its end
  };
  Uses uses_of(int64_t first, int64_t last) const;

  const Dataset& data_;
  Pairs pairs_;
  std::vector<Uses> shards_;
};

}  // namespace trellis::features

#include "features/edges.h"

#include "base/numbers.h"

#include <algorithm>
#include <numeric>

namespace trellis::features {
namespace {

// What the tokens of an attribute say about pairs of labels: how often each pair stands there. A token whose label is
// partly known counts for each label it may have, a token of unknown label for none.
class PairCounts {
 public:
  PairCounts(const Supervision& known, int64_t L, const double* scores)
      : known_(known), L_(L), scores_(scores), counts_(size_t(L * L), 0) {}

  void add(int64_t token) {
    if (!known_.allowed) return add(known_.tags[token - 1], known_.tags[token]);
    const uint8_t *from = known_.allowed + (token - 1) * L_, *to = from + L_;
    if (is_unknown(from) || is_unknown(to)) return;
    for (int64_t i = 0; i < L_; ++i)
      for (int64_t j = 0; j < L_; ++j)
        if (from[i] && to[j]) add(i, j);
  }
  // f(pair, count) for each pair that counts min_freq or more, in order; then everything is zero again.
  template <typename F>
  void take(double min_freq, F f) {
    std::sort(seen_.begin(), seen_.end());
    for (const int64_t pair : seen_) {
      const double count = double(counts_[size_t(pair)]);
      if (count >= min_freq) f(pair, count);
      counts_[size_t(pair)] = 0;
    }
    seen_.clear();
  }

 private:
  bool is_unknown(const uint8_t* allowed) const { return std::find(allowed, allowed + L_, 0) == allowed + L_; }
  void add(int64_t from, int64_t to) {
    const int64_t pair = from * L_ + to;
    if (scores_[pair] == forbidden) return;
    if (counts_[size_t(pair)]++ == 0) seen_.push_back(pair);
  }

  const Supervision& known_;
  int64_t L_;
  const double* scores_;
  std::vector<int64_t> counts_, seen_;
};

// For each attribute the tokens that have it.
struct TokensOf {
  std::vector<int64_t> ends;  // [A]
  std::vector<int64_t> items;

  TokensOf(const Dataset& data, const std::vector<int64_t>& tokens, int64_t attributes)
      : ends(size_t(attributes), 0) {
    for (const int64_t n : tokens) data.for_attributes(n, [&](int64_t a, double) { ++ends[size_t(a)]; });
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    items.resize(attributes ? size_t(ends.back()) : 0);
    std::vector<int64_t> next(ends);
    for (const int64_t n : tokens)
      data.for_attributes(n, [&](int64_t a, double) { items[size_t(--next[size_t(a)])] = n; });
  }
  int64_t begin(int64_t a) const { return a ? ends[size_t(a) - 1] : 0; }
};

}  // namespace

std::vector<int64_t> later_tokens(const std::vector<int64_t>& offsets, int64_t first, int64_t last) {
  std::vector<int64_t> tokens;
  for (int64_t b = first; b < last; ++b)
    for (int64_t n = offsets[size_t(b)] + 1; n < offsets[size_t(b) + 1]; ++n) tokens.push_back(n);
  return tokens;
}

StateFeatures choose_edges(const Dataset& data, const Supervision& known, int64_t attributes, int64_t L,
                           const double* scores, double min_freq, bool all, std::vector<double>* counts_of) {
  const TokensOf uses(data, later_tokens(data.offsets, 0, data.sentences()), attributes);
  PairCounts counts(known, L, scores);
  StateFeatures edges;
  const auto keep = [&](int64_t pair, double count) {
    edges.labels.push_back(uint16_t(pair));
    if (counts_of) counts_of->push_back(count);
  };
  for (int64_t a = 0; a < attributes; ++a) {
    if (all) {
      for (int64_t pair = 0; pair < L * L; ++pair)
        if (scores[pair] != forbidden) keep(pair, 0.0);
    } else {
      for (int64_t at = uses.begin(a); at < uses.ends[size_t(a)]; ++at) counts.add(uses.items[size_t(at)]);
      counts.take(min_freq, keep);
    }
    edges.ends.push_back(int64_t(edges.labels.size()));
  }
  return edges;
}

void score_edges(const Dataset& data, const WeightTable<double>& weights, double* edges) {
  const std::vector<int64_t> tokens = later_tokens(data.offsets, 0, data.sentences());
  const int64_t width = weights.labels();
  in_chunks(int64_t(tokens.size()), [&](int64_t i) {
    std::fill_n(edges + i * width, width, 0.0);
    for (int64_t g = 0; g < data.groups; ++g)
      add_bundle(data, weights, data.bundle(tokens[size_t(i)], g), edges + i * width);
  });
}

template <typename R>
EdgePlan<R>::EdgePlan(const Dataset& data, const Pairs& pairs, const std::vector<int64_t>& shards)
    : data_(data), pairs_(pairs) {
  for (size_t s = 0; s + 1 < shards.size(); ++s) shards_.push_back(uses_of(shards[s], shards[s + 1]));
}

template <typename R>
typename EdgePlan<R>::Uses EdgePlan<R>::uses_of(int64_t first, int64_t last) const {
  Uses uses;
  uses.tokens = later_tokens(data_.offsets, first, last);
  std::vector<std::pair<int32_t, int32_t>> found;  // attribute, row
  for (size_t i = 0; i < uses.tokens.size(); ++i)
    data_.for_attributes(uses.tokens[i], [&](int32_t a, double) {
      if (pairs_.begin(a) < pairs_.ends[a]) found.emplace_back(a, int32_t(i));
    });
  std::sort(found.begin(), found.end());
  int64_t work = 0;
  for (const auto& [a, row] : found) {
    work += pairs_.ends[a] - pairs_.begin(a);
    if (uses.attributes.empty() || uses.attributes.back() != a) {
      uses.attributes.push_back(a);
      uses.ends.push_back(0), uses.work.push_back(0);
    }
    uses.rows.push_back(row);
    uses.ends.back() = int64_t(uses.rows.size()), uses.work.back() = work;
  }
  return uses;
}

template <typename R>
void EdgePlan<R>::score(size_t shard, const double* weights, R* edges) const {
  const std::vector<int64_t>& tokens = shards_[shard].tokens;
  const int64_t width = pairs_.labels_in_all;
  in_chunks(int64_t(tokens.size()), [&](int64_t i) {
    R* edge = edges + i * width;
    std::fill_n(edge, width, R(0));
    for_pairs(data_, pairs_, tokens[size_t(i)], [&](int64_t p, int64_t pair, double) { edge[pair] += R(weights[p]); });
  });
}

template <typename R>
void EdgePlan<R>::add_gradient(size_t shard, const R* derivatives, double* gradient) const {
  const Uses& uses = shards_[shard];
  run_balanced(uses.work.data(), int64_t(uses.work.size()), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int32_t a = uses.attributes[size_t(i)];
      for (int64_t at = i ? uses.ends[size_t(i) - 1] : 0; at < uses.ends[size_t(i)]; ++at) {
        const R* edge = derivatives + uses.rows[size_t(at)] * pairs_.labels_in_all;
        for (int64_t p = pairs_.begin(a); p < pairs_.ends[a]; ++p) gradient[p] += double(edge[pairs_.labels[p]]);
      }
    }
  });
}

template class EdgePlan<float>;
template class EdgePlan<double>;

}  // namespace trellis::features

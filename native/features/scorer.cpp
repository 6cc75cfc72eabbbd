#include "features/scorer.h"

#include "features/expansion.h"

#include <algorithm>

namespace trellis::features {

NameScorer::NameScorer(const TemplateSet& set, const IndexView& attributes, const WeightTable<double>& weights)
    : Scorer(set.columns), set_(set), attributes_(attributes), weights_(weights) {
  forget();
}

void NameScorer::forget() {
  numbers_.clear();
  bundles_ = 0;
  std::vector<double>(rows_padding, 0.0).swap(rows_);  // assigning would keep the memory
}

int64_t NameScorer::row_bytes() const {
  int64_t bytes = int64_t(rows_.capacity() * sizeof(double));
  for (const GroupNumbers& numbers : numbers_) bytes += numbers.bytes();
  return bytes;
}

// Rows may be forgotten between blocks; strings are needed until the last one.
void NameScorer::score_sentences(const std::vector<int64_t>& offsets, double* emissions) {
  constexpr int64_t block = 16384;  // tokens
  const int64_t B = int64_t(offsets.size()) - 1;
  for (int64_t first = 0, last = 1; first < B; first = last++) {
    while (last < B && offsets[size_t(last) + 1] - offsets[size_t(first)] <= block) ++last;
    if (row_bytes() > most_) forget();
    score_block(offsets, first, last, emissions + offsets[size_t(first)] * weights_.labels());
  }
}

// New bundles become rows; then the emissions of a token are the sum of its bundles' rows.
void NameScorer::score_block(const std::vector<int64_t>& offsets, int64_t first, int64_t last, double* emissions) {
  const int64_t L = weights_.labels(), start = offsets[size_t(first)];
  Dataset data;
  for (int64_t b = first; b < last; ++b) data.offsets.push_back(offsets[size_t(b) + 1] - start);
  data.groups = int64_t(set_.groups.size());
  data.token_bundles.resize(size_t(data.tokens() * data.groups + rows_ahead));
  if (numbers_.empty())
    for (const Group& group : set_.groups) numbers_.emplace_back(group.sources.size(), data.tokens());
  Expansion expansion(set_, columns_, data, AttributeSource(attributes_), start, bundles_);
  for (size_t g = 0; g < set_.groups.size(); ++g) expansion.group(set_.groups[g], g, numbers_[g]);

  rows_.resize(size_t((bundles_ + data.bundles()) * L + rows_padding), 0.0);
  double* fresh = rows_.data() + bundles_ * L;
  in_chunks(data.bundles(), [&](int64_t u) {
    std::fill_n(fresh + u * L, L, 0.0);
    add_bundle(data, weights_, u, fresh + u * L);
  });
  bundles_ += data.bundles();
  std::vector<uint32_t> ends(size_t(data.tokens()));
  for (size_t n = 0; n < ends.size(); ++n) ends[n] = uint32_t(n + 1) * uint32_t(data.groups);
  const RowLists lists{ends.data(), data.token_bundles.data(), nullptr};
  for_chunks(data.tokens(), [&](int64_t from, int64_t to) {
    row_kernels<double>().add(rows_.data(), L, lists, from, to, emissions + from * L);
  });
}

}  // namespace trellis::features

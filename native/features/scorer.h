// Emissions from tokens, for a model that is used many times: what a group of templates says about the strings in its
// cells is kept from call to call, as a row of scores, since most words of a text, and many pairs of them, have been
// seen before.
#pragma once

#include "features/numbering.h"
#include "features/scoring.h"

namespace trellis {

class Scorer {
 public:
  // Points into all three.
  Scorer(const TemplateSet& set, const IndexView& attributes, const WeightTable<double>& weights);

  // What is kept from call to call, strings and rows and their numbers, takes at most this many bytes.
  static constexpr int64_t most_bytes = 96 << 20;
  int64_t bytes() const;

  // The columns to read the next sentences into, empty of cells.
  std::vector<std::unique_ptr<Column>>& columns() { return columns_; }
  // emissions[N, L] of the sentences that were read
  void score(const std::vector<int64_t>& offsets, double* emissions);
  // After the last of these: clears the cells, and forgets everything if it has become too much.
  void finish();
  int64_t labels() const { return weights_.labels(); }

 private:
  void forget_rows();
  int64_t row_bytes() const;
  void score_block(const std::vector<int64_t>& offsets, int64_t first, int64_t last, double* emissions);

  const TemplateSet& set_;
  IndexView attributes_;
  const WeightTable<double>& weights_;
  std::vector<std::unique_ptr<Column>> columns_;
  std::vector<GroupNumbers> numbers_;  // of each group, or none if nothing is known
  int64_t bundles_ = 0;
  std::vector<double> rows_;           // [bundles, L], and rows_padding more
};

}  // namespace trellis

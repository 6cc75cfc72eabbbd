// Emissions from tokens, for a model that stays: what templates of one cell say about a string is kept from call to
// call, as a row of scores, since most words of a text have been seen before.
#pragma once

#include "scoring.h"

namespace trellis {

class Scorer {
 public:
  // Points into all three.
  Scorer(const TemplateSet& set, const IndexView& attributes, const WeightTable<double>& weights);

  // The columns to read the next sentences into, empty of cells. Forgets everything once it is a few megabytes.
  std::vector<std::unique_ptr<Column>>& columns() { return columns_; }
  void begin();
  // emissions[N, L] of the sentences that were read
  void score(const std::vector<int64_t>& offsets, double* emissions);
  int64_t labels() const { return weights_.labels(); }

 private:
  void forget();

  const TemplateSet& set_;
  IndexView attributes_;
  const WeightTable<double>& weights_;
  std::vector<const Group*> single_, several_;  // groups that look at one cell at most, and the others
  std::vector<std::unique_ptr<Column>> columns_;
  Dataset known_;                               // bundles of single_, from all calls; tokens of the last
  std::vector<std::vector<int32_t>> bundle_of_;
  std::vector<double> rows_;                    // [bundles, L]
};

}  // namespace trellis

// Emissions from tokens, for a model that is used many times, by one thread at a time.
#pragma once

#include "features/numbering.h"
#include "features/raw_cells.h"
#include "features/scoring.h"

namespace trellis::features {

// What is kept from call to call has its limit: beyond it, a scorer is of no more use after a call.
class Scorer {
 public:
  // All that is kept, strings and rows and their numbers, takes at most this many bytes.
  static constexpr int64_t most_bytes = 96 << 20;

  explicit Scorer(int columns) : raw_(size_t(std::max(columns, 1))) {
    for (size_t c = 0; c < raw_.size(); ++c) columns_.push_back(std::make_unique<Column>());
  }
  virtual ~Scorer() = default;

  // What the columns of the next sentences are read into, empty before.
  std::vector<RawCells>& raw() { return raw_; }
  // The columns themselves: numbers for all that was read, or to be filled directly.
  std::vector<std::unique_ptr<Column>>& columns() { return columns_; }
  void number() {
    whole_ = false;
    for (size_t c = 0; c < raw_.size(); ++c) raw_[c].number(*columns_[c]);
    whole_ = true;
  }
  // emissions[N, L] of the sentences whose cells have numbers
  void score(const std::vector<int64_t>& offsets, double* emissions) {
    whole_ = false;
    score_sentences(offsets, emissions);
    whole_ = true;
  }
  virtual int64_t labels() const = 0;
  int64_t bytes() const {
    int64_t bytes = row_bytes();
    for (const auto& column : columns_) bytes += column->bytes();
    for (const RawCells& cells : raw_) bytes += cells.bytes();
    return bytes;
  }
  // After the last of these: whether it may be used again, with `most` bytes to keep. It may not if it has become too
  // large, or if an error kept it from numbering or scoring to the end. Allocates nothing, for destructors.
  bool finish(int64_t most) noexcept {
    most_ = most;
    for (auto& column : columns_) column->cells.clear();
    for (RawCells& cells : raw_) cells.clear();
    return whole_ && bytes() <= most;
  }

 protected:
  virtual void score_sentences(const std::vector<int64_t>& offsets, double* emissions) = 0;
  virtual int64_t row_bytes() const = 0;

  std::vector<RawCells> raw_;
  std::vector<std::unique_ptr<Column>> columns_;
  int64_t most_ = most_bytes;

 private:
  bool whole_ = true;
};

// By the names of attributes: what a group of templates says about the strings in its cells is kept as a row of scores,
// since most words of a text, and many pairs of them, have been seen before.
class NameScorer final : public Scorer {
 public:
  // Points into all three.
  NameScorer(const TemplateSet& set, const IndexView& attributes, const WeightTable<double>& weights);

  int64_t labels() const override { return weights_.labels(); }

 private:
  void score_sentences(const std::vector<int64_t>& offsets, double* emissions) override;
  void forget();
  int64_t row_bytes() const override;
  void score_block(const std::vector<int64_t>& offsets, int64_t first, int64_t last, double* emissions);

  const TemplateSet& set_;
  IndexView attributes_;
  const WeightTable<double>& weights_;
  std::vector<GroupNumbers> numbers_;  // of each group, or none if nothing is known
  int64_t bundles_ = 0;
  std::vector<double> rows_;           // [bundles, L], and rows_padding more
};

}  // namespace trellis::features

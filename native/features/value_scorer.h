// Emissions from tokens by the values that templates read: see values.h. What the templates that look at one cell say
// about a token is kept from call to call as rows of scores, with the numbers of what other templates read of it.
#pragma once

#include "features/scorer.h"
#include "features/values.h"

#include <unordered_map>

namespace trellis::features {

// Characters and what they are read as, from code point to code point.
using Folding = std::unordered_map<uint32_t, uint32_t>;

template <typename R>
class ValueScorer final : public Scorer {
 public:
  // Tokens, which are column 0, are folded before anything is read of them.
  ValueScorer(std::shared_ptr<const ValueWeights<R>> weights, int columns, std::shared_ptr<const Folding> folding);

  int64_t labels() const override { return model_->L; }
  // Of rows: what they may still grow by takes memory too.
  int64_t reserved_bytes() const { return rows_.room * int64_t(sizeof(double)); }

 private:
  // A shape with one part or none: its values are looked up once for each token.
  struct Alone {
    int shape = -1;             // or there is none
    std::vector<int32_t> rows;  // of each entry, among those of the column
  };
  struct OfColumn {
    std::vector<int> rows;  // at which templates look at its cells alone
    std::vector<int> readings;
    std::vector<Alone> alone;   // [readings]
    std::vector<Alone> always;  // shapes without parts
    std::vector<int> kept;      // [readings] their places in `numbers`, or -1
    int64_t width = 0;          // of `numbers`
    // By token; the edges of sentences come first: -1, +1, -2, +2 ...
    std::vector<int32_t> row_of;   // the first of its rows, or -1 if there are none yet
    std::vector<int32_t> numbers;  // [tokens, width] of its values, or -1 if the model does not know them
  };
  // Numbers that grow.
  struct Rows {
    Block<double> numbers{0};
    int64_t room = 0;
    void reserve(int64_t used, int64_t count);
  };
  // A reading of a token on its way from a text to a number and to weights.
  struct Wanted {
    ValueIndex::Search search;
    ValueIndex::Value value;
  };
  // Some sentences one after another, each with its edges on both sides.
  struct Strip {
    int64_t places = 0;
    std::vector<int32_t> token_of;              // [places and what templates reach on both sides] or -1
    std::vector<std::vector<int32_t>> cells;    // [columns][places]
    std::vector<std::vector<int32_t>> numbers;  // [readings][places] if they are kept
    std::vector<int64_t> first;                 // the place of each token
  };

  void score_sentences(const std::vector<int64_t>& offsets, double* emissions) override;
  void list_column(size_t c);
  int64_t reach() const { return model_->origins.reach(); }
  int64_t edge(int64_t distance) const { return distance < 0 ? -2 * (distance + 1) : 2 * (distance - 1) + 1; }
  void forget();
  int64_t row_bytes() const override;
  void see_edges();
  void see_block(int64_t from, int64_t to);
  void see(size_t c, const int64_t* tokens, size_t count);
  void read(size_t c, int64_t token);
  void look_up(size_t c);
  std::string_view folded(size_t c, std::string_view text);
  Strip lay_out(const std::vector<int64_t>& offsets, int64_t first, int64_t last) const;
  void score_strip(const Strip& strip, double* emissions) const;
  void add_rows(const Strip& strip, double* emissions) const;
  void add_grams(const Strip& strip, size_t shape, double* emissions) const;
  static int64_t key_places(const Strip& strip, const std::vector<Part>& parts, const std::vector<uint64_t>& radices,
                            int64_t first, int64_t last, GramPlace* places);

  std::shared_ptr<const ValueWeights<R>> model_;
  std::shared_ptr<const Folding> folding_;
  std::vector<OfColumn> own_;
  std::vector<size_t> grams_;  // the shapes with several parts
  Rows rows_;                  // [rows, L], and rows_padding more
  int64_t used_rows_ = 0;
  std::string texts_, folded_;
  std::vector<size_t> ends_;  // of the texts
  std::vector<Wanted> wanted_;
};

}  // namespace trellis::features

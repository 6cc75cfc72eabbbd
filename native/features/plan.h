// How the scores and derivatives of a training corpus are computed, evaluation after evaluation.
//
// An attribute with many labels has a full row of weights: rows are added in a few vector operations, and the frequent
// attributes are those with many labels. A bundle of several attributes that several tokens share is scored once, as a
// row too; what remains are single pairs (attribute, label) of rare attributes. One array holds the rows of attributes,
// of shared bundles and of tokens:
//
//   row of an attribute = its weights    row of a bundle = sum of its attributes' rows and pairs
//   emissions of a token = sum of its bundles' and attributes' rows and pairs
//
// and the way back sums derivatives of the rows of tokens and bundles by the same lists inverted. Rows hold numbers
// of type R; sums on the way back are in double.
#pragma once

#include "chain/inference.h"
#include "features/rows.h"
#include "features/scoring.h"

namespace trellis {

// Lists one after another: list i ends at ends[i].
struct Lists {
  std::vector<int64_t> ends;
  std::vector<int32_t> items;
  std::vector<double> values;  // of each item, or empty if all are 1

  int64_t size() const { return int64_t(ends.size()); }
  int64_t begin(int64_t i) const { return i ? ends[size_t(i) - 1] : 0; }
  double value(int64_t at) const { return values.empty() ? 1.0 : values[size_t(at)]; }
  void close() { ends.push_back(int64_t(items.size())); }
  // After the last list: what RowLists asks for.
  void finish() {
    items.insert(items.end(), rows_ahead, 0);
    items.shrink_to_fit();
  }
  RowLists view() const { return {ends.data(), items.data(), values.empty() ? nullptr : values.data()}; }
};

template <typename R>
class Plan {
 public:
  Plan(const Dataset& data, const Pairs& pairs);

  // From here on `weights` are those of the pairs. Once per evaluation: the rows of attributes and of bundles.
  void score_rows(const double* weights);
  // emissions[n - first] for tokens first .. last - 1
  void score_tokens(const double* weights, int64_t first, int64_t last, R* emissions) const;
  // The rows of tokens, where their derivatives go.
  R* derivatives(int64_t token) { return rows_ + (token_row_ + token) * L_; }
  // gradient[p] of all pairs, from the rows of tokens.
  void gradient(double* gradient);

 private:
  void number_rows(const Dataset& data);
  void number_attribute(int32_t a);
  void list_bundle(const Dataset& data, int64_t u, Lists& rows, Lists& pairs) const;
  void add_pairs(const Lists& pairs, const double* weights, int64_t first, int64_t last, R* rows) const;

  Pairs pairs_;
  int64_t L_, bundle_row_ = 0, token_row_ = 0;  // the first rows of their kinds
  std::vector<int32_t> attribute_rows_;         // [A] or -1
  std::vector<int32_t> bundle_rows_;            // [U] counted from bundle_row_, or -1
  std::vector<int32_t> row_attributes_, row_bundles_;

  Lists bundle_parts_, bundle_pairs_;  // of each shared bundle: rows, pairs
  Lists token_parts_, token_pairs_;    // of each token
  Lists bundle_uses_;                  // of each shared bundle: the tokens' rows
  Lists attribute_uses_;               // of each attribute with a row: rows of bundles and tokens
  Lists pair_uses_;                    // of each pair whose attribute has no row
  const RowKernels<R>& kernels_;
  Block<R> rows_;
};

}  // namespace trellis

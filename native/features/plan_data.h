// How the scores and derivatives of a training corpus are computed: which rows are added to which.
//
// An attribute with many labels has a full row of weights: rows are added in a few vector operations, and the frequent
// attributes are those with many labels. A bundle of several attributes that several tokens share is scored once, as a
// row too; what remains are single pairs (attribute, label) of rare attributes. One array holds the rows of attributes,
// of shared bundles and of tokens:
//
//   row of an attribute = its weights    row of a bundle = sum of its attributes' rows and pairs
//   emissions of a token = sum of its bundles' and attributes' rows and pairs
//
// and the way back sums derivatives of the rows of tokens and bundles by the same lists inverted.
//
// A finished plan is one flat array of bytes that holds no address.
#pragma once

#include "base/block.h"
#include "features/rows.h"
#include "features/scoring.h"

#include <cstdint>
#include <vector>

namespace trellis {

// Lists one after another: list i ends at ends[i].
template <template <typename> class Array>
struct ListArrays {
  Array<uint32_t> ends;
  Array<int32_t> items;    // rows_ahead more than the last list has
  Array<double> values;    // of each item, or empty if all are 1

  int64_t size() const { return int64_t(ends.size()); }
  int64_t begin(int64_t i) const { return i ? int64_t(ends.data()[i - 1]) : 0; }
  int64_t end(int64_t i) const { return int64_t(ends.data()[i]); }
  double value(int64_t at) const { return values.size() ? values.data()[at] : 1.0; }
  RowLists rows() const { return {ends.data(), items.data(), values.size() ? values.data() : nullptr}; }
};

template <template <typename> class Array>
struct PlanArrays {
  int64_t bundle_row = 0, token_row = 0;  // the first rows of their kinds
  Array<int64_t> offsets;                 // [B + 1] tokens of each sentence
  Array<int32_t> row_attributes;          // of the first rows, in rising order
  Array<int32_t> used_pairs;              // pairs of attributes without a row, in rising order
  ListArrays<Array> bundle_parts, bundle_pairs;  // of each shared bundle: rows, pairs; no lists if there are no pairs
  ListArrays<Array> token_parts, token_pairs;    // of each token
  ListArrays<Array> bundle_uses;                 // of each shared bundle: the tokens' rows
  ListArrays<Array> attribute_uses;              // of each attribute with a row: rows of bundles and tokens
  ListArrays<Array> pair_uses;                   // of each used pair: rows of bundles and tokens

  int64_t tokens() const { return token_parts.size(); }
  int64_t rows() const { return token_row + tokens(); }
  // f(array) for all of them
  template <typename F>
  void for_arrays(F f) {
    f(offsets), f(row_attributes), f(used_pairs);
    for (ListArrays<Array>* lists : {&bundle_parts, &bundle_pairs, &token_parts, &token_pairs, &bundle_uses,
                                     &attribute_uses, &pair_uses})
      f(lists->ends), f(lists->items), f(lists->values);
  }
};

// Numbers that belong to somebody else.
template <typename T>
class Borrowed {
 public:
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  void point_to(const char* bytes, int64_t count) { data_ = reinterpret_cast<const T*>(bytes), size_ = size_t(count); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

using PlanView = PlanArrays<Borrowed>;

// A finished plan; `size` in bytes.
struct FlatPlan {
  Block<char> bytes{0};
  int64_t size = 0;
};

// Throws std::length_error if there are more features than 32 bits can count.
FlatPlan make_plan(const Dataset& data, const Pairs& pairs);

// The arrays of a finished plan, which it must outlive.
PlanView read_plan(const FlatPlan& flat);

}  // namespace trellis

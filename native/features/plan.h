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
// With few labels, and features made by templates, rows belong to windows instead: see window_plan.cpp.
//
// A finished plan is one flat array of bytes that holds no address.
#pragma once

#include "base/numbers.h"
#include "features/kernels.h"
#include "features/scoring.h"

#include <cstdint>
#include <vector>

namespace trellis::features {

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

// Where the rows, the units and the places of one kind of window begin; see window_plan.cpp.
struct WindowRows {
  int64_t width, first_row, first_unit, first_place;
};

template <template <typename> class Array>
struct PlanArrays {
  int64_t bundle_row = 0, token_row = 0;  // the first rows of their kinds
  int64_t gap = 0;                        // rows before the tokens of each sentence, and after the last one's
  Array<int64_t> offsets;                 // [B + 1] tokens of each sentence
  Array<int32_t> row_attributes;          // of the first rows, in rising order
  Array<int32_t> used_pairs;              // pairs of attributes without a row, in rising order
  ListArrays<Array> bundle_parts, bundle_pairs;  // of each shared bundle: rows, pairs; no lists if there are no pairs
  ListArrays<Array> token_parts, token_pairs;    // of each token
  ListArrays<Array> bundle_uses;                 // of each shared bundle: the tokens' rows
  ListArrays<Array> attribute_uses;              // of each attribute with a row: rows of bundles and tokens
  ListArrays<Array> pair_uses;                   // of each used pair: rows of bundles and tokens
  Array<WindowRows> windows;                     // if there are any, only these, offsets and attributes have items:
  Array<int32_t> places;                         // the first row of the unit at each place, rows_ahead more
  Array<int32_t> row_pairs;                      // of each row of a unit: the first pair of its own attribute, if any,
  Array<uint8_t> row_labels;                     // and bit l if that has a pair with label l
  ListArrays<Array> row_parts;                   // its other attributes
  ListArrays<Array> unit_uses;                   // of each unit: rows of the first tokens it says something about

  int64_t sentences() const { return int64_t(offsets.size()) - 1; }
  int64_t tokens() const { return offsets.data()[sentences()]; }
  int64_t rows() const { return token_row + tokens() + gap * (sentences() + 1); }
  // f(array) for all of them
  template <typename F>
  void for_arrays(F f) {
    f(offsets), f(row_attributes), f(used_pairs), f(windows), f(places), f(row_pairs), f(row_labels);
    for (ListArrays<Array>* lists : {&bundle_parts, &bundle_pairs, &token_parts, &token_pairs, &bundle_uses,
                                     &attribute_uses, &pair_uses, &row_parts, &unit_uses})
      f(lists->ends), f(lists->items), f(lists->values);
  }
};

template <typename T>
using Vector = std::vector<T>;

constexpr int64_t narrow = 8;  // rows up to this width are as cheap as single pairs

// After the last item of a list.
void close_list(ListArrays<Vector>& lists);
// After the last list: what RowLists asks for.
void finish_lists(ListArrays<Vector>& lists);

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

// Whether there are so few labels, and features that templates made, that rows belong to windows; and such a plan.
bool has_windows(const Dataset& data, const Pairs& pairs);
PlanArrays<Vector> plan_windows(const Dataset& data, const Pairs& pairs);

// Throws std::length_error if there are more features than 32 bits can count.
FlatPlan make_plan(const Dataset& data, const Pairs& pairs);

// The arrays of a finished plan, whose bytes must outlive them; throws std::invalid_argument if they do not fit there.
PlanView read_plan(const char* bytes, int64_t size);

// Memory for one shard after another.
template <typename R>
struct Workspace {
  std::vector<R> emissions, derivatives, edges, edge_derivatives;
};

// Memory for the rows of one evaluation after another.
template <typename R>
class RowMemory {
 public:
  // At least this many numbers, finite ones.
  R* numbers(int64_t count) {
    if (count > count_) rows_ = Block<R>(0), rows_ = Block<R>(count, R(0)), count_ = count;
    return rows_;
  }

 private:
  Block<R> rows_{0};
  int64_t count_ = 0;
};

template <typename R>
class Plan {
 public:
  Plan(const PlanView& plan, const Pairs& pairs, R* rows)
      : plan_(plan), pairs_(pairs), L_(pairs.labels_in_all), kernels_(row_kernels<R>()), rows_(rows) {}

  // How many numbers `rows` must have.
  static int64_t row_cells(const PlanView& plan, int64_t L) { return plan.rows() * L + rows_padding; }
  // Once per evaluation: the rows of attributes and of bundles.
  void score_rows(const double* weights);
  // The emissions of the tokens of sentences first .. last - 1.
  void score_tokens(const double* weights, int64_t first, int64_t last, R* emissions) const;
  // The derivatives of the same go to the rows of tokens.
  void take_derivatives(int64_t first, int64_t last, const R* derivatives);
  // gradient[p] += ... of all pairs, from the rows of tokens.
  void add_gradient(double* gradient);

 private:
  void add_pairs(const ListArrays<Borrowed>& pairs, const double* weights, int64_t first, int64_t last, R* rows) const;
  void add_pair_gradient(double* gradient) const;
  void add_row_gradient(double* gradient) const;
  void score_units(const double* weights);
  void score_places(int64_t first, int64_t last, R* emissions) const;
  void add_unit_gradient(double* gradient);
  // f(pair, label) for the pairs of the row's own attribute
  template <typename F>
  void for_own_pairs(int64_t row, F f) const {
    int64_t p = plan_.row_pairs.data()[row];
    for (unsigned labels = plan_.row_labels.data()[row]; labels; labels &= labels - 1) f(p++, __builtin_ctz(labels));
  }

  const PlanView& plan_;
  Pairs pairs_;
  int64_t L_;
  const RowKernels<R>& kernels_;
  R* rows_;
};

}  // namespace trellis::features

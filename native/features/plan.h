// The scores and derivatives of a plan (plan_data.h), evaluation after evaluation. Rows hold numbers of type R; sums on
// the way back are in double.
#pragma once

#include "features/plan_data.h"

namespace trellis::features {

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

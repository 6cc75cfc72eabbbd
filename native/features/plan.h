// The scores and derivatives of a plan (plan_data.h), evaluation after evaluation. Rows hold numbers of type R; sums on
// the way back are in double.
#pragma once

#include "features/plan_data.h"

namespace trellis {

// Memory for one evaluation after another.
template <typename R>
struct Room {
  std::vector<R> emissions, edges, edge_derivatives;

  // With at least this many numbers, finite ones.
  R* rows(int64_t count) {
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
  // emissions[n - first] for tokens first .. last - 1
  void score_tokens(const double* weights, int64_t first, int64_t last, R* emissions) const;
  // The rows of tokens, where their derivatives go.
  R* derivatives(int64_t token) { return rows_ + (plan_.token_row + token) * L_; }
  // gradient[p] += ... of all pairs, from the rows of tokens.
  void add_gradient(double* gradient);

 private:
  void add_pairs(const ListArrays<Borrowed>& pairs, const double* weights, int64_t first, int64_t last, R* rows) const;
  void add_pair_gradient(double* gradient) const;
  void add_row_gradient(double* gradient) const;

  const PlanView& plan_;
  Pairs pairs_;
  int64_t L_;
  const RowKernels<R>& kernels_;
  R* rows_;
};

}  // namespace trellis

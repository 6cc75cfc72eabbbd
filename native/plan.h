// How the scores and derivatives of a training corpus are computed, evaluation after evaluation.
//
// A bundle of several attributes that several tokens share is scored once, as a row; all other attributes are added
// token by token. Rows 0 .. R - 1 of one array belong to shared bundles and the N after them to tokens, so that on the
// way back an attribute sums rows of either kind alike. Rows hold numbers of type R; sums of rows are in double.
#pragma once

#include "scoring.h"

namespace trellis {

// Lists one after another: list i ends at ends[i].
struct Lists {
  std::vector<int64_t> ends;
  std::vector<int32_t> items;
  std::vector<double> values;  // of each item, or empty where all are 1

  int64_t begin(int64_t i) const { return i ? ends[size_t(i) - 1] : 0; }
  double value(int64_t at) const { return values.empty() ? 1.0 : values[size_t(at)]; }
  void close() { ends.push_back(int64_t(items.size())); }
};

template <typename R>
class Plan {
 public:
  Plan(const Dataset& data, int64_t attributes);
  int64_t rows() const { return int64_t(bundles_.ends.size()); }

  // The first R rows: scores of the shared bundles.
  void score_rows(const WeightTable<R>& weights, int64_t L, R* rows) const;
  // emissions[n - first] for tokens first .. last - 1
  void score_tokens(const WeightTable<R>& weights, int64_t L, const R* rows, int64_t first, int64_t last,
                    R* emissions) const;

  // The first R rows from the N after them: derivatives of bundles from those of their tokens.
  void collect_rows(R* rows, int64_t L) const;
  // gradient[p] for the pairs p = (a, l): sum over the rows r that have a, with value v, of v * rows[r, l]
  void gradient(const R* rows, const Pairs& pairs, double* gradient) const;
  // f(a, sums) for each attribute a: the same sums for all labels, with |v| for v if `absolute`.
  template <typename F>
  void for_attributes(const R* rows, int64_t L, F f, bool absolute) const;

 private:
  void sum_rows(int64_t a, const R* rows, int64_t L, bool absolute, double* sums) const;

  Lists bundles_;       // R: attributes of each shared bundle
  Lists token_rows_;    // N: shared bundles of each token
  Lists token_extras_;  // N: attributes of each token that are in none of them
  Lists row_tokens_;    // R: tokens of each shared bundle
  Lists attribute_rows_;  // A: rows that have each attribute
};

template <typename R>
template <typename F>
void Plan<R>::for_attributes(const R* rows, int64_t L, F f, bool absolute) const {
  run_balanced(attribute_rows_.ends, [&](int64_t first, int64_t last) {
    std::vector<double> sums(static_cast<size_t>(L));
    for (int64_t a = first; a < last; ++a) {
      sum_rows(a, rows, L, absolute, sums.data());
      f(a, static_cast<const double*>(sums.data()));
    }
  });
}

}  // namespace trellis

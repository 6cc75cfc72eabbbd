#include "features/scoring.h"

#include "base/threads.h"
#include "chain/inference.h"

#include <algorithm>
#include <cstring>

namespace trellis::features {

using namespace chain;

template <typename R>
WeightTable<R>::WeightTable(const Pairs& pairs) : pairs_(pairs), slots_(size_t(pairs.attributes)) {
  for (int64_t a = 0; a < pairs.attributes; ++a) {
    const int64_t count = pairs.ends[a] - pairs.begin(a);
    if (is_dense(count, pairs.labels_in_all)) {
      slots_[size_t(a)] = {uint32_t(owners_.size()), full_block};
      owners_.push_back(int32_t(a));
    } else {
      slots_[size_t(a)] = {uint32_t(pairs.begin(a)), int32_t(count)};
    }
  }
  rows_.resize(owners_.size() * size_t(pairs.labels_in_all) + rows_padding);
  weights_.resize(size_t(pairs.count()));
}

template <typename R>
void WeightTable<R>::fill(const double* weights) {
  const int64_t L = pairs_.labels_in_all;
  std::copy_n(weights, weights_.size(), weights_.begin());
  for (size_t i = 0; i < owners_.size(); ++i) {
    R* row = rows_.data() + int64_t(i) * L;
    for (int64_t p = pairs_.begin(owners_[i]); p < pairs_.ends[owners_[i]]; ++p)
      row[pairs_.labels[p]] = R(weights[p]);
  }
}

template class WeightTable<float>;
template class WeightTable<double>;

void add_bundle(const Dataset& data, const WeightTable<double>& weights, int64_t u, double* row) {
  const double* values = data.values.empty() ? nullptr : data.values.data();
  const int64_t all = int64_t(data.attributes.size());
  block_kernels<double>().add_attributes(
      weights.view(), {data.attributes.data(), values, data.bundle_begin(u), data.bundle_ends[size_t(u)], all}, row);
}

namespace {

// Bundles of several attributes are scored once, as rows; the row of each bundle, or -1.
std::vector<int32_t> number_rows(const Dataset& data, std::vector<int32_t>& owners) {
  std::vector<int32_t> row_of(size_t(data.bundles()), -1);
  for (int64_t u = 0; u < data.bundles(); ++u) {
    if (data.bundle_ends[size_t(u)] - data.bundle_begin(u) < 2) continue;
    row_of[size_t(u)] = int32_t(owners.size());
    owners.push_back(int32_t(u));
  }
  return row_of;
}

}  // namespace

void score_dataset(const Dataset& data, const WeightTable<double>& weights, double* emissions) {
  const int64_t L = weights.labels();
  if (data.token_bundles.empty()) {
    in_chunks(data.tokens(), [&](int64_t n) {
      std::fill_n(emissions + n * L, L, 0.0);
      add_bundle(data, weights, n, emissions + n * L);
    });
    return;
  }
  std::vector<int32_t> owners;
  const std::vector<int32_t> row_of = number_rows(data, owners);
  const Block<double> rows(int64_t(owners.size()) * L);
  in_chunks(int64_t(owners.size()), [&](int64_t r) {
    std::fill_n(rows + r * L, L, 0.0);
    add_bundle(data, weights, owners[size_t(r)], rows + r * L);
  });
  in_chunks(data.tokens(), [&](int64_t n) {
    double* emission = emissions + n * L;
    std::fill_n(emission, L, 0.0);
    for (int64_t g = 0; g < data.groups; ++g) {
      const int64_t u = data.bundle(n, g);
      const int32_t row = row_of[size_t(u)];
      if (row >= 0) {
        row_kernels<double>().add_row(emission, rows + row * L, 1.0, L);
      } else {
        add_bundle(data, weights, u, emission);
      }
    }
  });
}

}  // namespace trellis::features

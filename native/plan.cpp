#include "plan.h"

#include "threads.h"

#include <algorithm>
#include <cmath>

namespace trellis {
namespace {

constexpr int64_t ahead = 8;  // rows are fetched this many steps before they are added

template <typename R>
void fetch(const R* row, int64_t L) {
  for (int64_t l = 0; l < L; l += 64 / int64_t(sizeof(R))) __builtin_prefetch(row + l);
}

std::vector<int64_t> uses_of_bundles(const Dataset& data) {
  std::vector<int64_t> uses(size_t(data.bundles()), data.token_bundles.empty() ? 1 : 0);
  for (const int32_t u : data.token_bundles) ++uses[size_t(u)];
  return uses;
}

void copy_bundle(const Dataset& data, int64_t u, Lists& to) {
  for (int64_t e = data.bundle_begin(u); e < data.bundle_ends[size_t(u)]; ++e) {
    to.items.push_back(data.attributes[size_t(e)]);
    if (!data.values.empty()) to.values.push_back(data.values[size_t(e)]);
  }
}

// The lists turned round: for each item the lists that have it, in order, numbered from `first_number`.
void count_items(const Lists& lists, std::vector<int64_t>& ends) {
  for (const int32_t item : lists.items) ++ends[size_t(item)];
}

void put_lists(const Lists& lists, int32_t first_number, std::vector<int64_t>& next, Lists& to) {
  for (int64_t i = 0; i < int64_t(lists.ends.size()); ++i) {
    for (int64_t at = lists.begin(i); at < lists.ends[size_t(i)]; ++at) {
      const size_t place = size_t(next[size_t(lists.items[size_t(at)])]++);
      to.items[place] = first_number + int32_t(i);
      if (!to.values.empty()) to.values[place] = lists.value(at);
    }
  }
}

Lists inverse(int64_t items, std::initializer_list<std::pair<const Lists*, int32_t>> parts) {
  Lists result;
  result.ends.assign(size_t(items), 0);
  bool weighted = false;
  for (const auto& [lists, number] : parts) {
    count_items(*lists, result.ends);
    weighted |= !lists->values.empty();
  }
  std::vector<int64_t> next(size_t(items), 0);
  for (int64_t i = 0, sum = 0; i < items; ++i) {
    next[size_t(i)] = sum;
    sum = result.ends[size_t(i)] += sum;
  }
  result.items.resize(items ? size_t(result.ends.back()) : 0);
  if (weighted) result.values.resize(result.items.size());
  for (const auto& [lists, number] : parts) put_lists(*lists, number, next, result);
  return result;
}

}  // namespace

template <typename R>
Plan<R>::Plan(const Dataset& data, int64_t attributes) {
  const std::vector<int64_t> uses = uses_of_bundles(data);
  std::vector<int32_t> row_of(size_t(data.bundles()), -1);
  for (int64_t u = 0; u < data.bundles(); ++u) {
    if (uses[size_t(u)] < 2 || data.bundle_ends[size_t(u)] - data.bundle_begin(u) < 2) continue;
    row_of[size_t(u)] = int32_t(rows());
    copy_bundle(data, u, bundles_);
    bundles_.close();
  }
  for (int64_t n = 0; n < data.tokens(); ++n) {
    for (int64_t g = 0; g < data.groups; ++g) {
      const int64_t u = data.bundle(n, g);
      if (row_of[size_t(u)] >= 0) {
        token_rows_.items.push_back(row_of[size_t(u)]);
      } else {
        copy_bundle(data, u, token_extras_);
      }
    }
    token_rows_.close();
    token_extras_.close();
  }
  row_tokens_ = inverse(rows(), {{&token_rows_, 0}});
  attribute_rows_ = inverse(attributes, {{&bundles_, 0}, {&token_extras_, int32_t(rows())}});
}

template <typename R>
void Plan<R>::score_rows(const WeightTable<R>& weights, int64_t L, R* rows) const {
  run_balanced(bundles_.ends, [&](int64_t first, int64_t last) {
    std::fill(rows + first * L, rows + last * L, R(0));
    for (int64_t r = first; r < last; ++r)
      for (int64_t at = bundles_.begin(r); at < bundles_.ends[size_t(r)]; ++at)
        weights.add(bundles_.items[size_t(at)], R(bundles_.value(at)), rows + r * L);
  });
}

template <typename R>
void Plan<R>::score_tokens(const WeightTable<R>& weights, int64_t L, const R* rows, int64_t first, int64_t last,
                           R* emissions) const {
  constexpr int64_t chunk = 512;
  const int64_t rows_in_all = int64_t(token_rows_.items.size());
  run_tasks((last - first + chunk - 1) / chunk, num_threads(), [&](int64_t task) {
    const int64_t begin = first + task * chunk, end = std::min(begin + chunk, last);
    std::fill(emissions + (begin - first) * L, emissions + (end - first) * L, R(0));
    for (int64_t n = begin; n < end; ++n) {
      R* emission = emissions + (n - first) * L;
      for (int64_t at = token_rows_.begin(n); at < token_rows_.ends[size_t(n)]; ++at) {
        if (at + ahead < rows_in_all) fetch(rows + token_rows_.items[size_t(at + ahead)] * L, L);
        add_row(emission, rows + token_rows_.items[size_t(at)] * L, R(1), L);
      }
      for (int64_t at = token_extras_.begin(n); at < token_extras_.ends[size_t(n)]; ++at)
        weights.add(token_extras_.items[size_t(at)], R(token_extras_.value(at)), emission);
    }
  });
}

template <typename R>
void Plan<R>::collect_rows(R* rows, int64_t L) const {
  const R* tokens = rows + this->rows() * L;
  const int64_t count = int64_t(row_tokens_.items.size());
  run_balanced(row_tokens_.ends, [&](int64_t first, int64_t last) {
    std::vector<double> sums(static_cast<size_t>(L));
    for (int64_t r = first; r < last; ++r) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t at = row_tokens_.begin(r); at < row_tokens_.ends[size_t(r)]; ++at) {
        if (at + ahead < count) fetch(tokens + row_tokens_.items[size_t(at + ahead)] * L, L);
        add_row(sums.data(), tokens + row_tokens_.items[size_t(at)] * L, 1.0, L);
      }
      std::copy(sums.begin(), sums.end(), rows + r * L);
    }
  });
}

template <typename R>
void Plan<R>::sum_rows(int64_t a, const R* rows, int64_t L, bool absolute, double* sums) const {
  std::fill_n(sums, L, 0.0);
  const int64_t count = int64_t(attribute_rows_.items.size());
  for (int64_t at = attribute_rows_.begin(a); at < attribute_rows_.ends[size_t(a)]; ++at) {
    if (at + ahead < count) fetch(rows + attribute_rows_.items[size_t(at + ahead)] * L, L);
    const double value = attribute_rows_.value(at);
    add_row(sums, rows + attribute_rows_.items[size_t(at)] * L, absolute ? std::fabs(value) : value, L);
  }
}

// An attribute with few labels reads only those of each row.
template <typename R>
void Plan<R>::gradient(const R* rows, const Pairs& pairs, double* gradient) const {
  const int64_t L = pairs.labels_in_all;
  run_balanced(attribute_rows_.ends, [&](int64_t first, int64_t last) {
    std::vector<double> sums(static_cast<size_t>(L));
    for (int64_t a = first; a < last; ++a) {
      const int64_t begin = pairs.begin(a), end = pairs.ends[a];
      if ((end - begin) * 4 > L) {
        sum_rows(a, rows, L, false, sums.data());
        for (int64_t p = begin; p < end; ++p) gradient[p] = sums[pairs.labels[p]];
        continue;
      }
      std::fill(gradient + begin, gradient + end, 0.0);
      for (int64_t at = attribute_rows_.begin(a); at < attribute_rows_.ends[size_t(a)]; ++at) {
        const R* row = rows + attribute_rows_.items[size_t(at)] * L;
        const double value = attribute_rows_.value(at);
        for (int64_t p = begin; p < end; ++p) gradient[p] += value * double(row[pairs.labels[p]]);
      }
    }
  });
}

template class Plan<float>;
template class Plan<double>;

}  // namespace trellis

#include "features/plan.h"

#include "base/threads.h"

#include <algorithm>

namespace trellis {
namespace {

std::vector<int64_t> uses_of_bundles(const Dataset& data) {
  std::vector<int64_t> uses(size_t(data.bundles()), data.token_bundles.empty() ? 1 : 0);
  for (const int32_t u : data.token_bundles) ++uses[size_t(u)];
  return uses;
}

// A list's number turned into the number of its row.
struct Part {
  const Lists* lists;
  int64_t first_row;
};

void put_lists(const Part& part, int64_t from, std::vector<int64_t>& next, Lists& to) {
  const Lists& lists = *part.lists;
  for (int64_t i = 0; i < lists.size(); ++i) {
    for (int64_t at = lists.begin(i); at < lists.ends[size_t(i)]; ++at) {
      const int64_t item = lists.items[size_t(at)] - from;
      if (item < 0 || item >= int64_t(next.size())) continue;
      const size_t place = size_t(next[size_t(item)]++);
      to.items[place] = int32_t(part.first_row + i);
      if (!to.values.empty()) to.values[place] = lists.value(at);
    }
  }
}

// The lists inverted: for each of the items from .. from + count - 1, the rows of the lists that have it.
Lists inverse(int64_t from, int64_t count, std::initializer_list<Part> parts) {
  Lists result;
  result.ends.assign(size_t(count), 0);
  bool weighted = false;
  for (const Part& part : parts) {
    for (int64_t at = 0; at < part.lists->begin(part.lists->size()); ++at) {
      const int64_t item = part.lists->items[size_t(at)] - from;
      if (item >= 0 && item < count) ++result.ends[size_t(item)];
    }
    weighted |= !part.lists->values.empty();
  }
  std::vector<int64_t> next(size_t(count), 0);
  for (int64_t i = 0, sum = 0; i < count; ++i) {
    next[size_t(i)] = sum;
    sum = result.ends[size_t(i)] += sum;
  }
  result.items.resize(size_t(result.begin(count)));
  if (weighted) result.values.resize(result.items.size());
  for (const Part& part : parts) put_lists(part, from, next, result);
  result.finish();
  return result;
}

}  // namespace

template <typename R>
Plan<R>::Plan(const Dataset& data, const Pairs& pairs)
    : pairs_(pairs),
      L_(pairs.labels_in_all),
      attribute_rows_(size_t(pairs.attributes), -1),
      bundle_rows_(size_t(data.bundles()), -1),
      kernels_(row_kernels<R>()),
      rows_(0) {
  number_rows(data);
  // Rows between, so that reading whole vectors of attributes never touches a bundle that is being written.
  bundle_row_ = int64_t(row_attributes_.size()) + rows_padding / L_ + 1;
  token_row_ = bundle_row_ + int64_t(row_bundles_.size());
  for (const int32_t u : row_bundles_) {
    list_bundle(data, u, bundle_parts_, bundle_pairs_);
    bundle_parts_.close(), bundle_pairs_.close();
  }
  for (int64_t n = 0; n < data.tokens(); ++n) {
    for (int64_t g = 0; g < data.groups; ++g) {
      const int64_t u = data.bundle(n, g);
      if (bundle_rows_[size_t(u)] < 0) {
        list_bundle(data, u, token_parts_, token_pairs_);
      } else {
        token_parts_.items.push_back(int32_t(bundle_row_ + bundle_rows_[size_t(u)]));
        if (!data.values.empty()) token_parts_.values.push_back(1.0);
      }
    }
    token_parts_.close(), token_pairs_.close();
  }
  for (Lists* lists : {&bundle_parts_, &bundle_pairs_, &token_parts_, &token_pairs_}) lists->finish();
  const int64_t all_pairs = pairs.attributes ? pairs.ends[pairs.attributes - 1] : 0;
  bundle_uses_ = inverse(bundle_row_, token_row_ - bundle_row_, {{&token_parts_, token_row_}});
  attribute_uses_ = inverse(0, int64_t(row_attributes_.size()), {{&bundle_parts_, bundle_row_}, {&token_parts_, token_row_}});
  pair_uses_ = inverse(0, all_pairs, {{&bundle_pairs_, bundle_row_}, {&token_pairs_, token_row_}});
  bundle_rows_ = {};
  rows_ = Block<R>((token_row_ + data.tokens()) * L_ + rows_padding, R(0));
}

// Rows are numbered in the order of their first use: what one word says at its own place and at its neighbours' lies
// close together, and so do the frequent words.
template <typename R>
void Plan<R>::number_rows(const Dataset& data) {
  const std::vector<int64_t> uses = uses_of_bundles(data);
  for (int64_t n = 0; n < data.tokens(); ++n) {
    for (int64_t g = 0; g < data.groups; ++g) {
      const int64_t u = data.bundle(n, g), begin = data.bundle_begin(u), end = data.bundle_ends[size_t(u)];
      if (bundle_rows_[size_t(u)] >= 0) continue;
      if (uses[size_t(u)] > 1 && end - begin > 1) {
        bundle_rows_[size_t(u)] = int32_t(row_bundles_.size());
        row_bundles_.push_back(int32_t(u));
      }
      for (int64_t e = begin; e < end; ++e) number_attribute(data.attributes[size_t(e)]);
    }
  }
}

template <typename R>
void Plan<R>::number_attribute(int32_t a) {
  if (attribute_rows_[size_t(a)] >= 0 || (pairs_.ends[a] - pairs_.begin(a)) * 4 <= L_) return;
  attribute_rows_[size_t(a)] = int32_t(row_attributes_.size());
  row_attributes_.push_back(a);
}

template <typename R>
void Plan<R>::list_bundle(const Dataset& data, int64_t u, Lists& rows, Lists& pairs) const {
  const auto put = [&](Lists& to, int64_t item, int64_t e) {
    to.items.push_back(int32_t(item));
    if (!data.values.empty()) to.values.push_back(data.values[size_t(e)]);
  };
  for (int64_t e = data.bundle_begin(u); e < data.bundle_ends[size_t(u)]; ++e) {
    const int32_t a = data.attributes[size_t(e)];
    if (attribute_rows_[size_t(a)] >= 0) {
      put(rows, attribute_rows_[size_t(a)], e);
    } else {
      for (int64_t p = pairs_.begin(a); p < pairs_.ends[a]; ++p) put(pairs, p, e);
    }
  }
}

template <typename R>
void Plan<R>::add_pairs(const Lists& pairs, const double* weights, int64_t first, int64_t last, R* rows) const {
  for (int64_t i = first; i < last; ++i, rows += L_) {
    for (int64_t at = pairs.begin(i); at < pairs.ends[size_t(i)]; ++at) {
      __builtin_prefetch(weights + pairs.items[size_t(at + rows_ahead)]);
      const int32_t p = pairs.items[size_t(at)];
      rows[pairs_.labels[p]] += R(pairs.value(at) * weights[p]);
    }
  }
}

template <typename R>
void Plan<R>::score_rows(const double* weights) {
  in_chunks(int64_t(row_attributes_.size()), [&](int64_t i) {
    const int32_t a = row_attributes_[size_t(i)];
    for (int64_t p = pairs_.begin(a); p < pairs_.ends[a]; ++p) rows_[i * L_ + pairs_.labels[p]] = R(weights[p]);
  });
  run_balanced(bundle_parts_.ends, [&](int64_t first, int64_t last) {
    R* to = rows_ + (bundle_row_ + first) * L_;
    kernels_.add(rows_, L_, bundle_parts_.view(), first, last, to);
    add_pairs(bundle_pairs_, weights, first, last, to);
  });
}

template <typename R>
void Plan<R>::score_tokens(const double* weights, int64_t first, int64_t last, R* emissions) const {
  constexpr int64_t chunk = 512;
  run_tasks((last - first + chunk - 1) / chunk, num_threads(), [&](int64_t task) {
    const int64_t begin = first + task * chunk, end = std::min(begin + chunk, last);
    R* to = emissions + (begin - first) * L_;
    kernels_.add(rows_, L_, token_parts_.view(), begin, end, to);
    add_pairs(token_pairs_, weights, begin, end, to);
  });
}

template <typename R>
void Plan<R>::gradient(double* gradient) {
  run_balanced(bundle_uses_.ends, [&](int64_t first, int64_t last) {
    kernels_.collect(rows_, L_, bundle_uses_.view(), first, last, rows_ + (bundle_row_ + first) * L_);
  });
  run_balanced(pair_uses_.ends, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      double sum = 0.0;
      for (int64_t at = pair_uses_.begin(p); at < pair_uses_.ends[size_t(p)]; ++at) {
        __builtin_prefetch(rows_ + pair_uses_.items[size_t(at + rows_ahead)] * L_ + pairs_.labels[p]);
        sum += pair_uses_.value(at) * double(rows_[pair_uses_.items[size_t(at)] * L_ + pairs_.labels[p]]);
      }
      gradient[p] = sum;
    }
  });
  run_balanced(attribute_uses_.ends, [&](int64_t first, int64_t last) {
    std::vector<double> sums(static_cast<size_t>(L_));
    for (int64_t i = first; i < last; ++i) {
      const int32_t a = row_attributes_[size_t(i)];
      kernels_.total(rows_, L_, attribute_uses_.view(), i, i + 1, sums.data());
      for (int64_t p = pairs_.begin(a); p < pairs_.ends[a]; ++p) gradient[p] = sums[pairs_.labels[p]];
    }
  });
}

template class Plan<float>;
template class Plan<double>;

}  // namespace trellis

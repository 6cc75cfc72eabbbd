#include "features/plan.h"

#include "base/threads.h"

#include <algorithm>

namespace trellis::features {

template <typename R>
void Plan<R>::add_pairs(const ListArrays<Borrowed>& pairs, const double* weights, int64_t first, int64_t last,
                        R* rows) const {
  const int32_t* items = pairs.items.data();
  if (!pairs.size()) return;
  for (int64_t i = first; i < last; ++i, rows += L_) {
    for (int64_t at = pairs.begin(i); at < pairs.end(i); ++at) {
      __builtin_prefetch(weights + items[at + rows_ahead]);
      const int32_t p = items[at];
      rows[pairs_.labels[p]] += R(pairs.value(at) * weights[p]);
    }
  }
}

template <typename R>
void Plan<R>::score_rows(const double* weights) {
  if (plan_.windows.size()) return score_units(weights);
  const int32_t* attributes = plan_.row_attributes.data();
  for_chunks(int64_t(plan_.row_attributes.size()), [&](int64_t first, int64_t last) {
    std::fill(rows_ + first * L_, rows_ + last * L_, R(0));
    for (int64_t i = first; i < last; ++i)
      for (int64_t p = pairs_.begin(attributes[i]); p < pairs_.ends[attributes[i]]; ++p)
        rows_[i * L_ + pairs_.labels[p]] = R(weights[p]);
  });
  run_balanced(plan_.bundle_parts.ends.data(), plan_.bundle_parts.size(), [&](int64_t first, int64_t last) {
    R* to = rows_ + (plan_.bundle_row + first) * L_;
    kernels_.add(rows_, L_, plan_.bundle_parts.rows(), first, last, to);
    add_pairs(plan_.bundle_pairs, weights, first, last, to);
  });
}

template <typename R>
void Plan<R>::score_tokens(const double* weights, int64_t first, int64_t last, R* emissions) const {
  if (plan_.windows.size()) return score_places(first, last, emissions);
  constexpr int64_t chunk = 512;
  const int64_t from = plan_.offsets.data()[first], stop = plan_.offsets.data()[last];
  run_tasks(parts_of(stop - from, chunk), num_threads(), [&](int64_t task) {
    const int64_t begin = from + task * chunk, end = std::min(begin + chunk, stop);
    R* to = emissions + (begin - from) * L_;
    kernels_.add(rows_, L_, plan_.token_parts.rows(), begin, end, to);
    add_pairs(plan_.token_pairs, weights, begin, end, to);
  });
}

template <typename R>
void Plan<R>::take_derivatives(int64_t first, int64_t last, const R* derivatives) {
  const int64_t* offsets = plan_.offsets.data();
  for (int64_t b = first; b < last; ++b)
    std::copy(derivatives + (offsets[b] - offsets[first]) * L_, derivatives + (offsets[b + 1] - offsets[first]) * L_,
              rows_ + (plan_.token_row + offsets[b] + plan_.gap * (b + 1)) * L_);
}

template <typename R>
void Plan<R>::add_gradient(double* gradient) {
  if (plan_.windows.size()) {
    add_unit_gradient(gradient);
    return add_row_gradient(gradient);
  }
  run_balanced(plan_.bundle_uses.ends.data(), plan_.bundle_uses.size(), [&](int64_t first, int64_t last) {
    kernels_.collect(rows_, L_, plan_.bundle_uses.rows(), first, last, rows_ + (plan_.bundle_row + first) * L_);
  });
  add_pair_gradient(gradient);
  add_row_gradient(gradient);
}

template <typename R>
void Plan<R>::add_pair_gradient(double* gradient) const {
  const ListArrays<Borrowed>& uses = plan_.pair_uses;
  run_balanced(uses.ends.data(), uses.size(), [&](int64_t first, int64_t last) {
    const int32_t* items = uses.items.data();
    for (int64_t i = first; i < last; ++i) {
      const int32_t p = plan_.used_pairs.data()[i];
      const R* column = rows_ + pairs_.labels[p];
      double sum = 0.0;
      for (int64_t at = uses.begin(i); at < uses.end(i); ++at) {
        __builtin_prefetch(column + items[at + rows_ahead] * L_);
        sum += uses.value(at) * double(column[items[at] * L_]);
      }
      gradient[p] += sum;
    }
  });
}

template <typename R>
void Plan<R>::add_row_gradient(double* gradient) const {
  constexpr int64_t at_once = 64;
  const ListArrays<Borrowed>& uses = plan_.attribute_uses;
  run_balanced(uses.ends.data(), uses.size(), [&](int64_t first, int64_t last) {
    std::vector<double> sums(static_cast<size_t>(at_once * L_));
    for (int64_t from = first; from < last; from += at_once) {
      const int64_t to = std::min(from + at_once, last);
      kernels_.total(rows_, L_, uses.rows(), from, to, sums.data());
      for (int64_t i = from; i < to; ++i) {
        const int32_t a = plan_.row_attributes.data()[i];
        const double* own = sums.data() + (i - from) * L_;
        for (int64_t p = pairs_.begin(a); p < pairs_.ends[a]; ++p) gradient[p] += own[pairs_.labels[p]];
      }
    }
  });
}

// row[l] = the sum of the weights of its attributes
template <typename R>
void Plan<R>::score_units(const double* weights) {
  const ListArrays<Borrowed>& parts = plan_.row_parts;
  for_chunks(parts.size(), [&](int64_t first, int64_t last) {
    std::fill(rows_ + first * L_, rows_ + last * L_, R(0));
    for (int64_t i = first, at = parts.begin(i); i < last; ++i) {
      R* row = rows_ + i * L_;
      for_own_pairs(i, [&](int64_t p, int l) { row[l] = R(weights[p]); });
      for (; at < parts.end(i); ++at) {
        const int32_t a = parts.items.data()[at];
        for (int64_t p = pairs_.begin(a); p < pairs_.ends[a]; ++p) row[pairs_.labels[p]] += R(weights[p]);
      }
    }
  });
}

template <typename R>
void Plan<R>::score_places(int64_t first, int64_t last, R* emissions) const {
  constexpr int64_t chunk = 16;
  const int64_t* offsets = plan_.offsets.data();
  run_tasks(parts_of(last - first, chunk), num_threads(), [&](int64_t task) {
    std::vector<PlaceList> windows(plan_.windows.size());
    const int64_t begin = first + task * chunk, end = std::min(begin + chunk, last);
    for (int64_t b = begin; b < end; ++b) {
      for (size_t w = 0; w < windows.size(); ++w) {
        const WindowRows& own = plan_.windows.data()[w];
        windows[w] = {plan_.places.data() + own.first_place + offsets[b] + (own.width - 1) * b, own.width};
      }
      kernels_.add_places(rows_, L_, windows.data(), int64_t(windows.size()), offsets[b + 1] - offsets[b],
                          emissions + (offsets[b] - offsets[first]) * L_);
    }
  });
}

// Rows' own attributes get their gradient at once.
template <typename R>
void Plan<R>::add_unit_gradient(double* gradient) {
  constexpr int64_t at_once = 64;
  const ListArrays<Borrowed>& uses = plan_.unit_uses;
  run_balanced(uses.ends.data(), uses.size(), [&](int64_t first, int64_t last) {
    for (size_t w = 0; w < plan_.windows.size(); ++w) {
      const WindowRows& own = plan_.windows.data()[w];
      const int64_t stop = w + 1 < plan_.windows.size() ? plan_.windows.data()[w + 1].first_unit : uses.size();
      for (int64_t from = std::max(first, own.first_unit); from < std::min(last, stop); from += at_once) {
        const int64_t to = std::min({from + at_once, last, stop});
        const int64_t row = own.first_row + (from - own.first_unit) * own.width;
        kernels_.collect_places(rows_, L_, uses.rows(), from, to, own.width, rows_ + row * L_);
        for (int64_t i = row; i < row + (to - from) * own.width; ++i)
          for_own_pairs(i, [&](int64_t p, int l) { gradient[p] += double(rows_[i * L_ + l]); });
      }
    }
  });
}

template class Plan<float>;
template class Plan<double>;

}  // namespace trellis::features

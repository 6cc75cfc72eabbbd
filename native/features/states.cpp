#include "features/states.h"

#include "features/scoring.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trellis::features {
namespace {

// What the bundles say about labels: how often each label stands at a token that has the bundle. A token whose label
// is partly known counts for each label it may have, a token of unknown label for none.
class LabelCounts {
 public:
  LabelCounts(const Dataset& data, const Supervision& known, int64_t L)
      : known_(known), L_(L), token_of_(size_t(data.bundles()), -1), row_of_(size_t(data.bundles()), -1) {
    for_uses(data, [&](int64_t n, size_t u) {
      if (token_of_[u] >= 0 && row_of_[u] < 0) row_of_[u] = rows_in_all_++;
      token_of_[u] = int32_t(n);
    });
    rows_.assign(size_t(rows_in_all_ * L), 0.0);
    for_uses(data, [&](int64_t n, size_t u) {
      if (row_of_[u] >= 0) add_token(n, 1.0, rows_.data() + row_of_[u] * L_);
    });
  }

  // counts[l] += value * how often label l is that of a token with bundle u
  void add(int64_t u, double value, double* counts) const {
    const int32_t row = row_of_[size_t(u)];
    if (row >= 0) return row_kernels<double>().add_row(counts, rows_.data() + row * L_, value, L_);
    if (token_of_[size_t(u)] >= 0) add_token(token_of_[size_t(u)], value, counts);
  }

 private:
  template <typename F>
  static void for_uses(const Dataset& data, F f) {
    for (int64_t n = 0; n < data.tokens(); ++n)
      for (int64_t g = 0; g < data.groups; ++g) f(n, size_t(data.bundle(n, g)));
  }
  void add_token(int64_t n, double value, double* counts) const {
    if (!known_.allowed) {
      counts[known_.tags[n]] += value;
      return;
    }
    const uint8_t* allowed = known_.allowed + n * L_;
    if (std::find(allowed, allowed + L_, 0) == allowed + L_) return;
    for (int64_t l = 0; l < L_; ++l) counts[l] += allowed[l] ? value : 0.0;
  }

  const Supervision& known_;
  int64_t L_;
  std::vector<int32_t> token_of_, row_of_;  // [U] the only token, or the row of counts
  int32_t rows_in_all_ = 0;
  std::vector<double> rows_;
};

// For each attribute the entries of the data that have it, with the bundles they belong to.
struct Entries {
  std::vector<int64_t> ends;  // [A]
  std::vector<int32_t> bundles;
  std::vector<double> values;  // absolute

  Entries(const Dataset& data, int64_t attributes) : ends(size_t(attributes), 0) {
    for (const int32_t a : data.attributes) ++ends[size_t(a)];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    bundles.resize(data.attributes.size());
    values.resize(data.values.size());
    std::vector<int64_t> next(ends);
    for (int64_t u = data.bundles() - 1; u >= 0; --u) {
      for (int64_t e = data.bundle_ends[size_t(u)] - 1; e >= data.bundle_begin(u); --e) {
        const size_t place = size_t(--next[size_t(data.attributes[size_t(e)])]);
        bundles[place] = int32_t(u);
        if (!values.empty()) values[place] = std::fabs(data.values[size_t(e)]);
      }
    }
  }
};

}  // namespace

StateFeatures choose_states(const Dataset& data, const Supervision& known, int64_t attributes, int64_t L,
                            double min_freq, bool all, std::vector<double>* counts_of) {
  const LabelCounts labels(data, known, L);
  const Entries entries(data, attributes);
  // f(a, l, count) for each label l to keep, attribute by attribute
  const auto for_kept = [&](auto f) {
    run_balanced(entries.ends.data(), attributes, [&](int64_t first, int64_t last) {
      std::vector<double> counts(static_cast<size_t>(L));
      for (int64_t a = first; a < last; ++a) {
        std::fill(counts.begin(), counts.end(), 0.0);
        for (int64_t at = a ? entries.ends[size_t(a) - 1] : 0; at < entries.ends[size_t(a)]; ++at)
          labels.add(entries.bundles[size_t(at)], entries.values.empty() ? 1.0 : entries.values[size_t(at)],
                     counts.data());
        for (int64_t l = 0; l < L; ++l)
          if (all || (counts[size_t(l)] > 0.0 && counts[size_t(l)] >= min_freq)) f(a, l, counts[size_t(l)]);
      }
    });
  };
  StateFeatures states;
  states.ends.assign(size_t(attributes), 0);
  for_kept([&](int64_t a, int64_t, double) { ++states.ends[size_t(a)]; });
  std::partial_sum(states.ends.begin(), states.ends.end(), states.ends.begin());
  states.labels.resize(states.ends.empty() ? 0 : size_t(states.ends.back()));
  std::vector<int64_t> next(size_t(attributes), 0);
  for (int64_t a = 1; a < attributes; ++a) next[size_t(a)] = states.ends[size_t(a) - 1];
  if (counts_of) counts_of->resize(states.labels.size());
  for_kept([&](int64_t a, int64_t l, double count) {
    const size_t place = size_t(next[size_t(a)]++);
    states.labels[place] = uint16_t(l);
    if (counts_of) (*counts_of)[place] = count;
  });
  return states;
}

}  // namespace trellis::features

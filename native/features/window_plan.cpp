// A plan of few rows for few labels: the units of windows (dataset.h) are `width` rows one after another, and a place adds
// row i of its unit to the emissions of token q - (width - 1) + i.
//
//   emissions[n] = sum over windows w, i < width of w:  row[place[w, n + width - 1 - i] + i]
//   row of a unit = the sum of the weights of its attributes
//
// A place is stored once for all tokens that it reaches, and so are its uses on the way back, where derivatives of a
// unit's rows are sums over its places of as many tokens' rows, which lie side by side. Rows of zeros between sentences
// stand for tokens beyond their edges.
#include "features/plan.h"

#include <algorithm>
#include <numeric>

namespace trellis::features {
namespace {

using Lists = ListArrays<Vector>;

class WindowPlanning {
 public:
  WindowPlanning(const Dataset& data, const Pairs& pairs) : data_(data), pairs_(pairs) {}

  PlanArrays<Vector> make() {
    plan_.offsets = data_.offsets;
    for (const Window& window : data_.windows) number_rows(window);
    // Rows between, so that reading whole vectors of units never touches a token that is being written.
    plan_.token_row = int64_t(row_bundles_.size()) + rows_padding / pairs_.labels_in_all + 1;
    list_attributes();
    list_uses();
    plan_.places.insert(plan_.places.end(), rows_ahead, 0);
    return std::move(plan_);
  }

 private:
  void number_rows(const Window& window) {
    constexpr int64_t align = 16;  // the first unit begins with a cache line
    row_bundles_.resize(size_t(round_up(int64_t(row_bundles_.size()), align)), -1);
    const int64_t first_row = int64_t(row_bundles_.size()), width = window.width();
    plan_.windows.push_back({width, first_row, units_, int64_t(plan_.places.size())});
    plan_.gap = std::max(plan_.gap, width - 1);
    checked_count(first_row + int64_t(window.bundles.size()), "rows of features");
    row_bundles_.insert(row_bundles_.end(), window.bundles.begin(), window.bundles.end());
    units_ += int64_t(window.bundles.size()) / width;
    for (const int32_t unit : window.places) plan_.places.push_back(int32_t(first_row + unit * width));
  }

  // f(attribute) for all that have weights, row by row; between() after each row
  template <typename F, typename G>
  void for_attributes(F f, G between) const {
    for (const int32_t u : row_bundles_) {
      for (int64_t e = u < 0 ? 0 : data_.bundle_begin(u); e < (u < 0 ? 0 : data_.bundle_ends[size_t(u)]); ++e)
        if (const int32_t a = data_.attributes[size_t(e)]; pairs_.begin(a) < pairs_.ends[a]) f(a);
      between();
    }
  }
  // An attribute of one row only is its own, the first of them if there are several; lists have the others.
  void list_attributes() {
    std::vector<uint32_t> uses(size_t(pairs_.attributes), 0);
    for_attributes([&](int32_t a) { ++uses[size_t(a)]; }, [] {});
    int32_t own = -1;
    const auto put = [&](int32_t a) {
      if (own >= 0 || uses[size_t(a)] > 1) return plan_.row_parts.items.push_back(a);
      own = a;
      uses[size_t(a)] = 0;
    };
    for_attributes(put, [&] {
      plan_.row_pairs.push_back(own < 0 ? 0 : int32_t(pairs_.begin(own)));
      plan_.row_labels.push_back(own < 0 ? uint8_t(0) : labels_of(own));
      own = -1;
      close_list(plan_.row_parts);
    });
    list_attribute_uses(std::move(uses));
    finish_lists(plan_.row_parts);
  }
  uint8_t labels_of(int32_t a) const {
    unsigned labels = 0;
    for (int64_t p = pairs_.begin(a); p < pairs_.ends[a]; ++p) labels |= 1u << pairs_.labels[p];
    return uint8_t(labels);
  }
  void list_attribute_uses(std::vector<uint32_t> uses) {
    Lists& found = plan_.attribute_uses;
    uint32_t end = 0;
    for (size_t a = 0; a < uses.size(); ++a) {
      if (!uses[a]) continue;
      found.ends.push_back(end);  // where it begins, which grows to its end
      end += uses[a];
      uses[a] = uint32_t(plan_.row_attributes.size());
      plan_.row_attributes.push_back(int32_t(a));
    }
    found.items.resize(end);
    for (int64_t row = 0, at = 0; row < plan_.row_parts.size(); ++row)
      for (; at < plan_.row_parts.end(row); ++at)
        found.items[found.ends[uses[size_t(plan_.row_parts.items[size_t(at)])]]++] = int32_t(row);
    finish_lists(found);
  }

  // f(unit, row of the first token that it says something about) for all places
  template <typename F>
  void for_uses(F f) const {
    for (const WindowRows& window : plan_.windows) {
      const int32_t* place = plan_.places.data() + window.first_place;
      const int64_t reach = window.width - 1;
      for (int64_t b = 0; b < data_.sentences(); ++b) {
        const int64_t first = data_.offsets[size_t(b)], T = data_.offsets[size_t(b) + 1] - first;
        const int64_t row = plan_.token_row + first + plan_.gap * (b + 1) - reach;
        for (int64_t q = 0; q < T + reach; ++q, ++place)
          if (T) f(window.first_unit + (*place - window.first_row) / window.width, row + q);
      }
    }
  }
  void list_uses() {
    checked_count(plan_.rows(), "rows of features and tokens");
    checked_count(int64_t(plan_.places.size()), "places of tokens");
    Lists& uses = plan_.unit_uses;
    uses.ends.assign(size_t(units_) + 1, 0);
    for_uses([&](int64_t unit, int64_t) { ++uses.ends[size_t(unit) + 1]; });
    std::partial_sum(uses.ends.begin(), uses.ends.end(), uses.ends.begin());
    uses.items.resize(uses.ends.back());
    for_uses([&](int64_t unit, int64_t row) { uses.items[uses.ends[size_t(unit)]++] = int32_t(row); });
    uses.ends.pop_back();
    finish_lists(uses);
  }

  const Dataset& data_;
  const Pairs& pairs_;
  std::vector<int32_t> row_bundles_;  // of each row of the units, or -1
  int64_t units_ = 0;
  PlanArrays<Vector> plan_;
};

}  // namespace

bool has_windows(const Dataset& data, const Pairs& pairs) {
  return pairs.labels_in_all <= narrow && !data.windows.empty();
}

PlanArrays<Vector> plan_windows(const Dataset& data, const Pairs& pairs) { return WindowPlanning(data, pairs).make(); }

}  // namespace trellis::features

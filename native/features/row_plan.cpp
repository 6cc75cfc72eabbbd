#include "features/plan.h"

#include "base/threads.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace trellis::features {
namespace {

constexpr int64_t alignment = 64;  // of each array of a plan

using Lists = ListArrays<Vector>;

// Lists that all are empty are no lists.
void finish_pairs(Lists& lists) {
  if (lists.items.empty()) lists.ends = {};
  finish_lists(lists);
}

// A list's number turned into the number of its row.
struct Part {
  const Lists* lists;
  int64_t first_row;
};

void put_lists(const Part& part, int64_t from, std::vector<uint32_t>& next, Lists& to) {
  const Lists& lists = *part.lists;
  for (int64_t i = 0; i < lists.size(); ++i) {
    for (int64_t at = lists.begin(i); at < lists.end(i); ++at) {
      const int64_t item = lists.items[size_t(at)] - from;
      if (item < 0 || item >= int64_t(next.size())) continue;
      const size_t place = next[size_t(item)]++;
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
  std::vector<uint32_t> next(size_t(count), 0);
  for (int64_t i = 0; i < count; ++i) {
    next[size_t(i)] = uint32_t(result.begin(i));
    result.ends[size_t(i)] += next[size_t(i)];
  }
  result.items.resize(size_t(result.begin(count)));
  if (weighted) result.values.resize(result.items.size());
  for (const Part& part : parts) put_lists(part, from, next, result);
  finish_lists(result);
  return result;
}

// The rising numbers that occur, and the place of each among them (else -1).
std::vector<int32_t> rank(std::vector<int32_t> found, std::vector<int32_t>& ranks) {
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (size_t i = 0; i < found.size(); ++i) ranks[size_t(found[i])] = int32_t(i);
  return found;
}

class Planning {
 public:
  Planning(const Dataset& data, const Pairs& pairs)
      : data_(data),
        pairs_(pairs),
        attribute_rows_(size_t(pairs.attributes), -1),
        bundle_rows_(size_t(data.bundles()), -1) {}

  PlanArrays<Vector> make() {
    plan_.offsets = data_.offsets;
    number_rows();
    // Rows between, so that reading whole vectors of one kind never touches what is being written of the next one.
    const int64_t between = rows_padding / pairs_.labels_in_all + 1, bundles = int64_t(row_bundles_.size());
    plan_.bundle_row = int64_t(plan_.row_attributes.size()) + between;
    plan_.token_row = plan_.bundle_row + bundles + (bundles ? between : 0);
    run_tasks(2, num_threads(), [&](int64_t kind) { kind == 0 ? list_tokens() : list_bundles(); });
    invert();
    return std::move(plan_);
  }

 private:
  // Bundles are numbered in the order of their first use: frequent ones lie close together. Attributes keep their
  // order, so that their weights and their gradient are read and written from front to back.
  void number_rows() {
    std::vector<uint8_t> uses(size_t(data_.bundles()), data_.token_bundles.empty() ? 1 : 0);
    for (const int32_t u : data_.token_bundles) uses[size_t(u)] = uint8_t(std::min(2, uses[size_t(u)] + 1));
    for (int64_t n = 0; n < data_.tokens(); ++n) {
      for (int64_t g = 0; g < data_.groups; ++g) {
        const int64_t u = data_.bundle(n, g);
        if (bundle_rows_[size_t(u)] >= 0 || uses[size_t(u)] < 2) continue;
        if (data_.bundle_ends[size_t(u)] - data_.bundle_begin(u) < 2) continue;
        bundle_rows_[size_t(u)] = int32_t(row_bundles_.size());
        row_bundles_.push_back(int32_t(u));
      }
    }
    std::vector<int32_t> found;
    for (const int32_t a : data_.attributes) {
      if (attribute_rows_[size_t(a)] >= 0 || !has_row(a)) continue;
      attribute_rows_[size_t(a)] = 0;
      found.push_back(a);
    }
    plan_.row_attributes = rank(std::move(found), attribute_rows_);
  }
  bool has_row(int32_t a) const {
    const int64_t count = pairs_.ends[a] - pairs_.begin(a);
    return is_dense(count, pairs_.labels_in_all);
  }

  void list_bundle(int64_t u, Lists& rows, Lists& pairs) const {
    const auto put = [&](Lists& to, int64_t item, int64_t e) {
      to.items.push_back(int32_t(item));
      if (!data_.values.empty()) to.values.push_back(data_.values[size_t(e)]);
    };
    for (int64_t e = data_.bundle_begin(u); e < data_.bundle_ends[size_t(u)]; ++e) {
      const int32_t a = data_.attributes[size_t(e)];
      if (attribute_rows_[size_t(a)] >= 0) {
        put(rows, attribute_rows_[size_t(a)], e);
      } else {
        for (int64_t p = pairs_.begin(a); p < pairs_.ends[a]; ++p) put(pairs, p, e);
      }
    }
  }
  void list_bundles() {
    for (const int32_t u : row_bundles_) {
      list_bundle(u, plan_.bundle_parts, plan_.bundle_pairs);
      close_list(plan_.bundle_parts), close_list(plan_.bundle_pairs);
    }
    finish_lists(plan_.bundle_parts), finish_pairs(plan_.bundle_pairs);
  }
  void list_tokens() {
    for (int64_t n = 0; n < data_.tokens(); ++n) {
      for (int64_t g = 0; g < data_.groups; ++g) {
        const int64_t u = data_.bundle(n, g);
        if (bundle_rows_[size_t(u)] < 0) {
          list_bundle(u, plan_.token_parts, plan_.token_pairs);
        } else {
          plan_.token_parts.items.push_back(int32_t(plan_.bundle_row + bundle_rows_[size_t(u)]));
          if (!data_.values.empty()) plan_.token_parts.values.push_back(1.0);
        }
      }
      close_list(plan_.token_parts), close_list(plan_.token_pairs);
    }
    finish_lists(plan_.token_parts), finish_pairs(plan_.token_pairs);
  }

  // From items to lists.
  void invert() {
    run_tasks(3, num_threads(), [&](int64_t kind) {
      kind == 0 ? invert_tokens() : kind == 1 ? invert_attributes() : invert_pairs();
    });
  }
  void invert_tokens() {
    plan_.bundle_uses =
        inverse(plan_.bundle_row, int64_t(row_bundles_.size()), {{&plan_.token_parts, plan_.token_row}});
  }
  void invert_attributes() {
    plan_.attribute_uses = inverse(0, int64_t(plan_.row_attributes.size()),
                                   {{&plan_.bundle_parts, plan_.bundle_row}, {&plan_.token_parts, plan_.token_row}});
  }
  // Only pairs that occur in lists of pairs get a list of uses.
  void invert_pairs() {
    std::vector<int32_t> found, places(size_t(pairs_.count()), -1);
    for (const Lists* lists : {&plan_.bundle_pairs, &plan_.token_pairs}) {
      for (int64_t at = 0; at < lists->begin(lists->size()); ++at) {
        const int32_t p = lists->items[size_t(at)];
        if (places[size_t(p)] < 0) places[size_t(p)] = 0, found.push_back(p);
      }
    }
    plan_.used_pairs = rank(std::move(found), places);
    Lists bundles = numbered(plan_.bundle_pairs, places), tokens = numbered(plan_.token_pairs, places);
    plan_.pair_uses = inverse(0, int64_t(plan_.used_pairs.size()),
                              {{&bundles, plan_.bundle_row}, {&tokens, plan_.token_row}});
  }
  static Lists numbered(const Lists& lists, const std::vector<int32_t>& places) {
    Lists result = lists;
    for (int64_t at = 0; at < lists.begin(lists.size()); ++at)
      result.items[size_t(at)] = places[size_t(lists.items[size_t(at)])];
    return result;
  }

  const Dataset& data_;
  const Pairs& pairs_;
  std::vector<int32_t> attribute_rows_;  // [A] or -1
  std::vector<int32_t> bundle_rows_;     // [U] counted from bundle_row, or -1
  std::vector<int32_t> row_bundles_;
  PlanArrays<Vector> plan_;
};

int64_t aligned(int64_t bytes) { return round_up(bytes, alignment); }

// A plan begins with these numbers: bundle_row, token_row, gap and the sizes of the arrays.
constexpr int64_t most_header = 64;

}  // namespace

void close_list(Lists& lists) {
  lists.ends.push_back(uint32_t(checked_count(int64_t(lists.items.size()), "features of tokens")));
}

void finish_lists(Lists& lists) { lists.items.insert(lists.items.end(), rows_ahead, 0); }

FlatPlan make_plan(const Dataset& data, const Pairs& pairs) {
  data.check_counts();
  PlanArrays<Vector> plan = has_windows(data, pairs) ? plan_windows(data, pairs) : Planning(data, pairs).make();
  int64_t header[most_header] = {plan.bundle_row, plan.token_row, plan.gap}, count = 3, size = sizeof header;
  plan.for_arrays([&](const auto& array) {
    header[count++] = int64_t(array.size());
    size += aligned(int64_t(array.size() * sizeof array[0]));
  });
  FlatPlan flat{Block<char>(size), size};
  char* to = flat.bytes;
  std::memcpy(to, header, sizeof header);
  to += sizeof header;
  plan.for_arrays([&](auto& array) {
    const size_t bytes = array.size() * sizeof array[0];
    if (bytes) std::memcpy(to, array.data(), bytes);
    std::memset(to + bytes, 0, size_t(aligned(int64_t(bytes))) - bytes);
    to += aligned(int64_t(bytes));
    release(array);
  });
  return flat;
}

PlanView read_plan(const char* bytes, int64_t size) {
  PlanView plan;
  int64_t header[most_header], count = 3, at = sizeof header;
  const auto refuse_unless = [](bool fits) {
    if (!fits) throw std::invalid_argument("these bytes are not a plan of features");
  };
  refuse_unless(size >= at && reinterpret_cast<uintptr_t>(bytes) % alignof(int64_t) == 0);
  std::memcpy(header, bytes, sizeof header);
  plan.bundle_row = header[0], plan.token_row = header[1], plan.gap = header[2];
  plan.for_arrays([&](auto& array) {
    constexpr int64_t item = sizeof *array.data();
    const int64_t items = header[count++];
    refuse_unless(items >= 0 && items <= (size - at) / item && aligned(items * item) <= size - at);
    array.point_to(bytes + at, items);
    at += aligned(items * item);
  });
  refuse_unless(at == size && plan.offsets.size() > 0);
  return plan;
}

}  // namespace trellis::features

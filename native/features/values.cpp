#include "features/values.h"

#include <algorithm>
#include <limits>

namespace trellis::features {
namespace {

constexpr uint64_t most_direct = 4096;  // keys of a table that has a place for each
constexpr int64_t narrow = 16;          // rows up to this width are never lists

// The uses of a shape while names are read: the numbers of its values, one after another, and whose they are.
struct Read {
  std::vector<int32_t> values;  // [uses, parts]
  std::vector<int32_t> entries, attributes;
};

// With keys for the numbers of values.
template <typename R>
std::vector<typename Grams<R>::Use> uses_of(const Read& read, const std::vector<uint64_t>& radices) {
  std::vector<typename Grams<R>::Use> uses(read.entries.size());
  const int32_t* values = read.values.data();
  for (size_t i = 0; i < uses.size(); ++i, values += radices.size()) {
    uint64_t key = 0;
    for (size_t part = radices.size(); part-- > 0;) key = key * radices[part] + uint64_t(values[part]);
    uses[i] = {key, read.entries[i], read.attributes[i]};
  }
  return uses;
}

}  // namespace

template <typename R>
bool Grams<R>::set_radices(const std::vector<uint64_t>& counts) {
  radices_ = counts;
  for (const uint64_t count : counts) {
    if (count && possible_ > (no_key - 1) / count) return false;
    possible_ *= count;
  }
  direct_ = counts.size() < 2 || possible_ <= most_direct;
  return true;
}

template <typename R>
int64_t Grams<R>::find(const GramPlace* places, int64_t count, GramHit* hits) const {
  if (!direct_) return gram_kernels<R>().find(table_.view(), places, count, hits);
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    hits[found] = {places[i].place, slots_[places[i].key]};
    found += hits[found].slot.count != 0;
  }
  return found;
}

// The numbers of the keys: the keys themselves, or in the order of their first appearance. Slots hold them for now.
template <typename R>
std::vector<uint32_t> Grams<R>::number(const std::vector<Use>& uses) {
  std::vector<uint32_t> numbers(size_t(checked_count(int64_t(uses.size()), "uses of features")));
  if (!direct_) table_ = KeyTable<GramSlot>(uses.size() / first_rows_.size());
  for (size_t i = 0; i < uses.size(); ++i) {
    constexpr size_t ahead = 16;
    if (!direct_ && i + ahead < uses.size()) table_.fetch(uses[i + ahead].key);
    numbers[i] = direct_ ? uint32_t(uses[i].key) : table_.add(uses[i].key, {uint32_t(table_.count()), 0}).begin;
  }
  return numbers;
}

// The weights of each key, full rows or lists; then the slots say where they are.
template <typename R>
void Grams<R>::lay_out(const std::vector<Use>& uses, const std::vector<uint32_t>& ids, const Pairs& pairs,
                       const R* weights) {
  std::vector<uint32_t> counts(direct_ ? possible_ : table_.count(), 0);
  for (size_t i = 0; i < uses.size(); ++i)
    counts[ids[i]] += uint32_t(pairs.ends[uses[i].attribute] - pairs.begin(uses[i].attribute));
  std::vector<GramSlot> places(counts.size());
  int64_t rows = 0, listed = 0;
  for (size_t id = 0; id < places.size(); ++id) {
    if (!counts[id]) continue;
    const bool full = width() <= narrow || int64_t(counts[id]) * 4 > width();
    places[id] = {uint32_t(full ? rows++ : listed), full ? gram_row : int32_t(counts[id])};
    listed += full ? 0 : counts[id];
  }
  checked_count(rows, "rows of weights"), checked_count(listed, "weights in lists");
  rows_ = Block<R>(rows * width(), R(0));
  weights_.resize(size_t(listed));
  std::vector<uint32_t>& next = counts;
  for (size_t id = 0; id < places.size(); ++id) next[id] = places[id].begin;
  for (size_t i = 0; i < uses.size(); ++i) {
    const auto& [key, entry, attribute] = uses[i];
    for (int64_t p = pairs.begin(attribute); p < pairs.ends[attribute]; ++p) {
      if (places[ids[i]].count == gram_row) {
        rows_[int64_t(places[ids[i]].begin) * width() + entry * L_ + pairs.labels[p]] += weights[p];
      } else {
        weights_[next[ids[i]]++] = {pairs.labels[p], uint16_t(entry), weights[p]};
      }
    }
  }
  if (direct_) {
    slots_ = std::move(places);
    return;
  }
  table_.for_values([&](GramSlot& slot) { slot = places[slot.begin]; });
}

template <typename R>
void Grams<R>::make(const Shape& shape, const std::vector<Use>& uses, const Pairs& pairs, const R* weights) {
  first_rows_.assign(shape.first_rows.begin(), shape.first_rows.end());
  L_ = pairs.labels_in_all;
  lay_out(uses, number(uses), pairs, weights);
}

template <typename R>
bool ValueWeights<R>::make(const IndexView& attributes, const Pairs& pairs, const R* weights) {
  if (!origins.readable()) return false;
  L = pairs.labels_in_all;
  const std::vector<Shape>& shapes = origins.shapes();
  std::vector<Read> read(shapes.size());
  std::vector<int32_t> numbers;
  std::vector<std::string_view> spare;
  for (int64_t a = 0; a < pairs.attributes; ++a) {
    if (pairs.begin(a) == pairs.ends[a]) continue;
    const bool listed = origins.for_origins(attributes[uint64_t(a)], spare, [&](const Form& form, const auto& values) {
      const std::vector<Part>& parts = shapes[size_t(form.shape)].parts;
      numbers.assign(parts.size(), -1);
      for (size_t i = 0; i < values.size(); ++i) {
        const size_t part = size_t(form.parts[i]);
        const int32_t number = int32_t(known[size_t(parts[part].reading)].add(values[i]));
        if (numbers[part] >= 0 && numbers[part] != number) return;  // one cell cannot read as two values
        numbers[part] = number;
      }
      Read& own = read[size_t(form.shape)];
      own.values.insert(own.values.end(), numbers.begin(), numbers.end());
      own.entries.push_back(form.entry);
      own.attributes.push_back(int32_t(a));
    });
    if (!listed) return false;
  }
  grams = std::vector<Grams<R>>(shapes.size());
  for (size_t s = 0; s < shapes.size(); ++s) {
    std::vector<uint64_t> counts;
    for (const Part& part : shapes[s].parts) counts.push_back(uint64_t(known[size_t(part.reading)].count()));
    if (!grams[s].set_radices(counts)) return false;
  }
  run_tasks(int64_t(shapes.size()), num_threads(), [&](int64_t s) {
    grams[size_t(s)].make(shapes[size_t(s)], uses_of<R>(read[size_t(s)], grams[size_t(s)].radices()), pairs, weights);
    read[size_t(s)] = {};
  });
  for (size_t r = 0; r < known.size(); ++r) {
    const int shape = origins.shape_alone(int(r));
    if (shape < 0) continue;
    known[r].set_slots(grams[size_t(shape)].slots());
    grams[size_t(shape)].forget_slots();
  }
  return true;
}

template class Grams<float>;
template class Grams<double>;
template struct ValueWeights<float>;
template struct ValueWeights<double>;

}  // namespace trellis::features

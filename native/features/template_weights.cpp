#include "features/template_weights.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace trellis::features {

template <typename R>
void ShapeWeights<R>::set_radices(const std::vector<uint64_t>& values) {
  constexpr uint64_t most_direct = 4096;  // keys of a table that has a place for each
  radices_ = values;
  bool fits = true;
  for (const uint64_t count : values) {
    fits = fits && (!count || possible_ <= (no_key - 1) / count);
    if (fits) possible_ *= count;
  }
  // More than 64 bits: keys are hashes, of which two out of a million are the same once in 10^7 models.
  if (!fits) std::fill(radices_.begin(), radices_.end(), 0x9e3779b97f4a7c15ull);
  direct_ = values.size() < 2 || (fits && possible_ <= most_direct);
}

template <typename R>
int64_t ShapeWeights<R>::find(const KeyPlace* places, int64_t count, BlockPlace* found) const {
  if (!direct_) return block_kernels<R>().find(table_.view(), places, count, found);
  int64_t n = 0;
  for (int64_t i = 0; i < count; ++i) {
    found[n] = {places[i].place, slots_[places[i].key]};
    n += found[n].slot.count != 0;
  }
  return n;
}

// The weights of each key, in full or as a list. Blocks are numbered by their keys or, if those are many, in the order of
// their first appearance: the table holds the numbers until it is known where the blocks are.
template <typename R>
void ShapeWeights<R>::make(const Shape& shape, const std::vector<Use>& uses, const Pairs& pairs, const R* weights) {
  first_rows_.assign(shape.first_rows.begin(), shape.first_rows.end());
  L_ = pairs.labels_in_all;
  checked_count(int64_t(uses.size()), "uses of features");
  if (!direct_) table_ = HashTable<WeightSlot>(uses.size() / first_rows_.size());
  std::vector<uint32_t> blocks(uses.size()), counts(direct_ ? possible_ : 0, 0);  // of each use; of weights by block
  counts.reserve(uses.size());
  for (size_t i = 0; i < uses.size(); ++i) {
    constexpr size_t ahead = 16;
    if (!direct_ && i + ahead < uses.size()) table_.fetch(uses[i + ahead].key);
    blocks[i] = direct_ ? uint32_t(uses[i].key) : table_.add(uses[i].key, {uint32_t(table_.count()), 0}).begin;
    if (blocks[i] == counts.size()) counts.push_back(0);
    counts[blocks[i]] += uint32_t(pairs.ends[uses[i].attribute] - pairs.begin(uses[i].attribute));
  }
  std::vector<WeightSlot> slots(counts.size());
  int64_t full = 0, listed = 0;
  for (size_t b = 0; b < slots.size(); ++b) {
    const bool dense = is_dense(counts[b], width(), 16);
    slots[b] = {uint32_t(dense ? full++ : listed), dense ? full_block : int32_t(counts[b])};
    listed += dense ? 0 : counts[b];
    counts[b] = slots[b].begin;  // from here on the next place in the list
  }
  checked_count(full, "blocks of weights"), checked_count(listed, "weights in lists");
  full_ = Block<R>(full * width(), R(0));
  listed_.resize(size_t(listed));
  for (size_t i = 0; i < uses.size(); ++i) {
    const auto& [key, entry, attribute] = uses[i];
    const WeightSlot& slot = slots[blocks[i]];
    for (int64_t p = pairs.begin(attribute); p < pairs.ends[attribute]; ++p) {
      if (slot.count == full_block) {
        full_[int64_t(slot.begin) * width() + entry * L_ + pairs.labels[p]] += weights[p];
      } else {
        listed_[counts[blocks[i]]++] = {pairs.labels[p], uint16_t(entry), weights[p]};
      }
    }
  }
  if (direct_) {
    slots_ = std::move(slots);
  } else {
    table_.for_values([&](WeightSlot& slot) { slot = slots[slot.begin]; });
  }
}

template <typename R>
TemplateWeights<R>::TemplateWeights(const AttributeIndex& attributes, const Pairs& pairs, const R* weights)
    : templates(attributes.templates()), set(*templates), values(set.readings.size()), shapes(set.shapes.size()),
      L(pairs.labels_in_all) {
  for (size_t r = 0; r < values.size(); ++r) {
    const StringList& strings = attributes.values(r);
    for (uint64_t i = 0; i < strings.count; ++i)
      if (values[r].add(strings[i]).number != i)
        throw std::invalid_argument("the values of a reading must all differ, and number " + std::to_string(i) + " of reading " +
                                    std::to_string(r) + " is there twice");
  }
  for (size_t s = 0; s < shapes.size(); ++s) {
    std::vector<uint64_t> counts;
    for (const Part& part : set.shapes[s].parts) counts.push_back(values[size_t(part.reading)].count());
    shapes[s].set_radices(counts);
  }
  std::vector<std::vector<const Template*>> of_form(set.forms.size());
  for (const Template& own : set.templates) of_form[size_t(own.form)].push_back(&own);
  std::vector<int64_t> attributes_of(set.forms.size(), 0);
  for (int64_t a = 0; a < pairs.attributes; ++a) ++attributes_of[size_t(FormKey(set, attributes.keys()[uint64_t(a)]).form)];
  std::vector<std::vector<typename ShapeWeights<R>::Use>> uses(shapes.size());
  for (const Template& own : set.templates) {
    auto& those = uses[size_t(own.shape)];
    those.reserve(those.capacity() + size_t(attributes_of[size_t(own.form)]));
  }
  std::vector<int32_t> parts;
  for (int64_t a = 0; a < pairs.attributes; ++a) {
    if (pairs.begin(a) == pairs.ends[a]) continue;
    const FormKey key(set, attributes.keys()[uint64_t(a)]);
    for (const Template* own : of_form[size_t(key.form)]) {
      const ShapeWeights<R>& shape = shapes[size_t(own->shape)];
      parts.assign(shape.radices().size(), -1);
      bool possible = true;  // one cell cannot read as two values
      for (size_t v = 0; v < own->parts.size(); ++v) {
        int32_t& part = parts[size_t(own->parts[v])];
        possible &= part < 0 || part == key.value(v);
        part = key.value(v);
      }
      if (possible) uses[size_t(own->shape)].push_back({shape.key_of(parts.data()), own->entry, int32_t(a)});
    }
  }
  run_tasks(int64_t(shapes.size()), num_threads(), [&](int64_t s) {
    shapes[size_t(s)].make(set.shapes[size_t(s)], uses[size_t(s)], pairs, weights);
    release(uses[size_t(s)]);
  });
  for (size_t r = 0; r < values.size(); ++r) {
    const int shape = set.shape_alone(int(r));
    if (shape < 0) continue;
    const WeightSlot* slots = shapes[size_t(shape)].slots();
    values[r].for_entries([slots](Value& value) { value.slot = slots[value.number]; });
    shapes[size_t(shape)].forget_slots();
  }
}

template class ShapeWeights<float>;
template class ShapeWeights<double>;
template struct TemplateWeights<float>;
template struct TemplateWeights<double>;

}  // namespace trellis::features

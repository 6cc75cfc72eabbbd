// A model's weights by the values that templates read: to score a text takes no names. Only read once it is made, by any
// number of threads.
#pragma once

#include "base/block.h"
#include "base/release.h"
#include "features/attribute_index.h"
#include "features/scoring.h"

#include <vector>

namespace trellis::features {

// The weights of a shape by the keys of its values: value 0 + radix 0 * (value 1 + radix 1 * ...).
template <typename R>
class ShapeWeights {
 public:
  // An attribute that the values with this key give an entry.
  struct Use {
    uint64_t key;
    int32_t entry, attribute;
  };
  // What the keys of values are: values[part] are known of each part.
  void set_radices(const std::vector<uint64_t>& values);
  uint64_t key_of(const int32_t* values) const {
    uint64_t key = 0;
    for (size_t part = radices_.size(); part-- > 0;) key = key * radices_[part] + uint64_t(values[part]);
    return key;
  }
  void make(const Shape& shape, const std::vector<Use>& uses, const Pairs& pairs, const R* weights);

  const std::vector<uint64_t>& radices() const { return radices_; }
  // The places whose key has a block; how many.
  int64_t find(const KeyPlace* places, int64_t count, BlockPlace* found) const;
  // Of a shape with one part or none: by value. With one part, they are needed until the values have them.
  const WeightSlot* slots() const { return slots_.data(); }
  void forget_slots() { release(slots_); }
  void fetch_weights(const WeightSlot& slot) const {
    if (slot.count != full_block) return __builtin_prefetch(listed_.data() + slot.begin);
    const R* block = full_ + slot.begin * width();
    for (int64_t i = 0; i < width(); i += 64 / int64_t(sizeof(R))) __builtin_prefetch(block + i);
  }
  BlockTable<R> table() const {
    return {full_, listed_.data(), first_rows_.data(), int64_t(first_rows_.size()), L_};
  }

 private:
  int64_t width() const { return int64_t(first_rows_.size()) * L_; }

  std::vector<uint64_t> radices_;
  std::vector<int32_t> first_rows_;
  int64_t L_ = 0;
  uint64_t possible_ = 1;  // keys
  bool direct_ = false;    // slots_ is by key
  HashTable<WeightSlot> table_;
  std::vector<WeightSlot> slots_;
  Block<R> full_{0};
  std::vector<ListedWeight<R>> listed_;
};

template <typename R>
struct TemplateWeights {
  // A value of a reading: its number, and where the weights of the shape that is this reading alone are.
  struct Value {
    uint32_t number;
    WeightSlot slot{};
  };
  std::shared_ptr<const TemplateSet> templates;
  const TemplateSet& set;
  std::vector<StringIndex<Value>> values;  // of each reading
  std::vector<ShapeWeights<R>> shapes;
  int64_t L;

  // The attributes are those of templates.
  TemplateWeights(const AttributeIndex& attributes, const Pairs& pairs, const R* weights);
};

}  // namespace trellis::features

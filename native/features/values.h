// A model's weights by the values that templates read, made from its names: to score a text then takes no names. Only
// read once it is made, by any number of threads.
#pragma once

#include "base/block.h"
#include "base/release.h"
#include "features/origins.h"
#include "features/scoring.h"
#include "features/value_index.h"

#include <vector>

namespace trellis::features {

// The weights of a shape by the keys of its values: value 0 + radix 0 * (value 1 + radix 1 * ...).
template <typename R>
class Grams {
 public:
  // An attribute that the values with this key give an entry.
  struct Use {
    uint64_t key;
    int32_t entry, attribute;
  };
  // What the keys of values are: false if they do not fit 64 bits. counts[part] values are known of each part.
  bool set_radices(const std::vector<uint64_t>& counts);
  void make(const Shape& shape, const std::vector<Use>& uses, const Pairs& pairs, const R* weights);

  const std::vector<uint64_t>& radices() const { return radices_; }
  // The hits among the places; how many.
  int64_t find(const GramPlace* places, int64_t count, GramHit* hits) const;
  // Of a shape with one part or none: by value. With one part, they are needed until the values have them.
  const GramSlot* slots() const { return slots_.data(); }
  void forget_slots() { release(slots_); }
  void fetch_weights(const GramSlot& slot) const {
    if (slot.count != gram_row) return __builtin_prefetch(weights_.data() + slot.begin);
    const R* row = rows_ + slot.begin * width();
    for (int64_t i = 0; i < width(); i += 64 / int64_t(sizeof(R))) __builtin_prefetch(row + i);
  }
  GramTable<R> table() const { return {rows_, weights_.data(), first_rows_.data(), int64_t(first_rows_.size()), L_}; }

 private:
  int64_t width() const { return int64_t(first_rows_.size()) * L_; }
  std::vector<uint32_t> number(const std::vector<Use>& uses);
  void lay_out(const std::vector<Use>& uses, const std::vector<uint32_t>& ids, const Pairs& pairs, const R* weights);

  std::vector<uint64_t> radices_;
  std::vector<int32_t> first_rows_;
  int64_t L_ = 0;
  uint64_t possible_ = 1;  // keys
  bool direct_ = false;    // slots_ is by key
  KeyTable<GramSlot> table_;
  std::vector<GramSlot> slots_;
  Block<R> rows_{0};
  std::vector<GramWeight<R>> weights_;
};

template <typename R>
struct ValueWeights {
  Origins origins;
  std::vector<ValueIndex> known;  // the values of each reading
  std::vector<Grams<R>> grams;     // of each shape
  int64_t L = 0;

  explicit ValueWeights(const TemplateSet& set) : origins(set), known(origins.readings().size()) {}
  // False if the names of this model cannot be read back: text must then be scored by names.
  bool make(const IndexView& attributes, const Pairs& pairs, const R* weights);
};

}  // namespace trellis::features

// Numbers for what templates see: pairs of numbers, and through them the bundle of a group for any values of its cells.
#pragma once

#include "features/hashing.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trellis::features {

// Pairs of numbers, numbered in the order of their first appearance.
class PairIndex {
 public:
  // With room for about this many pairs.
  explicit PairIndex(int64_t expected) {
    std::size_t places = 64;
    while (places < std::size_t(2 * expected) && places < (std::size_t(1) << 20)) places *= 2;
    for (std::size_t rest = places; rest > 1; rest /= 2) --shift_;
    keys_.assign(places, empty);
    numbers_.resize(places);
  }

  void fetch(int64_t left, int64_t right) const {
    const uint64_t at = home(key_of(left, right));
    __builtin_prefetch(&keys_[at]);
    __builtin_prefetch(&numbers_[at]);
  }
  int32_t add(int64_t left, int64_t right) {
    const uint64_t key = key_of(left, right);
    uint64_t at = place(key);
    if (keys_[at] == key) return numbers_[at];
    if (uint64_t(count_) * 2 > keys_.size()) {
      grow();
      at = place(key);
    }
    keys_[at] = key;
    return numbers_[at] = count_++;
  }
  int64_t bytes() const {
    return int64_t(keys_.capacity() * sizeof(uint64_t) + numbers_.capacity() * sizeof(int32_t));
  }

 private:
  static constexpr uint64_t empty = ~uint64_t(0);
  static uint64_t key_of(int64_t left, int64_t right) { return uint64_t(left) << 32 | uint64_t(right); }
  uint64_t home(uint64_t key) const {
    return key * factor_ >> shift_;
  }
  uint64_t place(uint64_t key) const {
    uint64_t at = home(key);
    while (keys_[at] != empty && keys_[at] != key) at = (at + 1) & (keys_.size() - 1);
    return at;
  }
  void grow() {
    std::vector<uint64_t> keys(keys_.size() * 2, empty);
    std::vector<int32_t> numbers(keys.size());
    keys.swap(keys_);
    numbers.swap(numbers_);
    --shift_;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == empty) continue;
      const uint64_t at = place(keys[i]);
      keys_[at] = keys[i];
      numbers_[at] = numbers[i];
    }
  }
  // The highest bits of a product with a secret odd factor: pairs that collide cannot be chosen without knowing it.
  uint64_t factor_ = process_key().k1 | 1;
  int shift_ = 64;  // minus the bits of a place
  std::vector<uint64_t> keys_;
  std::vector<int32_t> numbers_;
  int32_t count_ = 0;
};

// The bundles of one group of templates by the codes of their sources: see Cells::code. The first two codes become one
// number, that and the third another, and so on; `bundle_of` is by the last number, -1 if there is no bundle yet.
struct GroupNumbers {
  std::vector<PairIndex> chain;
  std::vector<int32_t> bundle_of;

  // For a group with this many sources, with room for about `expected` distinct places.
  GroupNumbers(std::size_t sources, int64_t expected)
      : chain(sources > 1 ? sources - 1 : 0, PairIndex(expected)) {}
  int64_t bytes() const {
    int64_t sum = int64_t(bundle_of.capacity() * sizeof(int32_t));
    for (const PairIndex& index : chain) sum += index.bytes();
    return sum;
  }
};

}  // namespace trellis::features

// Values by 64-bit keys. Both lie in buckets of one cache line, each key in the bucket that its hash says or, if that is
// full, in the next that is not: a search reads one line, whether it finds anything or not.
//
// Words come from files of strangers, who could choose them so that any hash known in advance is the same for all: the
// factor of the hash differs between processes. Numbers are given in the order of first appearance, so that results do
// not depend on it.
#pragma once

#include "base/numbers.h"
#include "features/kernels.h"

#include <cstdint>
#include <tuple>
#include <utility>

namespace trellis::features {

// 128 random bits, drawn once per process.
struct HashKey {
  uint64_t k0, k1;
};
const HashKey& process_key();

// Two numbers of up to 32 bits as one key.
inline uint64_t pair_key(int64_t left, int64_t right) { return uint64_t(left) << 32 | uint64_t(right); }

template <typename V>
class HashTable {
 public:
  // With room for about this many keys, none of which may be no_key.
  explicit HashTable(uint64_t expected = 0) {
    uint64_t buckets = 1;
    while (buckets * size * 2 < 3 * (expected + 1)) buckets *= 2;
    resize(buckets);
  }

  // The value of a key, with `value` if it is new.
  V& add(uint64_t key, const V& value) {
    auto [bucket, at] = place(key);
    if (bucket->keys[at] == key) return bucket->values[at];
    if (count_ * 3 >= buckets() * size * 2) {  // a place must stay free: searches end there
      grow();
      std::tie(bucket, at) = place(key);
    }
    bucket->keys[at] = key, bucket->values[at] = value, ++count_;
    return bucket->values[at];
  }
  // Brings near what a search will read.
  void fetch(uint64_t key) const { __builtin_prefetch(view_.buckets + view_.home(key)); }
  // Null if there is none.
  const V* find(uint64_t key) const {
    const auto [bucket, at] = place(key);
    return bucket->keys[at] == key ? &bucket->values[at] : nullptr;
  }
  uint64_t count() const { return count_; }
  int64_t bytes() const { return int64_t(buckets() * sizeof(Bucket)); }
  const KeyBuckets<V>& view() const { return view_; }
  // f(value) for all keys
  template <typename F>
  void for_values(F f) {
    for (uint64_t b = 0; b < buckets(); ++b)
      for (int i = 0; i < size; ++i)
        if (own_[b].keys[i] != no_key) f(own_[b].values[i]);
  }

 private:
  using Bucket = KeyBucket<V>;
  static constexpr int size = Bucket::size;

  uint64_t buckets() const { return view_.last + 1; }
  // Where a key is, or would go.
  std::pair<Bucket*, int> place(uint64_t key) const {
    for (uint64_t b = view_.home(key);; b = (b + 1) & view_.last)
      for (int i = 0; i < size; ++i)
        if (own_[b].keys[i] == key || own_[b].keys[i] == no_key) return {own_ + b, i};
  }
  void resize(uint64_t buckets) {
    Bucket empty{};
    for (uint64_t& key : empty.keys) key = no_key;
    own_ = Block<Bucket>(int64_t(buckets), empty);
    view_ = {own_, buckets - 1, process_key().k1 | 1, 63};
    for (uint64_t rest = buckets; rest > 2; rest /= 2) --view_.shift;
  }
  void grow() {
    const uint64_t before = buckets();
    Block<Bucket> old{0};
    std::swap(old, own_);
    resize(before * 2);
    for (uint64_t b = 0; b < before; ++b) {
      for (int i = 0; i < size; ++i) {
        if (old[b].keys[i] == no_key) continue;
        auto [bucket, at] = place(old[b].keys[i]);
        bucket->keys[at] = old[b].keys[i], bucket->values[at] = old[b].values[i];
      }
    }
  }

  Block<Bucket> own_{0};
  KeyBuckets<V> view_{};
  uint64_t count_ = 0;
};

}  // namespace trellis::features

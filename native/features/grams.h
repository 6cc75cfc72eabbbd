// The weights of one shape (see origins.h) by the numbers of its values, as plain data for the kernels of every
// instruction set. All templates of a shape are looked up at once: a row has weights [entries, L], one entry for each of
// them. Rows with few weights are lists.
#pragma once

#include "base/instruction_set.h"

#include <cstdint>

namespace trellis::features {

constexpr uint64_t no_key = ~uint64_t(0);

// What a KeyTable consists of: one cache line of keys with their values, free places at the end.
template <typename V>
struct alignas(64) KeyBucket {
  static constexpr int size = int(64 / (sizeof(uint64_t) + sizeof(V)));
  uint64_t keys[size];
  V values[size];
};

template <typename V>
struct KeyBuckets {
  const KeyBucket<V>* buckets;
  uint64_t last;  // their number, a power of two, minus 1
  uint64_t factor;
  int shift;

  uint64_t home(uint64_t key) const { return key * factor >> shift & last; }
};

// Where the weights of a key are.
struct GramSlot {
  uint32_t begin = 0;  // its row among the full ones, or its first weight in the lists
  int32_t count = 0;   // of weights, or gram_row for a full row; 0 if there is nothing
};
constexpr int32_t gram_row = -1;

template <typename R>
struct GramWeight {
  uint16_t label;
  uint16_t entry;
  R weight;
};

template <typename R>
struct GramTable {
  const R* rows;  // [rows, entries, L]
  const GramWeight<R>* weights;
  const int32_t* first_rows;  // [entries]
  int64_t entries, L;
};

// A place in the text, and the key there or where its weights are.
struct GramPlace {
  int64_t place;
  uint64_t key;
};
struct GramHit {
  int64_t place;
  GramSlot slot;
};

template <typename R>
struct GramKernels {
  // The hits among the places; how many.
  int64_t (*find)(const KeyBuckets<GramSlot>& keys, const GramPlace* places, int64_t count, GramHit* hits);
  // to[rows[e], l] += weight[e, l] of a slot
  void (*add_to)(const GramTable<R>& table, const GramSlot& slot, const int32_t* rows, double* to);
  // emissions[token_of[p - first_rows[e]], l] += weight[e, l] of each hit, where p is its place and has such a token
  void (*add)(const GramTable<R>& table, const GramHit* hits, int64_t count, const int32_t* token_of,
              double* emissions);
};

template <typename R>
const GramKernels<R>& gram_kernels() {
  return kernels_in_use<GramKernels<R>>();
}

}  // namespace trellis::features

// What the kernels of this room, which are compiled once per instruction set (sums_kernels.cpp), share with their drivers:
// sums of rows of weights for the plans of training (plan.h), and of blocks of weights for scoring.
#pragma once

#include "base/instruction_set.h"

#include <cstdint>

namespace trellis::features {

// Lists of row numbers one after another: list i ends at ends[i] and begins where the one before ends.
struct RowLists {
  const uint32_t* ends;
  const int32_t* items;  // rows_ahead more than the last list has, of any rows that there are
  const double* values;  // of each item, or null if all are 1
};

// The units of one kind of window (window_plan.cpp): token t gets row i, i < width, of the unit at places[t + width - 1 - i].
struct PlaceList {
  const int32_t* places;  // rows_ahead more than the last token asks for
  int64_t width;
};

constexpr int rows_ahead = 32;    // rows are fetched this many steps before they are added
constexpr int rows_padding = 64;  // numbers that must follow the last row: whole vectors are read

// out[i - first, l] = sum over the items r of list i, with value v, of v * rows[r, l], for lists first .. last - 1
template <typename R>
struct RowKernels {
  void (*add)(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, R* out);
  // The same with sums in double.
  void (*collect)(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, R* out);
  void (*total)(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, double* out);
  // For at most 8 labels: out[t, l] = the sum over windows, and over the rows r of theirs that token t gets, of rows[r, l]
  void (*add_places)(const R* rows, int64_t L, const PlaceList* windows, int64_t count, int64_t tokens, R* out);
  // out[(u - first) * width + i, l] = sum over the items r of list u of rows[r + i, l], for lists first .. last - 1; in
  // double
  void (*collect_places)(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, int64_t width,
                         R* out);
  // to += factor * from
  void (*add_row)(R* to, const R* from, R factor, int64_t L);
};

// Those of the instruction set in use.
template <typename R>
const RowKernels<R>& row_kernels() {
  return kernels_in_use<RowKernels<R>>();
}

// Whether `weights` numbers of a block of `width` are stored in full: blocks up to `narrow` are as cheap as lists.
inline bool is_dense(int64_t weights, int64_t width, int64_t narrow = 8) {
  return weights > 0 && (width <= narrow || weights * 4 > width);
}

// Where the weights of a block are.
struct WeightSlot {
  uint32_t begin = 0;  // its place among the full blocks, or its first weight in the lists
  int32_t count = 0;   // of listed weights, or full_block
};
constexpr int32_t full_block = -1;

template <typename R>
struct ListedWeight {
  uint16_t label;
  uint16_t entry;
  R weight;
};

template <typename R>
struct BlockTable {
  const R* full;  // [blocks, entries, L]
  const ListedWeight<R>* listed;
  const int32_t* first_rows;  // [entries] of templates: how far before its token each of them begins to read
  int64_t entries, L;
};

// The weights of attributes: blocks of one entry, whose lists lie in the order of the pairs.
template <typename R>
struct AttributeWeights {
  const WeightSlot* slots;  // [A]
  const R* rows;            // [rows, L], and rows_padding more
  const R* weights;         // [pairs]
  const uint16_t* labels;   // [pairs]
  int64_t L;
};

// Attributes begin .. end - 1 of a corpus that has `all`: what later ones need is fetched ahead.
struct AttributeRange {
  const int32_t* attributes;
  const double* values;  // of each, or null if all are 1
  int64_t begin, end, all;
};

constexpr uint64_t no_key = ~uint64_t(0);

// What a HashTable consists of: one cache line of keys with their values.
template <typename V>
struct alignas(64) KeyBucket {
  static constexpr int size = int(64 / (sizeof(uint64_t) + sizeof(V)));
  uint64_t keys[size];  // free ones, at the end, are no_key
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

// A place in the text, and the key there or where its weights are.
struct KeyPlace {
  int64_t place;
  uint64_t key;
};
struct BlockPlace {
  int64_t place;
  WeightSlot slot;
};

template <typename R>
struct BlockKernels {
  // row[l] += value * weight[a, l], for one attribute after another
  void (*add_attributes)(const AttributeWeights<R>& weights, const AttributeRange& range, R* row);
  // The places whose key has a block; how many.
  int64_t (*find)(const KeyBuckets<WeightSlot>& keys, const KeyPlace* places, int64_t count, BlockPlace* found);
  // to[rows[e], l] += weight[e, l] of a block
  void (*add_block)(const BlockTable<R>& table, const WeightSlot& slot, const int32_t* rows, double* to);
  // emissions[token_of[p - first_rows[e]], l] += weight[e, l] of each block, where p is its place and has such a token
  void (*add_blocks)(const BlockTable<R>& table, const BlockPlace* places, int64_t count, const int32_t* token_of,
                     double* emissions);
};

template <typename R>
const BlockKernels<R>& block_kernels() {
  return kernels_in_use<BlockKernels<R>>();
}

}  // namespace trellis::features

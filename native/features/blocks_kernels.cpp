// The kernels of blocks.h for one instruction set. Weights of a corpus are added in registers, those of a text that is
// tagged one by one in double precision, so that all sets give the same numbers.
#include "features/blocks.h"

#include "base/memory.h"
#include "base/simd.h"

namespace trellis::features::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

// What attribute e + 12 has its slot in, and the weights of attribute e + 6, whose slot is near by now.
template <typename R>
inline void fetch_ahead(const AttributeWeights<R>& weights, const AttributeRange& range, int64_t e) {
  constexpr int64_t near = 6, far = 12;
  if (e + far >= range.all) return;
  __builtin_prefetch(weights.slots + range.attributes[e + far]);
  const WeightSlot slot = weights.slots[range.attributes[e + near]];
  if (slot.count < 0) {
    const R* row = weights.rows + int64_t(slot.begin) * weights.L;
    for (int64_t l = 0; l < weights.L; l += 64 / int64_t(sizeof(R))) __builtin_prefetch(row + l);
  } else {
    __builtin_prefetch(weights.labels + slot.begin);
    __builtin_prefetch(weights.weights + slot.begin);
  }
}

// f(value, slot) for each attribute
template <typename R, typename F>
inline void for_slots(const AttributeWeights<R>& weights, const AttributeRange& range, F f) {
  for (int64_t e = range.begin; e < range.end; ++e) {
    fetch_ahead(weights, range, e);
    f(range.values ? R(range.values[e]) : R(1), weights.slots[range.attributes[e]]);
  }
}

// L is at most V * width, and more than (V - 1) * width.
template <typename R, int V>
void add_few(const AttributeWeights<R>& weights, const AttributeRange& range, R* row) {
  typedef typename Simd<R>::Int Int;
  const int last = int(weights.L) - (V - 1) * width<R>;
  Vec<R> sums[V];
  for (int v = 0; v < V; ++v) sums[v] = load_first(row + v * width<R>, v + 1 < V ? width<R> : last, R(0));
  for_slots(weights, range, [&](R value, const WeightSlot& slot) {
    if (slot.count < 0) {
      const R* own = weights.rows + int64_t(slot.begin) * weights.L;
      for (int v = 0; v < V; ++v) sums[v] += value * load(own + v * width<R>);
      return;
    }
    for (uint32_t p = slot.begin; p < slot.begin + uint32_t(slot.count); ++p) {
      const Vec<R> weight = broadcast(value * weights.weights[p]);
      for (int v = 0; v < V; ++v)
        sums[v] += iota<R>() + Int(v * width<R>) == Int(weights.labels[p]) ? weight : Vec<R>{};
    }
  });
  for (int v = 0; v < V; ++v) store_first<R>(row + v * width<R>, sums[v], v + 1 < V ? width<R> : last);
}

template <typename R>
void add_many(const AttributeWeights<R>& weights, const AttributeRange& range, R* row) {
  for_slots(weights, range, [&](R value, const WeightSlot& slot) {
    if (slot.count < 0) {
      const R* own = weights.rows + int64_t(slot.begin) * weights.L;
      for (int64_t l = 0; l < weights.L; ++l) row[l] += value * own[l];
      return;
    }
    for (uint32_t p = slot.begin; p < slot.begin + uint32_t(slot.count); ++p)
      row[weights.labels[p]] += value * weights.weights[p];
  });
}

template <typename R>
void add_attributes(const AttributeWeights<R>& weights, const AttributeRange& range, R* row) {
  switch (parts_of(weights.L, width<R>)) {
    case 1: return add_few<R, 1>(weights, range, row);
    case 2: return add_few<R, 2>(weights, range, row);
    case 3: return add_few<R, 3>(weights, range, row);
    case 4: return add_few<R, 4>(weights, range, row);
    default: return add_many(weights, range, row);
  }
}

constexpr int bucket_size = KeyBucket<WeightSlot>::size;

// Where a key is in its bucket, bucket_size if it is not there.
inline int place_in(const KeyBucket<WeightSlot>& bucket, uint64_t key) {
#if defined(__AVX2__)
  static_assert(bucket_size == 4, "a vector of keys");
  const __m256i keys = _mm256_load_si256(reinterpret_cast<const __m256i*>(bucket.keys));
  const __m256i equal = _mm256_cmpeq_epi64(keys, _mm256_set1_epi64x(int64_t(key)));
  return __builtin_ctz(unsigned(_mm256_movemask_pd(_mm256_castsi256_pd(equal))) | 1u << bucket_size);
#else
  int place = bucket_size;
  for (int i = 0; i < bucket_size; ++i) place = bucket.keys[i] == key ? i : place;
  return place;
#endif
}

int64_t find_blocks(const KeyBuckets<WeightSlot>& keys, const KeyPlace* places, int64_t count, BlockPlace* found) {
  for (int64_t i = 0; i < count; ++i) __builtin_prefetch(keys.buckets + keys.home(places[i].key));
  int64_t n = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t home = keys.home(places[i].key);
    int at = place_in(keys.buckets[home], places[i].key);
    while (at == bucket_size && keys.buckets[home].keys[bucket_size - 1] != no_key) {
      home = (home + 1) & keys.last;
      at = place_in(keys.buckets[home], places[i].key);
    }
    found[n] = {places[i].place, keys.buckets[home].values[at % bucket_size]};
    n += at != bucket_size;
  }
  return n;
}

// to[row_of(e), l] += weight[e, l] of a block, where row_of(e) is not negative
template <typename R, typename F>
inline void add_slot(const BlockTable<R>& table, const WeightSlot& slot, int64_t L, F row_of, double* to) {
  if (slot.count == full_block) {
    const R* block = table.full + int64_t(slot.begin) * table.entries * L;
    for (int64_t e = 0; e < table.entries; ++e, block += L) {
      const int32_t row = row_of(e);
      if (row < 0) continue;
      for (int64_t l = 0; l < L; ++l) to[row * L + l] += double(block[l]);
    }
  } else {
    const ListedWeight<R>* weight = table.listed + slot.begin;
    for (int32_t k = 0; k < slot.count; ++k, ++weight) {
      const int32_t row = row_of(weight->entry);
      if (row >= 0) to[row * L + weight->label] += double(weight->weight);
    }
  }
}

template <typename R>
void add_block(const BlockTable<R>& table, const WeightSlot& slot, const int32_t* rows, double* to) {
  add_slot(table, slot, table.L, [rows](int64_t e) __attribute__((always_inline)) { return rows[e]; }, to);
}

// `known` is L if that is known when this is compiled, else 0.
template <int known, typename R>
void add_blocks_by(const BlockTable<R>& table, const BlockPlace* places, int64_t count, const int32_t* token_of,
                   double* emissions) {
  for (int64_t i = 0; i < count; ++i) {
    const int32_t* tokens = token_of + places[i].place;
    const auto row_of = [&](int64_t e) __attribute__((always_inline)) { return tokens[-table.first_rows[e]]; };
    add_slot(table, places[i].slot, known ? known : table.L, row_of, emissions);
  }
}

template <typename R>
void add_blocks(const BlockTable<R>& table, const BlockPlace* places, int64_t count, const int32_t* token_of,
                double* emissions) {
  switch (table.L) {
    case 2: return add_blocks_by<2>(table, places, count, token_of, emissions);
    case 4: return add_blocks_by<4>(table, places, count, token_of, emissions);
    case 8: return add_blocks_by<8>(table, places, count, token_of, emissions);
    default: return add_blocks_by<0>(table, places, count, token_of, emissions);
  }
}

}  // namespace trellis::features::TRELLIS_ISA

TRELLIS_KERNELS_BY_TYPE(features, BlockKernels, add_attributes<R>, find_blocks, add_block<R>, add_blocks<R>)

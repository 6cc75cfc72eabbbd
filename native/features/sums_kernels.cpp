// The kernels of kernels.h for one instruction set: the sums of a list stay in registers until all its rows are added.
#include "features/kernels.h"

#include "base/memory.h"
#include "base/simd.h"

namespace trellis::features::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

constexpr int list_ahead = 256;  // the lists themselves: the processor does not see so many of them coming

// width<S> numbers of type R, as S
template <typename S, typename R>
inline Vec<S> load_as(const R* p) {
  if constexpr (sizeof(R) == sizeof(S)) {
    return load(p);
  } else {
    typedef R Part __attribute__((vector_size(sizeof(R) * width<S>)));
    Part part;
    __builtin_memcpy(&part, p, sizeof part);
    return __builtin_convertvector(part, Vec<S>);
  }
}

// Writes the first `count` lanes, or all if there are fewer.
template <typename S, typename O>
inline void store_as(O* p, Vec<S> v, int64_t count) {
  if (count <= 0) return;
  typedef O Part __attribute__((vector_size(sizeof(O) * width<S>)));
  const Part part = __builtin_convertvector(v, Part);
  if (count >= width<S>) {
    __builtin_memcpy(p, &part, sizeof part);
  } else if constexpr (sizeof(O) == sizeof(S)) {
    store_first<S>(p, part, int(count));
  } else {
    for (int64_t l = 0; l < count; ++l) p[l] = part[l];
  }
}

template <typename R>
inline void fetch(const R* row, int64_t L) {
  for (int64_t l = 0; l < L; l += 64 / int64_t(sizeof(R))) __builtin_prefetch(row + l);
}

// The columns 0 .. V * width - 1 of one list; `count` of them are written.
template <typename R, typename S, typename O, int V>
inline void sum_columns(const R* rows, int64_t L, const RowLists& lists, int64_t begin, int64_t end, int64_t count,
                        O* out) {
  Vec<S> sums[V];
  for (int v = 0; v < V; ++v) sums[v] = Vec<S>{};
  for (int64_t at = begin; at < end; ++at) {
    fetch(rows + lists.items[at + rows_ahead] * L, count);
    const R* row = rows + lists.items[at] * L;
    if (lists.values) {
      const S value = S(lists.values[at]);
      for (int v = 0; v < V; ++v) sums[v] += value * load_as<S>(row + v * width<S>);
    } else {
      for (int v = 0; v < V; ++v) sums[v] += load_as<S>(row + v * width<S>);
    }
  }
  for (int v = 0; v < V; ++v, out += width<S>, count -= width<S>) store_as<S>(out, sums[v], count);
}

template <typename R, typename S, typename O, int V>
void sum_lists_by(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, O* out) {
  constexpr int64_t columns = V * width<S>;
  for (int64_t i = first; i < last; ++i, out += L)
    for (int64_t l = 0; l < L; l += columns)
      sum_columns<R, S, O, V>(rows + l, L, lists, i ? lists.ends[i - 1] : 0, lists.ends[i],
                              L - l < columns ? L - l : columns, out + l);
}

// Rows of at most N numbers, fewer than a vector has: no more is read than N.
template <typename T, int N>
struct Narrow {
  typedef T V __attribute__((vector_size(sizeof(T) * N)));
};

// By reference, since a function cannot return a vector that the instruction set does not have.
template <typename R, typename V>
inline void load_narrow(const R* row, V& as) {
  typename Narrow<R, int(sizeof(V) / sizeof(as[0]))>::V v;
  __builtin_memcpy(&v, row, sizeof v);
  as = __builtin_convertvector(v, V);
}

template <int N, typename O, typename V>
inline void store_narrow(O* out, const V& sums, int64_t L) {
  const typename Narrow<O, N>::V whole = __builtin_convertvector(sums, typename Narrow<O, N>::V);
  if (L == N) {
    __builtin_memcpy(out, &whole, sizeof whole);
  } else {
    for (int64_t l = 0; l < L; ++l) out[l] = whole[l];
  }
}

template <typename R, typename S, typename O, int N>
void sum_narrow(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, O* out) {
  typedef typename Narrow<S, N>::V Sums;
  for (int64_t i = first, at = i ? lists.ends[i - 1] : 0; i < last; ++i, out += L) {
    Sums sums = {}, row;
    for (const int64_t end = lists.ends[i]; at < end; ++at) {
      __builtin_prefetch(rows + lists.items[at + rows_ahead] * L);
      load_narrow(rows + lists.items[at] * L, row);
      sums += lists.values ? S(lists.values[at]) * row : row;
    }
    store_narrow<N>(out, sums, L);
  }
}

template <typename R, int N>
void add_places_by(const R* rows, int64_t L, const PlaceList* windows, int64_t count, int64_t tokens, R* out) {
  for (int64_t t = 0; t < tokens; ++t, out += L) {
    typename Narrow<R, N>::V sums = {}, row;
    for (int64_t w = 0; w < count; ++w) {
      const int32_t* place = windows[w].places + t + windows[w].width - 1;
      __builtin_prefetch(place + list_ahead);
      __builtin_prefetch(rows + place[rows_ahead] * L);
      for (int64_t i = 0; i < windows[w].width; ++i) {
        load_narrow(rows + (place[-i] + i) * L, row);
        sums += row;
      }
    }
    store_narrow<N>(out, sums, L);
  }
}

template <typename R>
void add_places(const R* rows, int64_t L, const PlaceList* windows, int64_t count, int64_t tokens, R* out) {
  if (L <= 4) return add_places_by<R, 4>(rows, L, windows, count, tokens, out);
  add_places_by<R, 8>(rows, L, windows, count, tokens, out);
}

// W rows of each unit, which has `width` of them.
template <typename R, int N, int W>
void collect_rows(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, int64_t width, R* out) {
  typedef typename Narrow<double, N>::V Sums;
  for (int64_t u = first, at = u ? lists.ends[u - 1] : 0; u < last; ++u, out += width * L) {
    Sums sums[W] = {};
    for (const int64_t end = lists.ends[u]; at < end; ++at) {
      __builtin_prefetch(lists.items + at + list_ahead);
      fetch(rows + lists.items[at + rows_ahead] * L, W * L);
      const R* row = rows + lists.items[at] * L;
#pragma GCC unroll 8
      for (int i = 0; i < W; ++i) {
        Sums own;
        load_narrow(row + i * L, own);
        sums[i] += own;
      }
    }
    for (int i = 0; i < W; ++i) store_narrow<N>(out + i * L, sums[i], L);
  }
}

template <typename R, int N>
void collect_places_by(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, int64_t width,
                       R* out) {
  for (int64_t i = 0; i < width;) {
    const R* from = rows + i * L;
    R* to = out + i * L;
    switch (width - i) {
      case 1: collect_rows<R, N, 1>(from, L, lists, first, last, width, to); return;
      case 2: collect_rows<R, N, 2>(from, L, lists, first, last, width, to); return;
      case 3: collect_rows<R, N, 3>(from, L, lists, first, last, width, to); return;
      case 5: collect_rows<R, N, 5>(from, L, lists, first, last, width, to); return;
      default: collect_rows<R, N, 4>(from, L, lists, first, last, width, to), i += 4;
    }
  }
}

template <typename R>
void collect_places(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, int64_t width,
                    R* out) {
  if (L <= 4) return collect_places_by<R, 4>(rows, L, lists, first, last, width, out);
  collect_places_by<R, 8>(rows, L, lists, first, last, width, out);
}

template <typename R, typename S, typename O>
void sum_lists(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, O* out) {
  if (L <= 4) return sum_narrow<R, S, O, 4>(rows, L, lists, first, last, out);
  if (L <= 8) return sum_narrow<R, S, O, 8>(rows, L, lists, first, last, out);
  switch (parts_of(L, width<S>)) {
    case 1: return sum_lists_by<R, S, O, 1>(rows, L, lists, first, last, out);
    case 2: return sum_lists_by<R, S, O, 2>(rows, L, lists, first, last, out);
    case 3: return sum_lists_by<R, S, O, 3>(rows, L, lists, first, last, out);
    case 5: return sum_lists_by<R, S, O, 5>(rows, L, lists, first, last, out);
    case 6: return sum_lists_by<R, S, O, 6>(rows, L, lists, first, last, out);
    default: return sum_lists_by<R, S, O, 4>(rows, L, lists, first, last, out);
  }
}

template <typename R>
void add_row(R* __restrict to, const R* __restrict from, R factor, int64_t L) {
  for (int64_t l = 0; l < L; ++l) to[l] += factor * from[l];
}

// Blocks: weights of a corpus are added in registers, those of a text that is tagged one by one in double precision, so
// that all sets give the same numbers.

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

TRELLIS_KERNELS_BY_TYPE(features, RowKernels, sum_lists<R, R, R>, sum_lists<R, double, R>,
                        sum_lists<R, double, double>, add_places<R>, collect_places<R>, add_row<R>)
TRELLIS_KERNELS_BY_TYPE(features, BlockKernels, add_attributes<R>, find_blocks, add_block<R>, add_blocks<R>)

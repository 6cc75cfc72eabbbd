// The kernels of grams.h for one instruction set. Weights are added one by one in double precision, so that all sets
// give the same numbers.
#include "features/grams.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace trellis::features::TRELLIS_ISA {

using namespace trellis;

constexpr int bucket_size = KeyBucket<GramSlot>::size;

// Where a key is in its bucket, bucket_size if it is not there.
inline int place_in(const KeyBucket<GramSlot>& bucket, uint64_t key) {
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

int64_t find_grams(const KeyBuckets<GramSlot>& keys, const GramPlace* places, int64_t count, GramHit* hits) {
  for (int64_t i = 0; i < count; ++i) __builtin_prefetch(keys.buckets + keys.home(places[i].key));
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t home = keys.home(places[i].key);
    int place = place_in(keys.buckets[home], places[i].key);
    while (place == bucket_size && keys.buckets[home].keys[bucket_size - 1] != no_key) {
      home = (home + 1) & keys.last;
      place = place_in(keys.buckets[home], places[i].key);
    }
    hits[found] = {places[i].place, keys.buckets[home].values[place % bucket_size]};
    found += place != bucket_size;
  }
  return found;
}

// `known` is L if that is known when this is compiled, else 0.
template <int known, typename R>
void add_grams_by(const GramTable<R>& table, const GramHit* hits, int64_t count, const int32_t* token_of,
                  double* emissions) {
  const int64_t L = known ? known : table.L, width = table.entries * L;
  for (int64_t i = 0; i < count; ++i) {
    const GramSlot slot = hits[i].slot;
    const int32_t* tokens = token_of + hits[i].place;
    if (slot.count == gram_row) {
      const R* row = table.rows + int64_t(slot.begin) * width;
      for (int64_t e = 0; e < table.entries; ++e, row += L) {
        const int32_t token = tokens[-table.first_rows[e]];
        if (token < 0) continue;
        double* to = emissions + token * L;
        for (int64_t l = 0; l < L; ++l) to[l] += double(row[l]);
      }
    } else {
      const GramWeight<R>* weight = table.weights + slot.begin;
      for (int32_t k = 0; k < slot.count; ++k, ++weight) {
        const int32_t token = tokens[-table.first_rows[weight->entry]];
        if (token >= 0) emissions[token * L + weight->label] += double(weight->weight);
      }
    }
  }
}

template <typename R>
void add_grams(const GramTable<R>& table, const GramHit* hits, int64_t count, const int32_t* token_of,
               double* emissions) {
  switch (table.L) {
    case 2: return add_grams_by<2>(table, hits, count, token_of, emissions);
    case 4: return add_grams_by<4>(table, hits, count, token_of, emissions);
    case 8: return add_grams_by<8>(table, hits, count, token_of, emissions);
    default: return add_grams_by<0>(table, hits, count, token_of, emissions);
  }
}

template <typename R>
void add_gram(const GramTable<R>& table, const GramSlot& slot, const int32_t* rows, double* to) {
  const int64_t L = table.L;
  if (slot.count == gram_row) {
    const R* row = table.rows + int64_t(slot.begin) * table.entries * L;
    for (int64_t e = 0; e < table.entries; ++e, row += L) {
      double* at = to + rows[e] * L;
      for (int64_t l = 0; l < L; ++l) at[l] += double(row[l]);
    }
  } else {
    const GramWeight<R>* weight = table.weights + slot.begin;
    for (int32_t k = 0; k < slot.count; ++k, ++weight) to[rows[weight->entry] * L + weight->label] += double(weight->weight);
  }
}

}  // namespace trellis::features::TRELLIS_ISA

TRELLIS_KERNELS_BY_TYPE(features, GramKernels, find_grams, add_gram<R>, add_grams<R>)

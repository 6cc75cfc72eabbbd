// The kernels of weights.h for one instruction set: the sums of a few labels stay in registers until all is added.
// Pairs are added by lanes too: a number written to memory and read at once as part of a vector would have to wait.
#include "features/weights.h"

#include "base/memory.h"
#include "base/simd.h"

namespace trellis::features::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

// What attribute e + 12 has its place in, and the weights of attribute e + 6, whose place is near by now.
template <typename R>
inline void fetch_ahead(const WeightView<R>& weights, const AttributeRange& range, int64_t e) {
  constexpr int64_t near = 6, far = 12;
  if (e + far >= range.all) return;
  __builtin_prefetch(weights.places + range.attributes[e + far]);
  const WeightPlace place = weights.places[range.attributes[e + near]];
  if (place.count < 0) {
    const R* row = weights.rows + int64_t(place.begin) * weights.L;
    for (int64_t l = 0; l < weights.L; l += 64 / int64_t(sizeof(R))) __builtin_prefetch(row + l);
  } else {
    __builtin_prefetch(weights.labels + place.begin);
    __builtin_prefetch(weights.weights + place.begin);
  }
}

// f(value, place) for each attribute
template <typename R, typename F>
inline void for_places(const WeightView<R>& weights, const AttributeRange& range, F f) {
  for (int64_t e = range.begin; e < range.end; ++e) {
    fetch_ahead(weights, range, e);
    f(range.values ? R(range.values[e]) : R(1), weights.places[range.attributes[e]]);
  }
}

// L is at most V * width, and more than (V - 1) * width.
template <typename R, int V>
void add_few(const WeightView<R>& weights, const AttributeRange& range, R* row) {
  typedef typename Simd<R>::Int Int;
  const int last = int(weights.L) - (V - 1) * width<R>;
  Vec<R> sums[V];
  for (int v = 0; v < V; ++v) sums[v] = load_first(row + v * width<R>, v + 1 < V ? width<R> : last, R(0));
  for_places(weights, range, [&](R value, const WeightPlace& place) {
    if (place.count < 0) {
      const R* own = weights.rows + int64_t(place.begin) * weights.L;
      for (int v = 0; v < V; ++v) sums[v] += value * load(own + v * width<R>);
      return;
    }
    for (uint32_t p = place.begin; p < place.begin + uint32_t(place.count); ++p) {
      const Vec<R> weight = broadcast(value * weights.weights[p]);
      for (int v = 0; v < V; ++v)
        sums[v] += iota<R>() + Int(v * width<R>) == Int(weights.labels[p]) ? weight : Vec<R>{};
    }
  });
  for (int v = 0; v < V; ++v) store_first<R>(row + v * width<R>, sums[v], v + 1 < V ? width<R> : last);
}

template <typename R>
void add_many(const WeightView<R>& weights, const AttributeRange& range, R* row) {
  for_places(weights, range, [&](R value, const WeightPlace& place) {
    if (place.count < 0) {
      const R* own = weights.rows + int64_t(place.begin) * weights.L;
      for (int64_t l = 0; l < weights.L; ++l) row[l] += value * own[l];
      return;
    }
    for (uint32_t p = place.begin; p < place.begin + uint32_t(place.count); ++p)
      row[weights.labels[p]] += value * weights.weights[p];
  });
}

template <typename R>
void add_weights(const WeightView<R>& weights, const AttributeRange& range, R* row) {
  switch (parts_of(weights.L, width<R>)) {
    case 1: return add_few<R, 1>(weights, range, row);
    case 2: return add_few<R, 2>(weights, range, row);
    case 3: return add_few<R, 3>(weights, range, row);
    case 4: return add_few<R, 4>(weights, range, row);
    default: return add_many(weights, range, row);
  }
}

}  // namespace trellis::features::TRELLIS_ISA

TRELLIS_KERNELS(features, WeightKernels<double>, add_weights<R>)

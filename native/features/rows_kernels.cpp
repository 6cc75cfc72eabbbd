// The kernels of rows.h for one instruction set: the sums of a list stay in registers until all its rows are added.
#include "features/rows.h"

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

}  // namespace trellis::features::TRELLIS_ISA

TRELLIS_KERNELS_BY_TYPE(features, RowKernels, sum_lists<R, R, R>, sum_lists<R, double, R>,
                        sum_lists<R, double, double>, add_places<R>, collect_places<R>)

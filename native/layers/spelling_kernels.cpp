// The kernels of spelling.h for one instruction set: a vector of filters goes through a whole word in registers.
#include "base/simd.h"
#include "layers/spelling.h"

namespace trellis::layers::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

template <typename R>
inline const int64_t* word_of(const Spelling<R>& in, int64_t w) {
  return in.words + (in.offsets ? in.offsets[w] : w * in.C);
}

template <typename R>
inline int64_t length_of(const Spelling<R>& in, int64_t w) {
  if (in.offsets) return in.offsets[w + 1] - in.offsets[w];
  const int64_t* word = word_of(in, w);
  int64_t n = 0;
  while (n < in.C && word[n]) ++n;
  return n;
}

// Calls f(row of the table) for each character of the window around place t of a word.
template <typename R, typename Each>
inline void around(const Spelling<R>& in, const int64_t* word, int64_t length, int64_t t, Each f) {
  const int64_t first = t - (in.width - 1) / 2;
  const int64_t begin = first < 0 ? -first : 0, end = first + in.width > length ? length - first : in.width;
  for (int64_t k = begin; k < end; ++k) f(in.table + (k * in.characters + word[first + k]) * in.F);
}

template <typename R>
void find_largest(const Spelling<R>& in, R* largest, int32_t* places) {
  for (int64_t w = 0; w < in.W; ++w) {
    const int64_t *word = word_of(in, w), length = length_of(in, w);
    for (int64_t f = 0; f < in.F; f += width<R>) {
      const int lanes = in.F - f < width<R> ? int(in.F - f) : width<R>;
      Vec<R> best{};
      IntVec<R> place = IntVec<R>{} - 1;
      for (int64_t t = 0; t < length; ++t) {
        Vec<R> sum{};
        around(in, word, length, t, [&](const R* row) { sum += load_first<R>(row + f, lanes, R(0)); });
        IntVec<R> more = (sum > best) | (sum != sum);  // NaN is taken, and stays
        if (t == 0) more = ~IntVec<R>{};
        best = more ? sum : best;
        place = more ? IntVec<R>{} + typename Simd<R>::Int(t) : place;
      }
      store_first<R>(largest + w * in.F + f, best, lanes);
      for (int i = 0; places && i < lanes; ++i) places[w * in.F + f + i] = int32_t(place[i]);
    }
  }
}

template <typename R>
void add_gradient(const Spelling<R>& in, const R* gradient, const int32_t* places) {
  for (int64_t w = 0; w < in.W; ++w, gradient += in.F, places += in.F) {
    const int64_t *word = word_of(in, w), length = length_of(in, w);
    for (int64_t f = 0; length && f < in.F; f += width<R>) {
      const int lanes = in.F - f < width<R> ? int(in.F - f) : width<R>;
      const Vec<R> all = load_first<R>(gradient + f, lanes, R(0));
      IntVec<R> place = IntVec<R>{} - 1;
      for (int i = 0; i < lanes; ++i) place[i] = places[f + i];
      for (int64_t t = 0; t < length; ++t) {
        const Vec<R> here = place == typename Simd<R>::Int(t) ? all : Vec<R>{};
        around(in, word, length, t, [&](R* row) {
          store_first<R>(row + f, load_first<R>(row + f, lanes, R(0)) + here, lanes);
        });
      }
    }
  }
}

}  // namespace trellis::layers::TRELLIS_ISA

TRELLIS_KERNELS_BY_TYPE(layers, SpellingKernels, find_largest<R>, add_gradient<R>)

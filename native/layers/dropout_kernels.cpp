// The kernels of kernels.h for one instruction set. Loops over the numbers of a row are plain: compilers make vectors of
// them.
#include "base/memory.h"
#include "base/simd.h"
#include "layers/kernels.h"

namespace trellis::layers::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

// Random bits of a place: SplitMix64 of its number.
inline uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The bits of a row of a mask, of which each number of the row then makes its own.
inline uint64_t key_of(uint64_t seed, uint64_t mask, uint64_t row) { return mixed(mixed(seed + mask) + row); }

// What is below this is dropped.
inline uint32_t threshold(double share) { return uint32_t(share * 4294967296.0); }

// scale[j] = 0 with probability `share`, otherwise 1 / (1 - share)
template <typename R>
inline void draw(uint64_t key, double share, int64_t first, int64_t width, R* scale) {
  const uint32_t begin = uint32_t(key), other = uint32_t(key >> 32), least = threshold(share);
  const R kept = R(1 / (1 - share));
  for (int64_t j = 0; j < width; ++j) {
    uint32_t x = begin + uint32_t(first + j) * 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x7feb352du ^ other;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    scale[j] = (x ^ (x >> 16)) < least ? R(0) : kept;
  }
}

template <typename R>
inline void apply_row(const R* in, const R* scale, int64_t width, bool add, R* out) {
  if (add) {
    for (int64_t j = 0; j < width; ++j) out[j] += in[j] * scale[j];
  } else {
    for (int64_t j = 0; j < width; ++j) out[j] = in[j] * scale[j];
  }
}

// out[n] = in[n] * row(n) * numbers(n) * columns(b), b: the sequence of n
template <typename R>
void apply_dropout(const Dropout& dropout, const Masked<R>& at) {
  enum : uint64_t { of_rows, of_numbers, of_columns };
  const int64_t width = at.width;
  Block<R> buffer(3 * width, R(1));
  R *columns = buffer, *numbers = buffer + width, *both = buffer + 2 * width;
  for (int64_t b = 0, n = 0; b < at.count; ++b) {
    if (dropout.columns > 0)
      draw<R>(key_of(dropout.seed, of_columns, uint64_t(b)), dropout.columns, at.first, width, columns);
    for (int64_t end = n + at.lengths[b]; n < end; ++n) {
      R* to = at.out + (at.out_rows ? at.out_rows[n] : n) * at.out_stride;
      if (dropout.rows > 0 && uint32_t(key_of(dropout.seed, of_rows, uint64_t(n)) >> 32) < threshold(dropout.rows)) {
        for (int64_t j = 0; !at.add && j < width; ++j) to[j] = R(0);
        continue;
      }
      const R* scale = columns;
      if (dropout.numbers > 0) {
        draw<R>(key_of(dropout.seed, of_numbers, uint64_t(n)), dropout.numbers, at.first, width, numbers);
        apply_row(columns, numbers, width, false, both);
        scale = both;
      }
      apply_row(at.in + (at.in_rows ? at.in_rows[n] : n) * at.in_stride, scale, width, at.add, to);
    }
  }
}

}  // namespace trellis::layers::TRELLIS_ISA

TRELLIS_KERNELS_BY_TYPE(layers, DropoutKernels, apply_dropout<R>)

// Convolutions over the characters of words, and the largest value of each filter. A filter's share of every character
// at every place of its window is looked up in a table[width, characters, F]: its sum over a window is the convolution.
// The plain data that the driver (spelling.cpp) and its kernels of every instruction set (filters.cpp) share.
#pragma once

#include <cstdint>

namespace trellis {

template <typename R>
struct Spelling {
  const int64_t* words;  // [W, C]: each row the ids of a word's characters, then zeros
  int64_t W, C;
  R* table;  // or its gradient
  int64_t width, characters, F;
};

template <typename R>
struct SpellingKernels {
  // largest[W, F] and the places where it is; a word without characters has zeros, and no place (-1)
  void (*find)(const Spelling<R>& in, R* largest, int32_t* places);
  // Adds gradient[W, F] to the table's, where the largest values come from.
  void (*add)(const Spelling<R>& in, const R* gradient, const int32_t* places);
};

template <typename R>
const SpellingKernels<R>& baseline_spelling_kernels();
template <typename R>
const SpellingKernels<R>& avx2_spelling_kernels();
template <typename R>
const SpellingKernels<R>& avx512_spelling_kernels();

}  // namespace trellis

// Convolutions over the characters of words, and the largest value of each filter. A filter's share of every character
// at every place of its window is looked up in a table[width, characters, F]: its sum over a window is the convolution.
// The plain data that the driver (spelling.cpp) and its kernels of every instruction set (spelling_kernels.cpp) share.
#pragma once

#include "base/instruction_set.h"

#include <cstdint>

namespace trellis::layers {

template <typename R>
struct Spelling {
  const int64_t* words;  // [W, C]: each row the ids of a word's characters, then zeros
  int64_t W, C;
  const int64_t* offsets;  // [W + 1]: if given, words are one after another instead, without zeros; C is not used
  R* table;  // or its gradient
  int64_t width, characters, F;
};

template <typename R>
struct SpellingKernels {
  // largest[W, F] and, unless null, the places where it is; a word without characters has zeros, and no place (-1)
  void (*find)(const Spelling<R>& in, R* largest, int32_t* places);
  // Adds gradient[W, F] to the table's, where the largest values come from.
  void (*add)(const Spelling<R>& in, const R* gradient, const int32_t* places);
};

// `find`, or false if a word has an id that is not in the table; then nothing is computed.
template <typename R>
bool spelling_forward(const Spelling<R>& in, R* largest, int32_t* places);
// The same for words with offsets, without places, on several threads.
bool spell(const Spelling<float>& in, int threads, float* largest);
// `add`
template <typename R>
void spelling_backward(const Spelling<R>& in, const R* gradient, const int32_t* places);

}  // namespace trellis::layers

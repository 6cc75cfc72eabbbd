// Rows times masks of dropout that are drawn while they are used: the numbers of a mask are functions of a seed and of
// their place, so that a backward pass draws the same ones again, and no mask is ever stored. The plain data that the
// binding and the kernels of every instruction set (dropout_kernels.cpp) share.
#pragma once

#include "base/instruction_set.h"

#include <cstdint>

namespace trellis::layers {

// Shares of what is dropped: whole rows, single numbers, columns of a sequence; what is kept of the last two is scaled.
struct Dropout {
  uint64_t seed;
  double rows, numbers, columns;
};

// Some neighbouring columns of the masked matrix [N, D], of which column 0 here is column `first` there.
template <typename R>
struct Masked {
  const int64_t* lengths;  // of the sequences, which add up to N
  int64_t count;           // of sequences
  int64_t first, width;
  const R* in;
  int64_t in_stride;
  const int64_t* in_rows;  // the row of `in` that row n is made of; null for its own
  R* out;
  int64_t out_stride;
  const int64_t* out_rows;  // the row of `out` that row n goes to; null for its own
  bool add;                 // to what is there
};

template <typename R>
struct DropoutKernels {
  void (*apply)(const Dropout& dropout, const Masked<R>& at);
};

}  // namespace trellis::layers

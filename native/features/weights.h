// The weights of attributes as plain data for the kernels of every instruction set.
#pragma once

#include "base/instruction_set.h"

#include <cstdint>

namespace trellis::features {

struct WeightPlace {
  uint32_t begin;  // its first pair, or its row
  int32_t count;   // its pairs, or -1 for a row
};

// A weight for each label in rows, or pairs of a label and a weight.
template <typename R>
struct WeightView {
  const WeightPlace* places;  // [A]
  const R* rows;              // [rows, L], and rows_padding more
  const R* weights;           // [pairs]
  const uint16_t* labels;     // [pairs]
  int64_t L;
};

// Attributes begin .. end - 1 of a corpus that has `all`: what later ones need is fetched ahead.
struct AttributeRange {
  const int32_t* attributes;
  const double* values;  // of each, or null if all are 1
  int64_t begin, end, all;
};

template <typename R>
struct WeightKernels {
  // row[l] += value * weight[a, l], for one attribute after another
  void (*add)(const WeightView<R>& weights, const AttributeRange& range, R* row);
};

template <typename R>
const WeightKernels<R>& weight_kernels() {
  return kernels_in_use<WeightKernels<R>>();
}

}  // namespace trellis::features

// Sums over lists of rows: the whole of scoring and differentiating a feature CRF, apart from attributes with few
// labels. The plain data that the plan (plan.cpp) and its kernels of every instruction set (rows_kernels.cpp) share.
#pragma once

#include "base/instruction_set.h"

#include <cstdint>

namespace trellis::features {

// Lists of row numbers one after another: list i ends at ends[i] and begins where the one before ends.
struct RowLists {
  const uint32_t* ends;
  const int32_t* items;  // rows_ahead more than the last list has, of any rows that there are
  const double* values;  // of each item, or null if all are 1
};

// The units of one kind of window (windows.cpp): token t gets row i, i < width, of the unit at places[t + width - 1 - i].
struct PlaceList {
  const int32_t* places;  // rows_ahead more than the last token asks for
  int64_t width;
};

constexpr int rows_ahead = 32;    // rows are fetched this many steps before they are added
constexpr int rows_padding = 64;  // numbers that must follow the last row: whole vectors are read

// out[i - first, l] = sum over the items r of list i, with value v, of v * rows[r, l], for lists first .. last - 1
template <typename R>
struct RowKernels {
  void (*add)(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, R* out);
  // The same with sums in double.
  void (*collect)(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, R* out);
  void (*total)(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, double* out);
  // For at most 8 labels: out[t, l] = the sum over windows, and over the rows r of theirs that token t gets, of rows[r, l]
  void (*add_places)(const R* rows, int64_t L, const PlaceList* windows, int64_t count, int64_t tokens, R* out);
  // out[(u - first) * width + i, l] = sum over the items r of list u of rows[r + i, l], for lists first .. last - 1; in
  // double
  void (*collect_places)(const R* rows, int64_t L, const RowLists& lists, int64_t first, int64_t last, int64_t width,
                         R* out);
};

// Those of the instruction set in use.
template <typename R>
const RowKernels<R>& row_kernels() {
  return kernels_in_use<RowKernels<R>>();
}

}  // namespace trellis::features

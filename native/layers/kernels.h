// What kernels of this room, which are compiled once per instruction set, share with their drivers: dense layers, rows
// times masks of dropout, and the recurrence of an LSTM.
#pragma once

#include "base/instruction_set.h"

#include <cstdint>

namespace trellis::layers {

// out[n] = bias + in[n] W^T with W[M, K]
struct DenseProduct {
  int64_t K, M;
  const float* packed;
  const float* bias;  // padded like the packed columns
  const float* in;    // [rows, K]
  int64_t rows;
  float* out;  // [rows, M]
};

struct DenseKernels {
  int64_t (*padded)(int64_t M);                                             // columns with those that fill vectors
  void (*pack)(const float* weights, int64_t K, int64_t M, float* packed);  // weights[M, K] to [K, padded(M)]
  void (*apply)(const DenseProduct& at);
};

// Masks of dropout are drawn while they are used: their numbers are functions of a seed and of their place, so that a
// backward pass draws the same ones again, and no mask is ever stored.

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

// The recurrence of an LSTM over a ragged batch, in one direction: what is left of the layer when the products with its
// inputs are taken out of the loop.

// Some sequences of a batch, longest first. The tokens of a sequence are neighbouring rows of all arrays.
struct SequenceGroup {
  const int64_t* first;    // row of each sequence's first token
  const int64_t* lengths;  // above 0, none longer than the one before
  int64_t count;
  bool reversed;  // read from the last token to the first
};

// Arrays of one direction, one row per token. `gates` has the input, forget, cell and output gates side by side, H
// numbers each; if `gate_rows` is given, tokens share its rows, as those of the same word do.
template <typename R>
struct Recurrence {
  int64_t H;
  const R* weights;  // packed for the kernel
  int64_t gate_stride, state_stride;
  const int64_t* gate_rows;  // forward, unless the gates are kept: the row of each token; null for its own
  R* gates;           // forward: what inputs and biases give, then the gates themselves; backward: these
  R* cells;           // written by forward
  R* states;          // written by forward
  const R* gradient;  // backward: of the states
  R* gate_gradient;   // backward writes: of the gates before their activations, gate_stride
  R* previous;        // backward writes: the state before each token, state_stride
  bool keep;          // forward: whether the gates themselves are wanted
};

template <typename R>
struct LstmKernels {
  int64_t (*packed_size)(int64_t H);
  void (*pack_forward)(const R* weights, int64_t H, R* packed);  // weights[4H, H]
  void (*pack_backward)(const R* weights, int64_t H, R* packed);
  void (*forward)(const SequenceGroup& group, const Recurrence<R>& at);
  void (*backward)(const SequenceGroup& group, const Recurrence<R>& at);
};

}  // namespace trellis::layers

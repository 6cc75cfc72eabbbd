// The recurrence of an LSTM over a ragged batch, in one direction: what is left of the layer when the products with its
// inputs are taken out of the loop. The plain data that the driver (lstm.cpp) and its kernels of every instruction set
// (lstm_kernels.cpp) share.
#pragma once

#include "base/instruction_set.h"

#include <cstdint>

namespace trellis::layers {

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

// A bidirectional LSTM layer over a ragged batch: both passes, for training beside torch, and a layer for tagging.
#pragma once

#include "base/numbers.h"
#include "layers/dense.h"
#include "layers/kernels.h"

#include <cstdint>

namespace trellis::layers {

// The lengths of all sequences of a batch; their tokens are rows one after another.
struct Sequences {
  const int64_t* lengths;
  int64_t count;
};

// Both directions of a layer. `arrays` are those of the forward direction, with the other direction's numbers next
// to them in each row; its weights[2, 4H, H] come unpacked.
template <typename R>
void lstm_forward(const Sequences& sequences, int threads, const R* weights, const Recurrence<R>& arrays);
template <typename R>
void lstm_backward(const Sequences& sequences, int threads, const R* weights, const Recurrence<R>& arrays);

// A layer whose weights stay as they are: packed once.
class StoredLstm {
 public:
  // inward[8H, D], bias[8H] of both biases together, recurrent[2, 4H, H]: the forward direction before the other
  StoredLstm(const float* inward, const float* bias, const float* recurrent, int64_t D, int64_t H);

  int64_t inputs() const { return inward_.inputs(); }
  int64_t H() const { return H_; }
  // features[rows, D] to states[N, 2H]; the row of each token is its own, or that of row_of[N]
  void run(const float* features, int64_t rows, const int64_t* row_of, const Sequences& sequences, int threads,
           float* states) const;

 private:
  const LstmKernels<float>& kernels_;  // of the instruction set that the weights were packed for
  int64_t H_;
  StoredDense inward_;
  Block<float> recurrent_;
};

}  // namespace trellis::layers

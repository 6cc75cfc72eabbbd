#include "layers/stored_lstm.h"

#include <numeric>

namespace trellis {

StoredLstm::StoredLstm(const float* inward, const float* bias, const float* recurrent, int64_t D, int64_t H)
    : kernels_(lstm_kernels<float>()), H_(H), inward_(inward, bias, D, 8 * H), recurrent_(2 * kernels_.packed_size(H)) {
  for (int64_t way = 0; way < 2; ++way)
    kernels_.pack_forward(recurrent + way * 4 * H * H, H, recurrent_ + way * kernels_.packed_size(H));
}

void StoredLstm::run(const float* features, int64_t rows, const int64_t* row_of, const Sequences& sequences,
                     int threads, float* states) const {
  const int64_t N = std::accumulate(sequences.lengths, sequences.lengths + sequences.count, int64_t(0));
  const Block<float> gates(rows * 8 * H_), cells(N * 2 * H_);
  inward_.apply(features, rows, threads, gates);
  lstm_states(sequences, threads, kernels_,
              {H_, recurrent_, 8 * H_, 2 * H_, row_of, gates, cells, states, nullptr, nullptr, nullptr, false});
}

}  // namespace trellis

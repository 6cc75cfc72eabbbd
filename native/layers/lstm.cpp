// Drives a bidirectional LSTM layer: each direction of each share of the sequences is a task. A token's numbers depend
// on its own sequence only, so that results are the same bit for bit with any number of threads.
#include "layers/lstm.h"

#include "base/numbers.h"
#include "base/threads.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace trellis::layers {
namespace {

constexpr int64_t least_share = 6;  // sequences that make a task worthwhile
constexpr int64_t most_share = 24;  // sequences whose states stay in the first cache, next to the weights of some units

// The sequences of a batch in shares of like lengths, each longest first; empty sequences are in none.
class Shares {
 public:
  Shares(const int64_t* lengths, int64_t B, int threads) {
    std::vector<int64_t> offsets(size_t(B) + 1, 0), order(size_t(B), 0);
    std::partial_sum(lengths, lengths + B, offsets.begin() + 1);
    std::iota(order.begin(), order.end(), int64_t(0));
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
    while (!order.empty() && lengths[order.back()] == 0) order.pop_back();
    const int64_t count = int64_t(order.size()), most = std::max<int64_t>(count / least_share, 1);
    const int64_t wanted = std::max<int64_t>((threads + 1) / 2, parts_of(count, most_share));
    const int64_t shares = std::clamp<int64_t>(wanted, 1, most);
    for (int64_t share = 0; share < shares; ++share) {
      begins_.push_back(first_.size());
      for (size_t i = size_t(share); i < order.size(); i += size_t(shares)) {
        first_.push_back(offsets[size_t(order[i])]);
        lengths_.push_back(lengths[order[i]]);
      }
    }
    begins_.push_back(first_.size());
  }

  int64_t count() const { return int64_t(begins_.size()) - 1; }

  SequenceGroup group(int64_t share, bool reversed) const {
    const size_t begin = begins_[size_t(share)], end = begins_[size_t(share) + 1];
    return {first_.data() + begin, lengths_.data() + begin, int64_t(end - begin), reversed};
  }

 private:
  std::vector<int64_t> first_, lengths_;
  std::vector<size_t> begins_;
};

template <typename R>
using Step = void (*)(const SequenceGroup&, const Recurrence<R>&);

// Calls task(share, direction, its arrays) for both directions of each share, on the threads of `run_on`; `packed` are
// the weights of both.
template <typename R, typename Task>
void run_shares(decltype(run_tasks)* run_on, const Shares& shares, int threads, const R* packed, int64_t size,
                const Recurrence<R>& arrays, const Task& task) {
  const int64_t H = arrays.H;
  run_on(2 * shares.count(), threads, [&](int64_t number) {
    const int64_t way = number % 2;
    Recurrence<R> own = arrays;
    own.weights = packed + way * size;
    own.gates += way * 4 * H;
    own.cells += way * H;
    own.states += way * H;
    if (own.gradient) {
      own.gradient += way * H;
      own.gate_gradient += way * 4 * H;
      own.previous += way * H;
    }
    task(shares.group(number / 2, way == 1), way, own);
  });
}

template <typename R>
void run(const Sequences& sequences, int threads, const R* weights, const Recurrence<R>& arrays,
         void (*pack)(const R*, int64_t, R*), Step<R> step) {
  const int64_t H = arrays.H, size = kernels_in_use<LstmKernels<R>>().packed_size(H);
  const Shares shares(sequences.lengths, sequences.count, threads);
  const Block<R> packed(2 * size);
  const auto pack_way = [&](int64_t way) { pack(weights + way * 4 * H * H, H, packed + way * size); };
  const bool alone = shares.count() == 1;  // then each direction is one task, which packs its own weights
  if (!alone) run_beside_torch(2, threads, pack_way);
  const auto task = [&](const SequenceGroup& group, int64_t way, const Recurrence<R>& own) {
    if (alone) pack_way(way);
    step(group, own);
  };
  run_shares<R>(run_beside_torch, shares, threads, packed, size, arrays, task);
}

}  // namespace

template <typename R>
void lstm_forward(const Sequences& sequences, int threads, const R* weights, const Recurrence<R>& arrays) {
  run<R>(sequences, threads, weights, arrays, kernels_in_use<LstmKernels<R>>().pack_forward, kernels_in_use<LstmKernels<R>>().forward);
}

template <typename R>
void lstm_backward(const Sequences& sequences, int threads, const R* weights, const Recurrence<R>& arrays) {
  run<R>(sequences, threads, weights, arrays, kernels_in_use<LstmKernels<R>>().pack_backward, kernels_in_use<LstmKernels<R>>().backward);
}

StoredLstm::StoredLstm(const float* inward, const float* bias, const float* recurrent, int64_t D, int64_t H)
    : kernels_(kernels_in_use<LstmKernels<float>>()), H_(H), inward_(inward, bias, D, 8 * H), recurrent_(2 * kernels_.packed_size(H)) {
  for (int64_t way = 0; way < 2; ++way)
    kernels_.pack_forward(recurrent + way * 4 * H * H, H, recurrent_ + way * kernels_.packed_size(H));
}

// All of it on our own threads, as the rest of tagging.
void StoredLstm::run(const float* features, int64_t rows, const int64_t* row_of, const Sequences& sequences,
                     int threads, float* states) const {
  const int64_t N = std::accumulate(sequences.lengths, sequences.lengths + sequences.count, int64_t(0));
  const Block<float> gates(rows * 8 * H_), cells(N * 2 * H_);
  inward_.apply(features, rows, threads, gates);
  const Recurrence<float> arrays{H_,    recurrent_, 8 * H_, 2 * H_,  row_of,  gates,
                                 cells, states,     nullptr, nullptr, nullptr, false};
  const Shares shares(sequences.lengths, sequences.count, threads);
  run_shares<float>(run_tasks, shares, threads, recurrent_, kernels_.packed_size(H_), arrays,
                    [&](const SequenceGroup& group, int64_t, const Recurrence<float>& own) { kernels_.forward(group, own); });
}

template void lstm_forward<float>(const Sequences&, int, const float*, const Recurrence<float>&);
template void lstm_forward<double>(const Sequences&, int, const double*, const Recurrence<double>&);
template void lstm_backward<float>(const Sequences&, int, const float*, const Recurrence<float>&);
template void lstm_backward<double>(const Sequences&, int, const double*, const Recurrence<double>&);

}  // namespace trellis::layers

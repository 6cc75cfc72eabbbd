// Drives a bidirectional LSTM layer: each direction of each share of the sequences is a task. A token's numbers depend
// on its own sequence only, so that results are the same bit for bit with any number of threads.
#include "layers/lstm.h"

#include "base/block.h"
#include "base/threads.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace trellis {
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
    const int64_t wanted = std::max<int64_t>((threads + 1) / 2, (count + most_share - 1) / most_share);
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

  Strand strand(int64_t share, bool reversed) const {
    const size_t begin = begins_[size_t(share)], end = begins_[size_t(share) + 1];
    return {first_.data() + begin, lengths_.data() + begin, int64_t(end - begin), reversed};
  }

 private:
  std::vector<int64_t> first_, lengths_;
  std::vector<size_t> begins_;
};

template <typename R>
using Step = void (*)(const Strand&, const Recurrence<R>&);

template <typename R>
void run(const Sequences& sequences, int threads, const R* weights, const Recurrence<R>& arrays,
         void (*pack)(const R*, int64_t, R*), Step<R> step) {
  const int64_t H = arrays.H, size = lstm_kernels<R>().packed_size(H);
  const Shares shares(sequences.lengths, sequences.count, threads);
  const Block<R> packed(2 * size);
  const auto pack_way = [&](int64_t way) { pack(weights + way * 4 * H * H, H, packed + way * size); };
  const auto one = [&](int64_t task) {
    const int64_t way = task % 2;
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
    step(shares.strand(task / 2, way == 1), own);
  };
  if (shares.count() == 1)  // then each direction is one task, which packs its own weights
    return run_beside_torch(2, threads, [&](int64_t task) { pack_way(task), one(task); });
  run_beside_torch(2, threads, pack_way);
  run_beside_torch(2 * shares.count(), threads, one);
}

}  // namespace

template <typename R>
void lstm_forward(const Sequences& sequences, int threads, const R* weights, const Recurrence<R>& arrays) {
  run<R>(sequences, threads, weights, arrays, lstm_kernels<R>().pack_forward, lstm_kernels<R>().forward);
}

template <typename R>
void lstm_backward(const Sequences& sequences, int threads, const R* weights, const Recurrence<R>& arrays) {
  run<R>(sequences, threads, weights, arrays, lstm_kernels<R>().pack_backward, lstm_kernels<R>().backward);
}

template void lstm_forward<float>(const Sequences&, int, const float*, const Recurrence<float>&);
template void lstm_forward<double>(const Sequences&, int, const double*, const Recurrence<double>&);
template void lstm_backward<float>(const Sequences&, int, const float*, const Recurrence<float>&);
template void lstm_backward<double>(const Sequences&, int, const double*, const Recurrence<double>&);

}  // namespace trellis

#include "optimizers/adam.h"

#include "base/threads.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trellis::optimizers {
namespace {

constexpr int64_t share = 1 << 15;  // numbers of a task

struct Piece {
  int64_t array, first, count;
};

// All arrays in pieces, which do not depend on the number of threads.
template <typename R>
std::vector<Piece> pieces_of(const Weights<R>* weights, int64_t arrays) {
  std::vector<Piece> pieces;
  for (int64_t a = 0; a < arrays; ++a)
    for (int64_t first = 0; first < weights[a].count; first += share)
      pieces.push_back({a, first, std::min(share, weights[a].count - first)});
  return pieces;
}

}  // namespace

template <typename R>
double gradient_length(const Weights<R>* weights, int64_t arrays, int threads) {
  const std::vector<Piece> pieces = pieces_of(weights, arrays);
  std::vector<double> sums(pieces.size());
  const auto& kernels = kernels_in_use<AdamKernels<R>>();
  run_beside_torch(int64_t(pieces.size()), threads, [&](int64_t task) {
    const Piece& own = pieces[size_t(task)];
    sums[size_t(task)] = kernels.squared_length(weights[own.array].gradient + own.first, own.count);
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return std::sqrt(total);
}

template <typename R>
void adam(const Weights<R>* weights, const AdamStep* steps, int64_t arrays, int threads) {
  const std::vector<Piece> pieces = pieces_of(weights, arrays);
  const auto& kernels = kernels_in_use<AdamKernels<R>>();
  run_beside_torch(int64_t(pieces.size()), threads, [&](int64_t task) {
    const Piece& own = pieces[size_t(task)];
    const Weights<R>& all = weights[own.array];
    const int64_t at = own.first;
    kernels.adam(steps[own.array], {all.values + at, all.gradient + at, all.means + at, all.squares + at, own.count});
  });
}

template double gradient_length<float>(const Weights<float>*, int64_t, int);
template double gradient_length<double>(const Weights<double>*, int64_t, int);
template void adam<float>(const Weights<float>*, const AdamStep*, int64_t, int);
template void adam<double>(const Weights<double>*, const AdamStep*, int64_t, int);

}  // namespace trellis::optimizers

#include "chain/scores.h"

#include "base/numbers.h"
#include "chain/kernels.h"

#include <algorithm>
#include <cmath>

namespace trellis::chain {

template <typename R>
uint8_t chain_contents(const Batch<R>& batch) {
  const auto contents = kernels<R>().contents;
  return contents(batch.transitions, batch.L * batch.L) | contents(batch.start, batch.L) | contents(batch.end, batch.L);
}

template <typename R>
DoubleChain::DoubleChain(const Batch<R>& batch) : scores_(batch.transitions, batch.transitions + batch.L * batch.L) {
  const int64_t L = batch.L;
  scores_.insert(scores_.end(), batch.start, batch.start + L);
  scores_.insert(scores_.end(), batch.end, batch.end + L);
  const double* start = scores_.data() + L * L;
  batch_ = {nullptr, nullptr, nullptr, scores_.data(), start, start + L, 0, L};
}

template <typename R>
ScaledScores<R>::ScaledScores(const Batch<R>& batch)
    : memory_((2 * batch.L + 2) * round_up(batch.L, kernels<R>().width)) {
  const int64_t L = batch.L, P = round_up(L, kernels<R>().width);
  view_ = {L, P, memory_, memory_ + L * P, memory_ + 2 * L * P, memory_ + (2 * L + 1) * P, 0, 0, 0, 0, false};
  kernels<R>().prepare(batch, view_);
}

template <typename To>
template <typename R>
PaddedScores<To>::PaddedScores(const Batch<R>& batch, int64_t P)
    : memory_((2 * batch.L + 2) * P, To(forbidden)) {
  const int64_t L = batch.L;
  view_ = {L, P, memory_, memory_ + L * P, memory_ + 2 * L * P, memory_ + (2 * L + 1) * P, {}, {}};
  for (int64_t i = 0; i < L; ++i) {
    for (int64_t j = 0; j < L; ++j)
      view_.forward[i * P + j] = view_.backward[j * P + i] = To(batch.transitions[i * L + j]);
    view_.start[i] = To(batch.start[i]);
    view_.end[i] = To(batch.end[i]);
  }
}

FactoredMatrix::FactoredMatrix(const double* matrix, int64_t L, int64_t P)
    : tops_(size_t(P), forbidden), factors_(L * P) {
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j < P; ++j) tops_[size_t(j)] = std::max(tops_[size_t(j)], matrix[i * P + j]);
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j < P; ++j) {
      const double score = matrix[i * P + j];
      factors_[i * P + j] = score == forbidden ? 0.0 : std::exp(score - tops_[size_t(j)]);
    }
  list_live_rows(matrix, L, P);
}

void FactoredMatrix::list_live_rows(const double* matrix, int64_t L, int64_t P) {
  const auto possible = [](double score) { return score != forbidden; };
  for (int64_t j = 0; j < P; j += live_columns) {
    const int64_t stop = std::min(P, j + live_columns);
    for (int64_t i = 0; i < L; ++i)
      if (std::any_of(matrix + i * P + j, matrix + i * P + stop, possible)) rows_.push_back(int32_t(i));
    ends_.push_back(int64_t(rows_.size()));
  }
  sparse_ = 2 * rows_.size() <= ends_.size() * size_t(L);
}

// A list of most of the rows would only be in the way.
LogFactors FactoredMatrix::view() const {
  return {tops_.data(), factors_, sparse_ ? ends_.data() : nullptr, sparse_ ? rows_.data() : nullptr};
}

template <typename R>
LogScores::LogScores(const Batch<R>& batch)
    : PaddedScores<double>(batch, round_up(batch.L, kernels<double>().width)),
      forward_(view_.forward, view_.L, view_.P),
      backward_(view_.backward, view_.L, view_.P) {
  view_.forward_factors = forward_.view();
  view_.backward_factors = backward_.view();
}

template uint8_t chain_contents(const Batch<float>&);
template uint8_t chain_contents(const Batch<double>&);
template DoubleChain::DoubleChain(const Batch<float>&);
template DoubleChain::DoubleChain(const Batch<double>&);
template class ScaledScores<float>;
template class ScaledScores<double>;
template PaddedScores<float>::PaddedScores(const Batch<float>&, int64_t);
template PaddedScores<double>::PaddedScores(const Batch<double>&, int64_t);
template PaddedScores<double>::PaddedScores(const Batch<float>&, int64_t);
template LogScores::LogScores(const Batch<float>&);
template LogScores::LogScores(const Batch<double>&);

}  // namespace trellis::chain

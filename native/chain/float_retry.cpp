#include "chain/float_retry.h"

#include "chain/complete_paths.h"
#include "chain/inference.h"

#include <algorithm>

namespace trellis::chain {
namespace {

int64_t tokens_of(const Batch<float>& batch, const std::vector<int64_t>& sequences) {
  int64_t tokens = 0;
  for (const int64_t b : sequences) tokens += batch.length(b);
  return tokens;
}

}  // namespace

FloatRetry::FloatRetry(const Batch<float>& batch, std::vector<int64_t> sequences)
    : batch_(batch),
      sequences_(std::move(sequences)),
      tokens_(tokens_of(batch, sequences_)),
      chain_(batch.transitions, batch.transitions + batch.L * batch.L),
      emissions_(tokens_ * batch.L),
      edges_(batch.edges ? tokens_ * batch.L * batch.L : 0) {
  const int64_t L = batch.L;
  chain_.insert(chain_.end(), batch.start, batch.start + L);
  chain_.insert(chain_.end(), batch.end, batch.end + L);
  copy_scores();
  auto layout = std::make_shared<Layout>();
  layout->offsets.push_back(0);
  for (const int64_t b : sequences_) layout->offsets.push_back(layout->offsets.back() + batch.length(b));
  inference_ = std::make_unique<Inference<double>>(layout, emissions_, chain_.data(), chain_.data() + L * L,
                                                   chain_.data() + L * L + L, L, batch.edges ? &edges_[0] : nullptr);
}

FloatRetry::~FloatRetry() = default;

void FloatRetry::copy_scores() {
  const int64_t L = batch_.L;
  double *emission = emissions_, *edge = edges_;
  for (const int64_t b : sequences_) {
    for (int64_t n = batch_.offsets[b]; n < batch_.offsets[b + 1]; ++n) {
      driver::copy_emission(batch_, b, n, emission);
      emission += L;
      if (batch_.edges && n > batch_.offsets[b]) edge = std::copy_n(batch_.edge(b, n), L * L, edge);
    }
  }
}

void FloatRetry::log_partition(double* out, bool keep) {
  std::vector<double> found(sequences_.size());
  inference_->log_partition(found.data(), keep);
  for (size_t i = 0; i < found.size(); ++i) out[sequences_[i]] = found[i];
}

void FloatRetry::gradient(const double* weights, float* emissions, const Neighbours<float>* pairs, Sums& sums) {
  const int64_t L = batch_.L;
  std::vector<double> own;
  for (const int64_t b : sequences_) own.push_back(weights[b]);
  Block<double> marginals(tokens_ * L), steps(pairs ? tokens_ * L * L : 0), counts((L + 2) * L);
  inference_->gradient(own.data(),
                       {marginals, counts, counts + L * L, counts + L * L + L, tokens_, pairs ? &steps[0] : nullptr,
                        inference_->layout().pairs()});
  write_marginals(marginals, emissions);
  if (pairs) write_pairs(steps, *pairs);
  for (int64_t i = 0; i < L + 2; ++i)
    for (int64_t j = 0; j < L; ++j) sums.memory[i * sums.P + j] += counts[i * L + j];
}

void FloatRetry::write_marginals(const double* marginals, float* emissions) const {
  const int64_t L = batch_.L;
  for (const int64_t b : sequences_)
    for (int64_t n = batch_.offsets[b]; n < batch_.offsets[b + 1]; ++n, marginals += L)
      std::copy_n(marginals, L, emissions + batch_.row(n) * L);
}

void FloatRetry::write_pairs(const double* marginals, const Neighbours<float>& pairs) const {
  const int64_t cells = batch_.L * batch_.L;
  for (const int64_t b : sequences_)
    for (int64_t n = batch_.offsets[b] + 1; n < batch_.offsets[b + 1]; ++n, marginals += cells)
      std::copy_n(marginals, cells, pairs.of(b, n, batch_.L));
}

}  // namespace trellis::chain

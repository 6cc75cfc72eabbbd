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
      chain_(batch),
      emissions_(tokens_ * batch.L),
      edges_(batch.edges ? tokens_ * batch.L * batch.L : 0) {
  const int64_t L = batch.L;
  double *emission = emissions_, *edge = edges_;
  auto layout = std::make_shared<Layout>();
  layout->offsets.push_back(0);
  for (const int64_t b : sequences_) {
    for (int64_t n = batch.offsets[b]; n < batch.offsets[b + 1]; ++n, emission += L) {
      driver::copy_emission(batch, b, n, emission);
      if (batch.edges && n > batch.offsets[b]) edge = std::copy_n(batch.edge(b, n), L * L, edge);
    }
    layout->offsets.push_back(layout->offsets.back() + batch.length(b));
  }
  const Batch<double>& chain = chain_.batch();
  inference_ = std::make_unique<Inference<double>>(layout, emissions_, chain.transitions, chain.start, chain.end, L,
                                                   batch.edges ? &edges_[0] : nullptr);
}

FloatRetry::~FloatRetry() = default;

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
  const double *token = marginals, *pair = steps;
  for (const int64_t b : sequences_)
    for (int64_t n = batch_.offsets[b]; n < batch_.offsets[b + 1]; ++n, token += L) {
      std::copy_n(token, L, emissions + batch_.row(n) * L);
      if (!pairs || n == batch_.offsets[b]) continue;
      std::copy_n(pair, L * L, pairs->of(b, n, L));
      pair += L * L;
    }
  for (int64_t i = 0; i < L + 2; ++i)
    for (int64_t j = 0; j < L; ++j) sums.memory[i * sums.P + j] += counts[i * L + j];
}

}  // namespace trellis::chain

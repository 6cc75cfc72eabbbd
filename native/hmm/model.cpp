#include "hmm/model.h"

#include "base/numbers.h"

#include <algorithm>
#include <cmath>

namespace trellis::hmm {
namespace {

// As scaled_exp in lockstep_kernels.h, for a probability: what is flushed to zero narrows the gap.
double flush(double p, double& gap, bool& mixing) {
  using Bounds = Range<double>;
  mixing &= p >= std::exp(Bounds::mixing_log);
  if (p >= std::exp(Bounds::least_log)) return p;
  if (p > 0) gap = std::min(gap, -std::log(p));
  return 0.0;
}

}  // namespace

Model::Model(const double* start, const double* transitions, const double* end, const double* emissions, int64_t L,
             int64_t V, int64_t P)
    : emissions_(emissions), scaled_((2 * L + 2) * P, 0.0), logs_((2 * L + 2) * P, forbidden), table_(V * P, 0.0),
      peaks_(V) {
  Prepared<double>& chain = prepared.chain;
  chain = {L, P, scaled_, scaled_ + L * P, scaled_ + 2 * L * P, scaled_ + (2 * L + 1) * P, 0, 0, 0, -forbidden, true};
  log_prepared = {L, P, logs_, logs_ + L * P, logs_ + 2 * L * P, logs_ + (2 * L + 1) * P, {}, {}};
  bool start_mixing = true;
  for (int64_t i = 0; i < L; ++i) {
    chain.start[i] = flush(start[i], chain.gap, start_mixing);
    chain.end[i] = flush(end[i], chain.gap, chain.mixing);
    log_prepared.start[i] = std::log(start[i]);
    log_prepared.end[i] = std::log(end[i]);
    for (int64_t j = 0; j < L; ++j) {
      const double a = transitions[i * L + j];
      chain.forward[i * P + j] = chain.backward[j * P + i] = flush(a, chain.gap, chain.mixing);
      log_prepared.forward[i * P + j] = log_prepared.backward[j * P + i] = std::log(a);
    }
  }
  prepared.emissions = table_;
  prepared.peaks = peaks_;
}

void Model::prepare_symbols(int64_t first, int64_t last) {
  const int64_t L = prepared.chain.L, P = prepared.chain.P;
  for (int64_t v = first; v < last; ++v) {
    const double* row = emissions_ + v * L;
    const double top = *std::max_element(row, row + L);
    peaks_[v] = top > 0 ? std::log(top) : 0.0;
    for (int64_t j = 0; j < L && top > 0; ++j) table_[v * P + j] = row[j] / top;
  }
}

}  // namespace trellis::hmm

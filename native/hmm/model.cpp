#include "hmm/model.h"

#include "base/numbers.h"

#include <algorithm>
#include <cmath>

namespace trellis::hmm {
namespace {

// The bounds of Range<double> in lockstep_kernels.h: transitions below exp(least_log) are flushed to zero and narrow
// the gap; if all are above exp(mixing_log), nothing that underflows can ever matter.
constexpr double least_log = -340.0, mixing_log = -220.0;

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
    chain.start[i] = scaled(start[i], start_mixing);
    chain.end[i] = scaled(end[i], chain.mixing);
    log_prepared.start[i] = std::log(start[i]);
    log_prepared.end[i] = std::log(end[i]);
    for (int64_t j = 0; j < L; ++j) {
      const double a = transitions[i * L + j];
      chain.forward[i * P + j] = chain.backward[j * P + i] = scaled(a, chain.mixing);
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

double Model::scaled(double p, bool& mixing) {
  mixing &= p >= std::exp(mixing_log);
  if (p >= std::exp(least_log)) return p;
  if (p > 0) prepared.chain.gap = std::min(prepared.chain.gap, -std::log(p));
  return 0.0;
}

}  // namespace trellis::hmm

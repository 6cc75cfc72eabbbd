// An HMM as the kernels read it: scaled, and in log space for the sequences that need it.
#pragma once

#include "base/block.h"
#include "hmm/kernels.h"

namespace trellis::hmm {

class Model {
 public:
  Model(const double* start, const double* transitions, const double* end, const double* emissions, int64_t L,
        int64_t V, int64_t P);
  // Rows first .. last - 1 of the table of emissions.
  void prepare_symbols(int64_t first, int64_t last);
  double emission(int64_t symbol, int64_t state) const { return emissions_[symbol * prepared.chain.L + state]; }

  HmmPrepared prepared{};
  LogPrepared<double> log_prepared{};

 private:
  const double* emissions_;  // [V, L]
  Block<double> scaled_, logs_, table_, peaks_;
};

}  // namespace trellis::hmm

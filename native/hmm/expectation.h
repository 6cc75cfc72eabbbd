// The E-step of Baum-Welch over a corpus of symbols.
#pragma once

#include "base/numbers.h"
#include "base/tasks.h"
#include "chain/outcome.h"
#include "chain/sums.h"
#include "hmm/kernels.h"

#include <vector>

namespace trellis::hmm {

using namespace chain;

// A corpus, ready for any number of E-steps; points into the arrays of the tokens.
class Expectation {
 public:
  Expectation(const HmmTokens& tokens, int64_t B, int64_t N, int64_t L, int64_t V);

  // start[L], transitions[L, L], end[L] and emissions[V, L] are probabilities, and so shaped are the expected counts.
  // One E-step at a time: they share memory.
  Outcome run(const double* start, const double* transitions, const double* end, const double* emissions,
              double* start_counts, double* transition_counts, double* emission_counts, double* log_likelihood);

 private:
  struct Model;

  void expect_all(Model& model, double* start, double* transitions, double* logs);
  void expect_in_log_space(Model& model, int64_t b, Sums& sums, double* logs);
  void gather_all(double* counts);

  HmmTokens tokens_;
  int64_t B_, N_, L_, P_, V_;
  Tasks tasks_;
  Block<double> gamma_;  // [N, L] weighted posteriors of the last E-step
  std::vector<int64_t> by_symbol_;
  std::vector<uint8_t> status_;
};

}  // namespace trellis::hmm

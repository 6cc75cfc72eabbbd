// The E-step of Baum-Welch over integer observations: expected counts of starts, transitions and emissions. The plain
// data that its driver (expectation.cpp) and the kernels of every instruction set (expectation_kernels.cpp) share.
// Shapes: B sequences, N tokens in all (flat), L states, P states rounded up to whole vectors, V symbols.
#pragma once

#include "base/instruction_set.h"
#include "chain/batch.h"

namespace trellis::hmm {

using namespace chain;

// A model made ready for one E-step. Emissions are divided by the greatest of their symbol's row, so that products
// stay near 1 however many symbols there are; the logarithm of the divisor is the symbol's peak.
struct HmmPrepared {
  Prepared<double> chain;   // transitions and their transpose, start, end
  const double* emissions;  // [V, P] P(symbol | state) / exp(peak)
  const double* peaks;      // [V]
};

struct HmmTokens {
  const int64_t* symbols;   // [N]
  const int64_t* offsets;   // [B + 1]
  const uint8_t* allowed;   // [N, L] the states a token may have, or null: all
  const double* weights;    // [B] how much each sequence counts
};

struct HmmKernels {
  // Forward and backward for a group of sequences as that of a chain, longest first: gamma[N, L], the expected counts, and
  // each sequence's log-likelihood and status.
  void (*expect)(const HmmTokens&, const HmmPrepared&, const int64_t* sequences, int count, double* gamma,
                 const Counts& counts, double* log_likelihood, uint8_t* status);
  // sums[symbol, L] += gamma[n] over the tokens n = tokens[0 .. count - 1], which are sorted by symbol. The sum of the
  // first symbol goes to `first` instead: it may have begun in another stretch.
  void (*gather)(const int64_t* tokens, int64_t count, const int64_t* symbols, const double* gamma, int64_t L,
                 double* first, double* sums);
};

}  // namespace trellis::hmm

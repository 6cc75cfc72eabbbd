// The E-step's kernels of one instruction set. Forward and backward are those of a chain (lockstep_kernels.h), whose
// argument for exactness holds here too: probabilities are looked up instead of exponentiated.
//   alpha[0, j] = pi[j] B[j, o[0]]            alpha[t, j] = sum_i alpha[t-1, i] A[i, j] * B[j, o[t]]
//   gamma[t, j] = P(state t is j | o)         xi[t, i, j] = P(states t-1, t are i, j | o)
// Both passes of a group run one after the other, while the forward rows are still in the cache.
#include "hmm/kernels.h"

#include "chain/lockstep_kernels.h"

namespace trellis::hmm::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;
using namespace chain::TRELLIS_ISA;

// The emission factors of a token, as ExpFactors: its symbol's row, or a copy of it without the states that are not
// allowed.
struct SymbolFactors {
  static constexpr bool are_computed = false;
  static constexpr int64_t fold_every = int64_t(1) << 62;  // sums in double need no folding
  const HmmTokens tokens;
  const double *emissions, *peaks;
  int64_t L;
  double* row;  // [P] memory

  __attribute__((always_inline)) const double* of(int64_t token, int64_t P, double* memory) const {
    const double* given = emissions + tokens.symbols[token] * P;
    if (!tokens.allowed) return given;
    const uint8_t* allowed = tokens.allowed + token * L;
    for (int64_t j = 0; j < L; ++j) memory[j] = allowed[j] ? given[j] : 0.0;
    for (int64_t j = L; j < P; ++j) memory[j] = 0.0;
    return memory;
  }
  __attribute__((always_inline)) const double* forward(Runner<double>& runner, int64_t t, int64_t P,
                                                       double* memory) const {
    runner.peaks += peaks[tokens.symbols[runner.first + t]];
    return of(runner.first + t, P, memory);
  }
  __attribute__((always_inline)) const double* backward(const Runner<double>& runner, int64_t t, int64_t P) const {
    return of(runner.first + t, P, row);
  }
};

void expect(const HmmTokens& tokens, const HmmPrepared& prepared, const int64_t* sequences, int count, double* gamma,
            const Counts& counts, double* log_likelihood, uint8_t* status) {
  Runner<double> runners[group_size];
  start_runners<double>(tokens.offsets, sequences, count, nullptr, runners);
  const int64_t rows = lay_out(count, runners), P = prepared.chain.P;
  const Block<double> alpha(rows * P), scale(rows), row(P);
  const Tape<double> tape{alpha, nullptr, scale, nullptr, nullptr};
  const SymbolFactors factors{tokens, prepared.emissions, prepared.peaks, prepared.chain.L, row};
  with_vectors<double>(P, [&](auto NV) {
    forward_pass<double, NV>(prepared.chain, runners, count, &tape, factors, log_likelihood, status);
    for (int g = 0; g < count; ++g)
      if (status[sequences[g]] != exact) return;  // the driver takes the group apart
    backward_pass<double, NV>(prepared.chain, runners, count, tape, factors, tokens.weights, nullptr, gamma, counts,
                              status);
  });
}

void gather(const int64_t* tokens, int64_t count, const int64_t* symbols, const double* gamma, int64_t L,
            double* first, double* sums) {
  constexpr int64_t ahead = 8;  // rows that are on their way from memory
  for (int64_t n = 0; n < count; ++n) {
    if (n + ahead < count) __builtin_prefetch(gamma + tokens[n + ahead] * L);
    const int64_t symbol = symbols[tokens[n]];
    double* to = symbol == symbols[tokens[0]] ? first : sums + symbol * L;
    const double* row = gamma + tokens[n] * L;
    for (int64_t j = 0; j < L; ++j) to[j] += row[j];
  }
}

}  // namespace trellis::hmm::TRELLIS_ISA

TRELLIS_KERNELS(hmm, HmmKernels, expect, gather)

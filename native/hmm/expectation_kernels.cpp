// The E-step's kernels of one instruction set, on the primitives of lockstep_kernels.h, whose argument for exactness
// holds here too: probabilities are looked up instead of exponentiated, everything else is the same.
//   alpha[0, j] = pi[j] B[j, o[0]]            alpha[t, j] = sum_i alpha[t-1, i] A[i, j] * B[j, o[t]]
//   gamma[t, j] = P(state t is j | o)         xi[t, i, j] = P(states t-1, t are i, j | o)
// Forward and backward of a group run one after the other, while the forward rows are still in the cache.
#include "hmm/kernels.h"

#include "chain/lockstep_kernels.h"

namespace trellis::hmm::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;
using namespace chain::TRELLIS_ISA;

typedef Runner<double> HmmRunner;

// The emission factors of a token: its symbol's row, or a copy of it without the states that are not allowed.
inline const double* factors_of(const HmmTokens& tokens, const HmmPrepared& prepared, int64_t token, double* copy) {
  const int64_t L = prepared.chain.L, P = prepared.chain.P;
  const double* row = prepared.emissions + tokens.symbols[token] * P;
  if (!tokens.allowed) return row;
  const uint8_t* allowed = tokens.allowed + token * L;
  for (int64_t j = 0; j < L; ++j) copy[j] = allowed[j] ? row[j] : 0.0;
  for (int64_t j = L; j < P; ++j) copy[j] = 0.0;
  return copy;
}

// Where the rows of each runner begin in the group's own tape.
struct GroupTape {
  int64_t begin[group_size];
  Block<double> alpha, scale;  // [tokens of the group, P], [tokens of the group]
};

inline int64_t lay_out(const HmmRunner* runners, int count, int64_t* begin) {
  int64_t total = 0;
  for (int g = 0; g < count; ++g) {
    begin[g] = total;
    total += runners[g].length;
  }
  return total;
}

template <int NV>
void forward_pass(const HmmTokens& tokens, const HmmPrepared& prepared, HmmRunner* runners, int count, int64_t P,
                  const GroupTape& tape, double* log_likelihood, uint8_t* status) {
  const Prepared<double>& chain = prepared.chain;
  P = NV ? NV * width<double> : P;
  Block<double> current(group_size * P, 0.0), next(group_size * P, 0.0), copy(P);
  double *x = current, *y = next;
  for (int64_t t = 0, active = count;; ++t) {
    for (; active && runners[active - 1].length == t; --active) {
      HmmRunner& runner = runners[active - 1];
      finish(chain, chain.gap, x + (active - 1) * P, runner, log_likelihood[runner.b], status[runner.b]);
    }
    if (!active) return;
    if (t == 0) {
      for (int g = 0; g < active; ++g) __builtin_memcpy(y + g * P, chain.start, P * sizeof(double));
    } else {
      multiply<double>(int(active), x, chain.forward, chain.L, P, y);
    }
    for (int g = 0; g < active; ++g) {
      const int64_t token = runners[g].first + t, place = tape.begin[g] + t;
      const double* factors = factors_of(tokens, prepared, token, copy);
      runners[g].peaks += prepared.peaks[tokens.symbols[token]];
      tape.scale[place] = rescale(factors, P, y + g * P, chain.mixing, runners[g]);
      __builtin_memcpy(tape.alpha + place * P, y + g * P, P * sizeof(double));
    }
    double* swap = x;
    x = y;
    y = swap;
  }
}

template <int NV>
void backward_pass(const HmmTokens& tokens, const HmmPrepared& prepared, HmmRunner* runners, int count, int64_t P,
                   const GroupTape& tape, double* gamma, const Counts& counts, uint8_t* status) {
  const Prepared<double>& chain = prepared.chain;
  const int64_t L = chain.L;
  P = NV ? NV * width<double> : P;
  Block<double> betas(group_size * P, 0.0), ws(group_size * P, 0.0), us(group_size * P, 0.0), sums(L * P, 0.0), copy(P);
  const double* previous[group_size];
  for (int g = 0; g < group_size; ++g) previous[g] = chain.end;  // not running yet: us is zero there
  for (int64_t t = runners[0].length - 1, active = 0; t >= 0; --t) {
    const int64_t running = active;
    while (active < count && runners[active].length == t + 1) ++active;
    if (running) multiply<double>(int(running), ws, chain.backward, L, P, betas);
    for (int64_t g = running; g < active; ++g) __builtin_memcpy(betas + g * P, chain.end, P * sizeof(double));
    for (int g = 0; g < active; ++g) {
      const int64_t token = runners[g].first + t, place = tape.begin[g] + t;
      const double* factors = factors_of(tokens, prepared, token, copy);
      double* out = gamma + token * L;
      absorb_backward(factors, L, P, tape.alpha + place * P, tape.scale[place], tokens.weights[runners[g].b],
                      (const double*)betas + g * P, ws + g * P, us + g * P, out, runners[g]);
      if (t == 0)
        for (int64_t j = 0; j < L; ++j) counts.start[j] += out[j];
      previous[g] = tape.alpha + (place - (t > 0)) * P;
    }
    if (t > 0) accumulate<double>(int(active), previous, us, L, P, sums);
  }
  fold_transitions(chain, (double*)sums, counts.transitions);
  for (int g = 0; g < count; ++g)
    if (runners[g].lost) status[runners[g].b] = underflow;
}

void expect(const HmmTokens& tokens, const HmmPrepared& prepared, const int64_t* sequences, int count, double* gamma,
            const Counts& counts, double* log_likelihood, uint8_t* status) {
  const int64_t P = prepared.chain.P;
  HmmRunner runners[group_size];
  Batch<double> places{};
  places.offsets = tokens.offsets;
  start_runners(places, sequences, count, runners);
  int64_t begin[group_size];
  const int64_t total = lay_out(runners, count, begin);
  GroupTape tape{{}, Block<double>(total * P), Block<double>(total)};
  for (int g = 0; g < count; ++g) tape.begin[g] = begin[g];
  with_vectors<double>(P, [&](auto NV) {
    forward_pass<NV>(tokens, prepared, runners, count, P, tape, log_likelihood, status);
    for (int g = 0; g < count; ++g)
      if (status[sequences[g]] != exact) return;  // the driver takes the group apart
    backward_pass<NV>(tokens, prepared, runners, count, P, tape, gamma, counts, status);
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

TRELLIS_KERNELS(hmm, HmmKernels, width<double>, group_size, expect, gather)

// Drives the E-step: prepares the model, shares the sequences out in tasks that depend on the data only, redoes in
// log space what scaled arithmetic could not do exactly, and adds everything up in a fixed order. Results are the
// same bit for bit with any number of threads.
#include "hmm/expectation.h"

#include "base/numbers.h"
#include "base/threads.h"
#include "chain/kernels.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace trellis::hmm {

using namespace chain;

namespace {

constexpr int64_t stretch = 4096;  // tokens or symbols of a task

int64_t padded(int64_t L) {
  return round_up(L, hmm_kernels().width);
}

template <typename F>
void for_stretches(int64_t count, F f) {
  const int64_t stretches = parts_of(count, stretch);
  run_tasks(stretches, num_threads(), [&](int64_t i) { f(i, i * stretch, std::min(count, (i + 1) * stretch)); });
}

}  // namespace

Expectation::Expectation(const HmmTokens& tokens, int64_t B, int64_t N, int64_t L, int64_t V)
    : tokens_(tokens), tasks_(plan_tasks(tokens.offsets, B, hmm_kernels().group, Sums::bytes(L, padded(L)))), B_(B),
      N_(N), L_(L), V_(V), gamma_(N * L), by_symbol_(size_t(N)) {
  std::vector<int64_t> place(size_t(V) + 1, 0);  // counting sort
  for (int64_t n = 0; n < N; ++n) ++place[size_t(tokens.symbols[n]) + 1];
  for (int64_t v = 0; v < V; ++v) place[size_t(v) + 1] += place[size_t(v)];
  for (int64_t n = 0; n < N; ++n) by_symbol_[size_t(place[size_t(tokens.symbols[n])]++)] = n;
}

Outcome Expectation::run(const double* start, const double* transitions, const double* end, const double* emissions,
                         double* start_counts, double* transition_counts, double* emission_counts,
                         double* log_likelihood) {
  const HmmKernels& kernels = hmm_kernels();
  const int64_t P = padded(L_);
  Model model(start, transitions, end, emissions, L_, V_, P);
  for_stretches(V_, [&](int64_t, int64_t first, int64_t last) { model.prepare_symbols(first, last); });
  status_.assign(size_t(B_), exact);
  std::fill_n(log_likelihood, B_, 0.0);
  expect_all(kernels, model, start_counts, transition_counts, log_likelihood);
  for (size_t b = 0; b < status_.size(); ++b)
    if (status_[b] == no_path) return {no_path, int64_t(b)};
  gather_all(kernels, emission_counts);
  return {};
}

void Expectation::expect_all(const HmmKernels& kernels, const Model& model, double* start, double* transitions,
                             double* logs) {
  const int64_t P = model.prepared.chain.P;
  std::vector<std::optional<Sums>> sums(static_cast<size_t>(tasks_.count()));
  tasks_.for_groups(kernels.group, num_threads(), [&](int64_t task, const int64_t* sequences, int count) {
    auto& own = sums[size_t(task)];
    if (!own) own.emplace(L_, P);
    expect_group(kernels, model, sequences, count, *own, logs);
  });
  Sums total(L_, P);
  for (const auto& own : sums) total.add(*own);
  for (int64_t i = 0; i < L_; ++i) {
    start[i] = total.counts.start[i];
    std::copy_n(total.counts.transitions + i * P, L_, transitions + i * L_);
  }
}

// If a sequence underflows, the group's counts are wrong: it is run again without that sequence.
void Expectation::expect_group(const HmmKernels& kernels, const Model& model, const int64_t* sequences, int count,
                               Sums& sums, double* logs) {
  Sums group(L_, model.prepared.chain.P);
  for (;;) {
    int64_t kept[64];
    int n = 0;
    for (int g = 0; g < count; ++g)
      if (status_[size_t(sequences[g])] == exact) kept[n++] = sequences[g];
    if (n == 0) break;
    group.clear();
    kernels.expect(tokens_, model.prepared, kept, n, gamma_, group.counts, logs, status_.data());
    bool clean = true;
    for (int g = 0; g < n; ++g) clean &= status_[size_t(kept[g])] == exact;
    if (!clean) continue;
    sums.add(group);
    break;
  }
  for (int g = 0; g < count; ++g)
    if (status_[size_t(sequences[g])] == underflow) expect_in_log_space(model, sequences[g], sums, logs);
}

void Expectation::expect_in_log_space(const Model& model, int64_t b, Sums& sums, double* logs) {
  const int64_t first = tokens_.offsets[b], T = tokens_.offsets[b + 1] - first;
  Block<double> scores(T * L_);
  for (int64_t t = 0; t < T; ++t)
    for (int64_t j = 0; j < L_; ++j) {
      const bool may = !tokens_.allowed || tokens_.allowed[(first + t) * L_ + j];
      scores[t * L_ + j] = may ? std::log(model.emission(tokens_.symbols[first + t], j)) : forbidden;
    }
  const int64_t offsets[2] = {0, T};
  const Batch<double> batch{scores, nullptr, offsets, nullptr, nullptr, nullptr, 1, L_};
  logs[b] = kernels<double>().log_marginals(batch, model.log_prepared, 0, tokens_.weights[b], gamma_ + first * L_,
                                            sums.counts, nullptr);
  if (logs[b] == forbidden) status_[size_t(b)] = no_path;
}

// counts[v] = sum of gamma[n] over the tokens n with symbol v. A symbol may lie in several stretches: what a stretch
// finds for its first symbol waits in its own row and is added afterwards, in order.
void Expectation::gather_all(const HmmKernels& kernels, double* counts) {
  for_stretches(V_, [&](int64_t, int64_t begin, int64_t end) {
    std::fill(counts + begin * L_, counts + end * L_, 0.0);
  });
  const int64_t stretches = parts_of(N_, stretch);
  std::vector<double> firsts(size_t(stretches * L_), 0.0);
  for_stretches(N_, [&](int64_t i, int64_t begin, int64_t end) {
    kernels.gather(by_symbol_.data() + begin, end - begin, tokens_.symbols, gamma_, L_, firsts.data() + i * L_, counts);
  });
  for (int64_t i = 0; i < stretches; ++i) {
    double* to = counts + tokens_.symbols[by_symbol_[size_t(i * stretch)]] * L_;
    for (int64_t j = 0; j < L_; ++j) to[j] += firsts[size_t(i * L_ + j)];
  }
}

}  // namespace trellis::hmm

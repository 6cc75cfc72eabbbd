// Drives the E-step: prepares the model, shares the sequences out in tasks that depend on the data only, redoes in
// log space what scaled arithmetic could not do exactly, and adds everything up in a fixed order. Results are the
// same bit for bit with any number of threads.
#include "hmm/expectation.h"

#include "base/numbers.h"
#include "base/threads.h"
#include "chain/kernels.h"
#include "chain/scores.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>

namespace trellis::hmm {

using namespace chain;

namespace {

constexpr int64_t stretch = 4096;  // tokens or symbols of a task

template <typename F>
void for_stretches(int64_t count, F f) {
  const int64_t stretches = parts_of(count, stretch);
  run_tasks(stretches, num_threads(), [&](int64_t i) { f(i, i * stretch, std::min(count, (i + 1) * stretch)); });
}

}  // namespace

// A model as the kernels read it: a chain of log probabilities, and the emissions of each symbol.
struct Expectation::Model {
  std::vector<double> logs;  // of transitions, start, end
  Batch<double> chain;
  ScaledScores<double> scaled;
  const double* emissions;     // [V, L]
  Block<double> table, peaks;  // [V, P] and [V], see HmmPrepared

  Model(const double* start, const double* transitions, const double* end, const double* emissions, int64_t L,
        int64_t V, int64_t P)
      : logs(logarithms(start, transitions, end, L)),
        chain{nullptr, nullptr, nullptr, logs.data(), &logs[size_t(L * L)], &logs[size_t(L * L + L)], 0, L},
        scaled(chain), emissions(emissions), table(V * P), peaks(V) {
    for_stretches(V, [&](int64_t, int64_t first, int64_t last) {
      for (int64_t v = first; v < last; ++v) {
        const double *row = emissions + v * L, top = *std::max_element(row, row + L);
        peaks[v] = top > 0 ? std::log(top) : 0.0;
        for (int64_t j = 0; j < P; ++j) table[v * P + j] = j < L && top > 0 ? row[j] / top : 0.0;
      }
    });
  }

  HmmPrepared prepared() const { return {scaled.view(), table, peaks}; }
  const LogPrepared<double>& log_prepared() {
    std::call_once(log_once, [&] { log_scores.emplace(chain); });
    return log_scores->view();
  }

 private:
  static std::vector<double> logarithms(const double* start, const double* transitions, const double* end, int64_t L) {
    std::vector<double> found(transitions, transitions + L * L);
    found.insert(found.end(), start, start + L);
    found.insert(found.end(), end, end + L);
    for (double& p : found) p = std::log(p);
    return found;
  }

  std::once_flag log_once;
  std::optional<LogScores> log_scores;  // for the sequences that need them
};

Expectation::Expectation(const HmmTokens& tokens, int64_t B, int64_t N, int64_t L, int64_t V)
    : tokens_(tokens), B_(B), N_(N), L_(L), P_(round_up(L, chain::kernels<double>().width)), V_(V),
      tasks_(plan_tasks(tokens.offsets, B, chain::kernels<double>().group, Sums::bytes(L, P_))), gamma_(N * L),
      by_symbol_(size_t(N)) {
  std::vector<int64_t> place(size_t(V) + 1, 0);  // counting sort
  for (int64_t n = 0; n < N; ++n) ++place[size_t(tokens.symbols[n]) + 1];
  for (int64_t v = 0; v < V; ++v) place[size_t(v) + 1] += place[size_t(v)];
  for (int64_t n = 0; n < N; ++n) by_symbol_[size_t(place[size_t(tokens.symbols[n])]++)] = n;
}

Outcome Expectation::run(const double* start, const double* transitions, const double* end, const double* emissions,
                         double* start_counts, double* transition_counts, double* emission_counts,
                         double* log_likelihood) {
  Model model(start, transitions, end, emissions, L_, V_, P_);
  status_.assign(size_t(B_), exact);
  std::fill_n(log_likelihood, B_, 0.0);
  expect_all(model, start_counts, transition_counts, log_likelihood);
  if (const Outcome outcome = first_problem(status_); outcome.status) return outcome;
  gather_all(emission_counts);
  return {};
}

void Expectation::expect_all(Model& model, double* start, double* transitions, double* logs) {
  const HmmKernels& kernels = kernels_in_use<HmmKernels>();
  const HmmPrepared prepared = model.prepared();
  TaskSums sums(tasks_.count(), L_, P_);
  const auto run_group = [&](int64_t task, const int64_t* sequences, int count) {
    Sums& own = sums.of(task);
    add_exact(sequences, count, status_, own, [&](const int64_t* kept, int n, const Counts& counts) {
      kernels.expect(tokens_, prepared, kept, n, gamma_, counts, logs, status_.data());
    });
    for (int g = 0; g < count; ++g)
      if (status_[size_t(sequences[g])] == underflow) expect_in_log_space(model, sequences[g], own, logs);
  };
  tasks_.for_groups(chain::kernels<double>().group, num_threads(), run_group);
  std::vector<double> end(static_cast<size_t>(L_));  // not asked for
  sums.write(transitions, start, end.data());
}

void Expectation::expect_in_log_space(Model& model, int64_t b, Sums& sums, double* logs) {
  const int64_t first = tokens_.offsets[b], T = tokens_.offsets[b + 1] - first;
  Block<double> scores(T * L_);
  for (int64_t t = 0; t < T; ++t)
    for (int64_t j = 0; j < L_; ++j) {
      const bool may = !tokens_.allowed || tokens_.allowed[(first + t) * L_ + j];
      scores[t * L_ + j] = may ? std::log(model.emissions[tokens_.symbols[first + t] * L_ + j]) : forbidden;
    }
  const int64_t offsets[2] = {0, T};
  const Batch<double> batch{scores, nullptr, offsets, nullptr, nullptr, nullptr, 1, L_};
  logs[b] = kernels<double>().log_marginals(batch, model.log_prepared(), 0, tokens_.weights[b], gamma_ + first * L_,
                                            sums.counts, nullptr);
  if (logs[b] == forbidden) status_[size_t(b)] = no_path;
}

// counts[v] = sum of gamma[n] over the tokens n with symbol v. A symbol may lie in several stretches: what a stretch
// finds for its first symbol waits in its own row and is added afterwards, in order.
void Expectation::gather_all(double* counts) {
  for_stretches(V_, [&](int64_t, int64_t begin, int64_t end) {
    std::fill(counts + begin * L_, counts + end * L_, 0.0);
  });
  const int64_t stretches = parts_of(N_, stretch);
  std::vector<double> firsts(size_t(stretches * L_), 0.0);
  const auto gather = kernels_in_use<HmmKernels>().gather;
  for_stretches(N_, [&](int64_t i, int64_t begin, int64_t end) {
    gather(by_symbol_.data() + begin, end - begin, tokens_.symbols, gamma_, L_, firsts.data() + i * L_, counts);
  });
  for (int64_t i = 0; i < stretches; ++i) {
    double* to = counts + tokens_.symbols[by_symbol_[size_t(i * stretch)]] * L_;
    for (int64_t j = 0; j < L_; ++j) to[j] += firsts[size_t(i * L_ + j)];
  }
}

}  // namespace trellis::hmm

// Drives the E-step: prepares the model, shares the sequences out in tasks that depend on the data only, redoes in
// log space what scaled arithmetic could not do exactly, and adds everything up in a fixed order. Results are the
// same bit for bit with any number of threads.
#include "hmm/expectation.h"

#include "bind/array.h"
#include "chain/inference.h"
#include "base/threads.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

namespace nb = nanobind;

namespace trellis {
namespace {

constexpr double forbidden = -std::numeric_limits<double>::infinity();
// The bounds of lockstep.h's Range<double>: transitions below exp(least_log) are flushed to zero and narrow the gap;
// where all are above exp(mixing_log), nothing that underflows can ever matter.
constexpr double least_log = -340.0, mixing_log = -220.0;

const HmmKernels& hmm_kernels() {
  return TRELLIS_BEST(hmm_kernels);
}

// A model as the kernels want it: scaled, and in log space for the sequences that need it.
class Model {
 public:
  Model(const double* start, const double* transitions, const double* end, const double* emissions, int64_t L,
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

  // Rows first .. last - 1 of the table of emissions.
  void prepare_symbols(int64_t first, int64_t last) {
    const int64_t L = prepared.chain.L, P = prepared.chain.P;
    for (int64_t v = first; v < last; ++v) {
      const double* row = emissions_ + v * L;
      const double top = *std::max_element(row, row + L);
      peaks_[v] = top > 0 ? std::log(top) : 0.0;
      for (int64_t j = 0; j < L && top > 0; ++j) table_[v * P + j] = row[j] / top;
    }
  }

  double emission(int64_t symbol, int64_t state) const { return emissions_[symbol * prepared.chain.L + state]; }

  HmmPrepared prepared{};
  LogPrepared<double> log_prepared{};

 private:
  double scaled(double p, bool& mixing) {
    mixing &= p >= std::exp(mixing_log);
    if (p >= std::exp(least_log)) return p;
    if (p > 0) prepared.chain.gap = std::min(prepared.chain.gap, -std::log(p));
    return 0.0;
  }

  const double* emissions_;  // [V, L]
  Block<double> scaled_, logs_, table_, peaks_;
};

// A corpus of symbols, ready for any number of E-steps.
class Expectation {
 public:
  Expectation(Array<const int64_t> symbols, Array<const int64_t> offsets, std::optional<Array<const uint8_t>> allowed,
              Array<const double> weights, int64_t L, int64_t V)
      : symbols_(symbols), offsets_(offsets), allowed_(allowed), weights_(weights),
        tasks_(plan_tasks(offsets.data(), int64_t(offsets.size()) - 1, hmm_kernels().group, Sums::bytes(L, padded(L)))),
        L_(L), V_(V), N_(int64_t(symbols.size())), gamma_(N_ * L), by_symbol_(size_t(N_)) {
    std::vector<int64_t> place(size_t(V) + 1, 0);  // counting sort
    for (int64_t n = 0; n < N_; ++n) ++place[size_t(symbols_.data()[n]) + 1];
    for (int64_t v = 0; v < V; ++v) place[size_t(v) + 1] += place[size_t(v)];
    for (int64_t n = 0; n < N_; ++n) by_symbol_[size_t(place[size_t(symbols_.data()[n])]++)] = n;
  }

  Outcome run(const double* start, const double* transitions, const double* end, const double* emissions,
              double* start_counts, double* transition_counts, double* emission_counts, double* log_likelihood) {
    const HmmKernels& kernels = hmm_kernels();
    const int64_t P = padded(L_);
    Model model(start, transitions, end, emissions, L_, V_, P);
    for_stretches(V_, [&](int64_t, int64_t first, int64_t last) { model.prepare_symbols(first, last); });
    status_.assign(offsets_.size() - 1, exact);
    std::fill_n(log_likelihood, offsets_.size() - 1, 0.0);
    expect_all(kernels, model, start_counts, transition_counts, log_likelihood);
    for (size_t b = 0; b < status_.size(); ++b)
      if (status_[b] == no_path) return {no_path, int64_t(b)};
    gather_all(kernels, emission_counts);
    return {};
  }

 private:
  static int64_t padded(int64_t L) {
    const int64_t width = hmm_kernels().width;
    return (L + width - 1) / width * width;
  }

  static constexpr int64_t stretch = 4096;  // tokens or symbols of a task

  template <typename F>
  static void for_stretches(int64_t count, F f) {
    const int64_t stretches = (count + stretch - 1) / stretch;
    run_tasks(stretches, num_threads(), [&](int64_t i) { f(i, i * stretch, std::min(count, (i + 1) * stretch)); });
  }

  void expect_all(const HmmKernels& kernels, const Model& model, double* start, double* transitions, double* logs) {
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

  // Should a sequence underflow, the group's counts are spoilt: it is run again without that sequence.
  void expect_group(const HmmKernels& kernels, const Model& model, const int64_t* sequences, int count, Sums& sums,
                    double* logs) {
    const HmmTokens tokens{symbols_.data(), offsets_.data(), allowed_ ? allowed_->data() : nullptr, weights_.data()};
    Sums group(L_, model.prepared.chain.P);
    for (;;) {
      int64_t kept[64];
      int n = 0;
      for (int g = 0; g < count; ++g)
        if (status_[size_t(sequences[g])] == exact) kept[n++] = sequences[g];
      if (n == 0) break;
      group.clear();
      kernels.expect(tokens, model.prepared, kept, n, gamma_, group.counts, logs, status_.data());
      bool clean = true;
      for (int g = 0; g < n; ++g) clean &= status_[size_t(kept[g])] == exact;
      if (!clean) continue;
      sums.add(group);
      break;
    }
    for (int g = 0; g < count; ++g)
      if (status_[size_t(sequences[g])] == underflow) expect_in_log_space(model, sequences[g], sums, logs);
  }

  void expect_in_log_space(const Model& model, int64_t b, Sums& sums, double* logs) {
    const int64_t first = offsets_.data()[b], T = offsets_.data()[b + 1] - first;
    Block<double> scores(T * L_);
    for (int64_t t = 0; t < T; ++t)
      for (int64_t j = 0; j < L_; ++j) {
        const bool may = !allowed_ || allowed_->data()[(first + t) * L_ + j];
        scores[t * L_ + j] = may ? std::log(model.emission(symbols_.data()[first + t], j)) : forbidden;
      }
    const int64_t offsets[2] = {0, T};
    const Batch<double> batch{scores, nullptr, offsets, nullptr, nullptr, nullptr, 1, L_};
    logs[b] = kernels<double>().log_marginals(batch, model.log_prepared, 0, weights_.data()[b], gamma_ + first * L_,
                                              sums.counts, nullptr);
    if (logs[b] == forbidden) status_[size_t(b)] = no_path;
  }

  // counts[v] = sum of gamma[n] over the tokens n with symbol v. A symbol may lie in several stretches: what a stretch
  // finds for its first symbol waits in a row of its own and is added afterwards, in order.
  void gather_all(const HmmKernels& kernels, double* counts) {
    for_stretches(V_, [&](int64_t, int64_t begin, int64_t end) {
      std::fill(counts + begin * L_, counts + end * L_, 0.0);
    });
    const int64_t stretches = (N_ + stretch - 1) / stretch;
    std::vector<double> firsts(size_t(stretches * L_), 0.0);
    for_stretches(N_, [&](int64_t i, int64_t begin, int64_t end) {
      kernels.gather(by_symbol_.data() + begin, end - begin, symbols_.data(), gamma_, L_, firsts.data() + i * L_, counts);
    });
    for (int64_t i = 0; i < stretches; ++i) {
      double* to = counts + symbols_.data()[by_symbol_[size_t(i * stretch)]] * L_;
      for (int64_t j = 0; j < L_; ++j) to[j] += firsts[size_t(i * L_ + j)];
    }
  }

  Array<const int64_t> symbols_, offsets_;
  std::optional<Array<const uint8_t>> allowed_;
  Array<const double> weights_;
  Tasks tasks_;
  int64_t L_, V_, N_;
  Block<double> gamma_;  // [N, L] weighted posteriors of the last E-step
  std::vector<int64_t> by_symbol_;
  std::vector<uint8_t> status_;
};

}  // namespace

void bind_hmm(nb::module_& m) {
  nb::class_<Expectation>(m, "Expectation")
      .def(nb::init<Array<const int64_t>, Array<const int64_t>, std::optional<Array<const uint8_t>>,
                    Array<const double>, int64_t, int64_t>(),
           nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg())
      .def("run", [](Expectation& self, Array<const double> start, Array<const double> transitions,
                     Array<const double> end, Array<const double> emissions, Array<double> start_counts,
                     Array<double> transition_counts, Array<double> emission_counts, Array<double> log_likelihood) {
        nb::gil_scoped_release release;
        const Outcome outcome =
            self.run(start.data(), transitions.data(), end.data(), emissions.data(), start_counts.data(),
                     transition_counts.data(), emission_counts.data(), log_likelihood.data());
        return std::pair<int, int64_t>(outcome.status, outcome.sequence);
      });
}

}  // namespace trellis

#include "hmm/expectation.h"

#include "bind/python.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <mutex>
#include <optional>
#include <utility>

namespace nb = nanobind;

namespace trellis::bind {

using namespace hmm;

namespace {

// The E-step with the arrays that it points into.
struct Corpus {
  Array<const int64_t> symbols, offsets;
  std::optional<Array<const uint8_t>> allowed;
  Array<const double> weights;
  Expectation expectation;
  std::mutex mutex;

  Corpus(Array<const int64_t> symbols_, Array<const int64_t> offsets_, std::optional<Array<const uint8_t>> allowed_,
         Array<const double> weights_, int64_t L, int64_t V)
      : symbols(std::move(symbols_)), offsets(std::move(offsets_)), allowed(std::move(allowed_)),
        weights(std::move(weights_)),
        expectation({symbols.data(), offsets.data(), allowed ? allowed->data() : nullptr, weights.data()},
                    int64_t(offsets.size()) - 1, int64_t(symbols.size()), L, V) {}
};

}  // namespace

void bind_expectation(nb::module_& m) {
  nb::class_<Corpus>(m, "Expectation")
      .def(nb::init<Array<const int64_t>, Array<const int64_t>, std::optional<Array<const uint8_t>>,
                    Array<const double>, int64_t, int64_t>(),
           nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg())
      .def("run", [](Corpus& self, Array<const double> start, Array<const double> transitions, Array<const double> end,
                     Array<const double> emissions, Array<double> start_counts, Array<double> transition_counts,
                     Array<double> emission_counts, Array<double> log_likelihood) {
        nb::gil_scoped_release release;
        const std::lock_guard<std::mutex> lock(self.mutex);  // of the memory that an E-step works in
        const Outcome outcome = self.expectation.run(start.data(), transitions.data(), end.data(), emissions.data(),
                                                     start_counts.data(), transition_counts.data(),
                                                     emission_counts.data(), log_likelihood.data());
        return std::pair<int, int64_t>(outcome.status, outcome.sequence);
      });
}

}  // namespace trellis::bind

#include "bind/labeller.h"

#include "bind/module.h"
#include "bind/ready_weights.h"

namespace nb = nanobind;

namespace trellis::bind {
namespace {

// The labels of a compiled corpus.
nb::object best_of_dataset(const Labeller& labeller, const Dataset& data, const ReadyWeights& weights) {
  if (weights.table.labels() != labeller.labels()) throw nb::value_error("weights of other labels than the chain has");
  const int64_t cost = data.tokens() ? labeller.labels() * int64_t(data.attributes.size()) / data.tokens() : 0;
  return labeller.best(data.offsets, cost, [&](const std::vector<int64_t>&, double* emissions) {
    score_dataset(data, weights.table, emissions);
  });
}

}  // namespace

void bind_labeller(nb::module_& m) {
  nb::class_<Labeller>(m, "Labeller")
      .def(nb::init<nb::list, Labeller::Numbers, Labeller::Numbers, Labeller::Numbers>())
      .def("best", &best_of_dataset);
}

}  // namespace trellis::bind

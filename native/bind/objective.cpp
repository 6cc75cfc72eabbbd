// The training objective of the feature CRF, and training that moves the weights after a few sentences.
#include "features/objective.h"

#include "bind/python.h"
#include "bind/stl.h"
#include "features/online.h"

#include <nanobind/stl/tuple.h>

#include <tuple>

namespace nb = nanobind;

namespace trellis::bind {

using namespace features;

namespace {

template <typename T>
T* pointer_or_null(const nb::object& array) {
  return array.is_none() ? nullptr : data_of<T>(array);
}

// The same for an array that must have so many numbers.
template <typename T>
T* sized_or_null(const nb::object& array, int64_t size) {
  if (array.is_none()) return nullptr;
  const Array<T> found = array_of<T>(array);
  if (found.size() != size_t(size)) throw nb::value_error("an array does not fit the sentences");
  return found.data();
}

void check_weights(const Objective& objective, size_t weights, size_t gradient) {
  if (int64_t(weights) != objective.size() || int64_t(gradient) != objective.size())
    throw nb::value_error("there must be as many weights and derivatives as the objective has");
}

// The objective with the arrays that it points into.
struct Training {
  Objective objective;
  nb::object arrays;

  // For what walks the features of sentences.
  const Objective& with_features() const {
    if (objective.settled()) throw nb::value_error("a settled objective has no features: only evaluate works");
    return objective;
  }
};

nb::tuple arrays_of(const StateFeatures& features) {
  return nb::make_tuple(copy_of(features.ends.data(), features.ends.size()),
                        copy_of(features.labels.data(), features.labels.size()));
}

nb::tuple counted(const StateFeatures& features, const std::vector<double>& counts) {
  const nb::tuple arrays = arrays_of(features);
  return nb::make_tuple(arrays[0], arrays[1], copy_of(counts.data(), counts.size()));
}

using Result = std::tuple<int, int64_t, double>;  // status, sentence, loss

nb::ndarray<nb::numpy, uint8_t> to_numpy(FlatPlan plan) {
  auto* flat = new FlatPlan(std::move(plan));
  nb::capsule owner(flat, [](void* p) noexcept { delete static_cast<FlatPlan*>(p); });
  char* bytes = flat->bytes;
  return {reinterpret_cast<uint8_t*>(bytes), {size_t(flat->size)}, owner};
}

}  // namespace

void bind_objective(nb::module_& m) {
  nb::class_<Training>(m, "Objective")
      .def("__init__",
           [](Training* self, std::shared_ptr<Dataset> data, int64_t attributes, int64_t L, nb::object tags,
              nb::object allowed, nb::object sentence_weights, nb::object token_weights, bool single_precision) {
             const Supervision known{pointer_or_null<const int64_t>(tags), pointer_or_null<const uint8_t>(allowed),
                                     pointer_or_null<const double>(sentence_weights), pointer_or_null<const double>(token_weights)};
             new (self) Training{Objective(std::move(data), attributes, L, known, single_precision),
                                 nb::make_tuple(tags, allowed, sentence_weights, token_weights)};
           }, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg())
      .def("choose_states",
           [](Training& self, double min_freq, bool all) {
             nb::gil_scoped_release release;
             Objective& objective = self.objective;
             objective.set_states(choose_states(objective.data(), objective.supervision(), objective.attributes(),
                                                objective.L(), min_freq, all));
           })
      .def("count_states",  // those that occur, and how often
           [](const Training& self) {
             const Objective& objective = self.objective;
             std::vector<double> counts;
             StateFeatures states;
             {
               nb::gil_scoped_release release;
               states = choose_states(objective.data(), objective.supervision(), objective.attributes(), objective.L(),
                                      0.0, false, &counts);
             }
             return counted(states, counts);
           })
      .def("set_states",
           [](Training& self, const Array<const int64_t>& ends, const Array<const uint16_t>& labels) {
             self.objective.set_states({{ends.data(), ends.data() + ends.size()},
                                        {labels.data(), labels.data() + labels.size()}});
           })
      .def("settle",
           [](Training& self) {
             nb::gil_scoped_release release;
             self.objective.settle();
           })
      .def("set_transitions",
           [](Training& self, const Array<const uint8_t>& transitions, const Array<const uint8_t>& start,
              const Array<const uint8_t>& end, const Array<const int32_t>& cells, const Array<const int32_t>& numbers,
              int64_t count) {
             StepWeights weights{{cells.data(), cells.data() + cells.size()},
                                 {numbers.data(), numbers.data() + numbers.size()},
                                 count};
             self.objective.set_transitions(transitions.data(), start.data(), end.data(), std::move(weights));
           })
      .def("set_chain",
           [](Training& self, const Array<const uint16_t>& labels, nb::object tags) {
             self.objective.set_chain({labels.data(), labels.data() + labels.size()}, pointer_or_null<const int64_t>(tags));
             self.arrays = nb::make_tuple(self.arrays, tags);
           }, nb::arg(), nb::arg().none())
      .def("choose_edges",
           [](Training& self, std::shared_ptr<Dataset> data, int64_t attributes, double min_freq, bool all) {
             nb::gil_scoped_release release;
             Objective& objective = self.objective;
             StateFeatures edges = choose_edges(*data, objective.supervision(), attributes, objective.L(),
                                                objective.base_scores().data(), min_freq, all);
             objective.set_edges(std::move(data), std::move(edges));
           })
      .def("count_edges",
           [](const Training& self, const Dataset& data, int64_t attributes) {
             const Objective& objective = self.objective;
             std::vector<double> counts;
             StateFeatures edges;
             {
               nb::gil_scoped_release release;
               edges = choose_edges(data, objective.supervision(), attributes, objective.L(),
                                    objective.base_scores().data(), 0.0, false, &counts);
             }
             return counted(edges, counts);
           })
      .def("set_edges",
           [](Training& self, std::shared_ptr<Dataset> data, const Array<const int64_t>& ends,
              const Array<const uint16_t>& pairs) {
             self.objective.set_edges(std::move(data), {{ends.data(), ends.data() + ends.size()},
                                                        {pairs.data(), pairs.data() + pairs.size()}});
           })
      .def_prop_ro("size", [](const Training& self) { return self.objective.size(); })
      .def("states", [](const Training& self) { return arrays_of(self.objective.states()); })
      .def("edges", [](const Training& self) { return arrays_of(self.objective.edges()); })
      .def("evaluate",
           [](Training& self, const Array<const double>& weights, nb::object gradient) -> Result {
             double loss = 0.0, *g = sized_or_null<double>(gradient, self.objective.size());
             check_weights(self.objective, weights.size(), weights.size());
             const double* w = weights.data();
             nb::gil_scoped_release release;
             const Outcome outcome = self.objective.evaluate(w, g, &loss);
             return {outcome.status, outcome.sequence, loss};
           }, nb::arg(), nb::arg().none())
      .def("plan_of",  // as bytes
           [](const Training& self, const Dataset& data) {
             FlatPlan plan;
             {
               nb::gil_scoped_release release;
               plan = self.objective.plan_of(data);
             }
             return to_numpy(std::move(plan));
           }, nb::rv_policy::move)
      .def("evaluate_part",  // of the sentences of a plan; the gradient is added
           [](Training& self, const Array<const uint8_t>& plan, nb::object tags, nb::object chain_tags,
              nb::object allowed, nb::object sentence_weights, nb::object token_weights,
              const Array<const double>& weights, const Array<double>& gradient) -> Result {
             const PlanView view = read_plan(reinterpret_cast<const char*>(plan.data()), int64_t(plan.size()));
             const int64_t N = view.tokens(), L = self.objective.L();
             const Supervision known{sized_or_null<const int64_t>(tags, N), sized_or_null<const uint8_t>(allowed, N * L),
                                     sized_or_null<const double>(sentence_weights, view.sentences()),
                                     sized_or_null<const double>(token_weights, N)};
             const CorpusPart part{view, known, sized_or_null<const int64_t>(chain_tags, N)};
             check_weights(self.objective, weights.size(), gradient.size());
             const double* w = weights.data();
             double loss = 0.0, *g = gradient.data();
             nb::gil_scoped_release release;
             const Outcome outcome = self.objective.evaluate_part(part, w, g, &loss);
             return {outcome.status, outcome.sequence, loss};
           }, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
           nb::arg(), nb::arg())
      .def("descend",
           [](const Training& self, const Array<const int64_t>& order, const Array<double>& weights, double rate,
              double decay, int64_t batch, int64_t done, double scale) {
             Descent descent{rate, decay, scale, batch, done};
             const Objective& objective = self.with_features();
             const int64_t* sentences = order.data();
             const int64_t count = int64_t(order.size());
             double loss = 0.0, *w = weights.data();
             Outcome outcome;
             {
               nb::gil_scoped_release release;
               outcome = descend(objective, sentences, count, descent, w, &loss);
             }
             return nb::make_tuple(Result{outcome.status, outcome.sequence, loss}, descent.done, descent.scale);
           })
      .def("perceptron", [](const Training& self, const Array<const int64_t>& order, const Array<double>& weights,
                            const Array<double>& sums, int64_t seen) {
        const Objective& objective = self.with_features();
             const int64_t* sentences = order.data();
        const int64_t count = int64_t(order.size());
        int64_t mistakes = 0;
        double *w = weights.data(), *s = sums.data();
        {
          nb::gil_scoped_release release;
          perceptron(objective, sentences, count, w, s, &seen, &mistakes);
        }
        return nb::make_tuple(seen, mistakes);
      })
      .def("passive_aggressive",
           [](const Training& self, const Array<const int64_t>& order, const Array<double>& weights,
              const Array<double>& sums, int64_t seen, int64_t type, double c, bool by_errors) {
             const Objective& objective = self.with_features();
             const int64_t* sentences = order.data();
             const int64_t count = int64_t(order.size());
             double cost, *w = weights.data(), *s = sums.data();
             {
               nb::gil_scoped_release release;
               cost = passive_aggressive(objective, sentences, count, {type, c, by_errors}, w, s, &seen);
             }
             return nb::make_tuple(seen, cost);
           })
      .def("arow", [](const Training& self, const Array<const int64_t>& order, const Array<double>& weights,
                      const Array<double>& variances, double gamma) {
        const Objective& objective = self.with_features();
             const int64_t* sentences = order.data();
        const int64_t count = int64_t(order.size());
        double *w = weights.data(), *v = variances.data();
        nb::gil_scoped_release release;
        return arow(objective, sentences, count, gamma, w, v);
      });
}

}  // namespace trellis::bind

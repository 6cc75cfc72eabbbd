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

  // f(objective, sentences, count), which walks the features of these sentences.
  template <typename F>
  auto learn(const Array<const int64_t>& order, F f) const {
    if (objective.settled()) throw nb::value_error("a settled objective has no features: only evaluate works");
    return released([&] { return f(objective, order.data(), int64_t(order.size())); });
  }
  StateFeatures choose_states(double min_freq, bool all, std::vector<double>* counts = nullptr) const {
    return features::choose_states(objective.data(), objective.supervision(), objective.attributes(), objective.L(), min_freq,
                                   all, counts);
  }
  StateFeatures choose_edges(const Dataset& data, int64_t attributes, double min_freq, bool all,
                             std::vector<double>* counts = nullptr) const {
    return features::choose_edges(data, objective.supervision(), attributes, objective.L(), objective.base_scores().data(),
                                  min_freq, all, counts);
  }
};

nb::tuple arrays_of(const StateFeatures& features) {
  return nb::make_tuple(copy_of(features.ends.data(), features.ends.size()),
                        copy_of(features.labels.data(), features.labels.size()));
}

// Features, and how often they occur, that choose(counts) chooses.
template <typename F>
nb::tuple counted(F choose) {
  std::vector<double> counts;
  const nb::tuple arrays = arrays_of(released([&] { return choose(&counts); }));
  return nb::make_tuple(arrays[0], arrays[1], to_numpy(std::move(counts)));
}

using Result = std::tuple<int, int64_t, double>;  // status, sentence, loss

// The outcome of f(loss), run without the interpreter lock.
template <typename F>
Result with_loss(F f) {
  double loss = 0.0;
  const Outcome outcome = released([&] { return f(&loss); });
  return {outcome.status, outcome.sequence, loss};
}

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
             released([&] { self.objective.set_states(self.choose_states(min_freq, all)); });
           })
      .def("count_states",  // those that occur, and how often
           [](const Training& self) {
             return counted([&](std::vector<double>* counts) { return self.choose_states(0.0, false, counts); });
           })
      .def("set_states",
           [](Training& self, const Array<const int64_t>& ends, const Array<const uint16_t>& labels) {
             self.objective.set_states({{ends.data(), ends.data() + ends.size()},
                                        {labels.data(), labels.data() + labels.size()}});
           })
      .def("settle", [](Training& self) { released([&] { self.objective.settle(); }); })
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
             released([&] {
               StateFeatures edges = self.choose_edges(*data, attributes, min_freq, all);
               self.objective.set_edges(std::move(data), std::move(edges));
             });
           })
      .def("count_edges",
           [](const Training& self, const Dataset& data, int64_t attributes) {
             return counted([&](std::vector<double>* counts) { return self.choose_edges(data, attributes, 0.0, false, counts); });
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
           [](Training& self, const Array<const double>& weights, nb::object gradient) {
             double* to = sized_or_null<double>(gradient, self.objective.size());
             check_weights(self.objective, weights.size(), weights.size());
             return with_loss([&](double* loss) { return self.objective.evaluate(weights.data(), to, loss); });
           }, nb::arg(), nb::arg().none())
      .def("plan_of",  // as bytes
           [](const Training& self, const Dataset& data) {
             return to_numpy(released([&] { return self.objective.plan_of(data); }));
           }, nb::rv_policy::move)
      .def("evaluate_part",  // of the sentences of a plan; the gradient is added
           [](Training& self, const Array<const uint8_t>& plan, nb::object tags, nb::object chain_tags,
              nb::object allowed, nb::object sentence_weights, nb::object token_weights,
              const Array<const double>& weights, const Array<double>& gradient) {
             const PlanView view = read_plan(reinterpret_cast<const char*>(plan.data()), int64_t(plan.size()));
             const int64_t N = view.tokens(), L = self.objective.L();
             const Supervision known{sized_or_null<const int64_t>(tags, N), sized_or_null<const uint8_t>(allowed, N * L),
                                     sized_or_null<const double>(sentence_weights, view.sentences()),
                                     sized_or_null<const double>(token_weights, N)};
             const CorpusPart part{view, known, sized_or_null<const int64_t>(chain_tags, N)};
             check_weights(self.objective, weights.size(), gradient.size());
             return with_loss([&](double* loss) {
               return self.objective.evaluate_part(part, weights.data(), gradient.data(), loss);
             });
           }, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
           nb::arg(), nb::arg())
      .def("descend",
           [](const Training& self, const Array<const int64_t>& order, const Array<double>& weights, double rate,
              double decay, int64_t batch, int64_t done, double scale) {
             Descent descent{rate, decay, scale, batch, done};
             double loss = 0.0;
             const Outcome outcome = self.learn(order, [&](const Objective& objective, const int64_t* sentences, int64_t count) {
               return features::descend(objective, sentences, count, descent, weights.data(), &loss);
             });
             return nb::make_tuple(Result{outcome.status, outcome.sequence, loss}, descent.done, descent.scale);
           })
      .def("perceptron",
           [](const Training& self, const Array<const int64_t>& order, const Array<double>& weights,
              const Array<double>& sums, int64_t seen) {
             int64_t mistakes = 0;
             self.learn(order, [&](const Objective& objective, const int64_t* sentences, int64_t count) {
               perceptron(objective, sentences, count, weights.data(), sums.data(), &seen, &mistakes);
             });
             return nb::make_tuple(seen, mistakes);
           })
      .def("passive_aggressive",
           [](const Training& self, const Array<const int64_t>& order, const Array<double>& weights,
              const Array<double>& sums, int64_t seen, int64_t type, double c, bool by_errors) {
             const double cost = self.learn(order, [&](const Objective& objective, const int64_t* sentences, int64_t count) {
               return passive_aggressive(objective, sentences, count, {type, c, by_errors}, weights.data(), sums.data(), &seen);
             });
             return nb::make_tuple(seen, cost);
           })
      .def("arow", [](const Training& self, const Array<const int64_t>& order, const Array<double>& weights,
                      const Array<double>& variances, double gamma) {
        return self.learn(order, [&](const Objective& objective, const int64_t* sentences, int64_t count) {
          return arow(objective, sentences, count, gamma, weights.data(), variances.data());
        });
      });
}

}  // namespace trellis::bind

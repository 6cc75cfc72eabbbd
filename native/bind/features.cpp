// The Python side of the feature CRF: templates, attributes, compiled corpora, the objective and its trainers.
// Sizes and lifetimes of arrays are the caller's business, as in module.cpp: trellis.features is the caller.
#include "bind/array.h"
#include "bind/reading.h"
#include "features/objective.h"
#include "features/online.h"
#include "features/scorer.h"
#include "features/vectors.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <mutex>

namespace nb = nanobind;
using namespace nb::literals;

namespace trellis {
namespace {

// Arrays of saved models: of one dimension, and, with `exact`, never converted, since conversion takes -1 for 65535.
template <typename T>
using Flat = Array<T, nb::ndim<1>>;
auto exact() { return nb::arg().noconvert(); }

template <typename T>
T* pointer(const nb::object& array) {
  return array.is_none() ? nullptr : data_of<T>(array);
}

template <typename T>
nb::ndarray<nb::numpy, T> copy_of(const T* from, size_t count) {
  auto* data = new std::vector<T>(from, from + count);
  nb::capsule owner(data, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(data->data(), {count}, owner);
}

// Strings with numbers: growing while a corpus is compiled for training, or fixed over arrays that may lie in a file.
struct Attributes {
  std::unique_ptr<StringIndex> growing;
  IndexView fixed;
  nb::object arrays;

  const IndexView& view() const { return growing ? growing->view() : fixed; }
  AttributeSource source(bool grow) {
    return grow && growing ? AttributeSource(growing.get()) : AttributeSource(view());
  }
};

using PieceTuple = std::tuple<std::string, int, int, int, int>;

TemplateSet templates_of(const std::vector<std::vector<PieceTuple>>& lines) {
  std::vector<std::vector<Piece>> templates;
  for (const auto& line : lines) {
    templates.emplace_back();
    for (const auto& [text, function, argument, row, column] : line)
      templates.back().push_back({text, Function(function), argument, row, column});
  }
  return TemplateSet(std::move(templates));
}

struct Cells {
  std::vector<std::unique_ptr<Column>> columns;
  std::vector<int64_t> offsets;
};

Cells read_cells(const nb::list& columns, const std::vector<std::string>& names) {
  Cells cells;
  for (size_t c = 0; c < columns.size(); ++c) {
    cells.columns.push_back(std::make_unique<Column>());
    read_column(columns[c], names[c].c_str(), cells.offsets, *cells.columns.back());
  }
  return cells;
}

std::shared_ptr<Dataset> compile_tokens(const TemplateSet& set, const nb::list& columns,
                                        const std::vector<std::string>& names, Attributes& attributes, bool grow) {
  Cells cells = read_cells(columns, names);
  nb::gil_scoped_release release;
  return std::make_shared<Dataset>(expand(set, cells.columns, std::move(cells.offsets), attributes.source(grow)));
}

std::vector<std::vector<nb::bytes>> feature_strings(const TemplateSet& set, const nb::list& columns,
                                                    const std::vector<std::string>& names) {
  const Cells cells = read_cells(columns, names);
  std::vector<std::vector<nb::bytes>> tokens;
  for (int64_t b = 0; b + 1 < int64_t(cells.offsets.size()); ++b) {
    for (int64_t t = 0; t < cells.offsets[size_t(b) + 1] - cells.offsets[size_t(b)]; ++t) {
      tokens.emplace_back();
      for (const std::string& name : expand_token(set, cells.columns, cells.offsets, b, t))
        tokens.back().emplace_back(name.data(), name.size());
    }
  }
  return tokens;
}

// Weights made ready for scoring; keeps the array of labels that it points into.
struct ReadyWeights {
  WeightTable<double> table;
  nb::object labels;
};

void emissions_of(const Dataset& data, const ReadyWeights& weights, const Array<double>& out) {
  double* emissions = out.data();
  nb::gil_scoped_release release;
  score_dataset(data, weights.table, emissions);
}

// Leaves the scorer in order, also where reading ends with an error.
struct Finish {
  Scorer& scorer;
  ~Finish() { scorer.finish(); }
};

// A scorer with the Python objects that it points into. One call at a time: the lock is never waited for with the
// interpreter lock in hand.
struct TokenScorer {
  Scorer scorer;
  std::mutex mutex;
  nb::object parts;

  nb::tuple score(const nb::list& columns, const std::vector<std::string>& names) {
    std::unique_lock<std::mutex> lock(mutex, std::defer_lock);
    {
      nb::gil_scoped_release release;
      lock.lock();
    }
    const Finish finish{scorer};
    std::vector<int64_t> offsets;
    for (size_t c = 0; c < columns.size(); ++c)
      read_column(columns[c], names[c].c_str(), offsets, *scorer.columns()[c]);
    const size_t N = size_t(offsets.back()), L = size_t(scorer.labels());
    auto* emissions = new Block<double>(int64_t(N * L));
    nb::capsule owner(emissions, [](void* p) noexcept { delete static_cast<Block<double>*>(p); });
    {
      nb::gil_scoped_release release;
      scorer.score(offsets, *emissions);
    }
    nb::ndarray<nb::numpy, double> array(static_cast<double*>(*emissions), {N, L}, owner);
    return nb::make_tuple(array, copy_of(offsets.data(), offsets.size()));
  }
};

void bind_data(nb::module_& m) {
  nb::class_<TemplateSet>(m, "TemplateSet")
      .def("__init__", [](TemplateSet* self, const std::vector<std::vector<PieceTuple>>& lines) {
        new (self) TemplateSet(templates_of(lines));
      });
  nb::class_<Attributes>(m, "Attributes")
      .def("__init__", [](Attributes* self) { new (self) Attributes{std::make_unique<StringIndex>(), {}, {}}; })
      .def_static("fixed",
                  [](const Flat<const uint8_t>& bytes, const Flat<const uint64_t>& ends,
                     const Flat<const uint8_t>& marks, const Flat<const uint32_t>& table) {
                    Attributes self;
                    self.fixed = {reinterpret_cast<const char*>(bytes.data()), ends.data(), marks.data(), table.data(),
                                  ends.size(), table.size()};
                    self.arrays = nb::make_tuple(bytes, ends, marks, table);
                    return self;
                  }, exact(), exact(), exact(), exact())
      .def("__len__", [](const Attributes& self) { return self.view().count; })
      .def("find", [](const Attributes& self, nb::bytes name) {
        return self.view().find({name.c_str(), name.size()});
      })
      .def("add", [](Attributes& self, nb::bytes name) {
        return self.source(true).number({name.c_str(), name.size()});
      })
      .def("name", [](const Attributes& self, uint64_t i) {
        const std::string_view name = self.view()[i];
        return nb::bytes(name.data(), name.size());
      })
      .def("select",  // those of the given numbers, numbered anew
           [](const Attributes& self, const Array<const int64_t>& numbers) {
             Attributes chosen{std::make_unique<StringIndex>(), {}, {}};
             for (size_t i = 0; i < numbers.size(); ++i) chosen.growing->add(self.view()[uint64_t(numbers.data()[i])]);
             return chosen;
           })
      .def("growing",  // a copy that can grow
           [](const Attributes& self) {
             Attributes copy{std::make_unique<StringIndex>(), {}, {}};
             for (uint64_t i = 0; i < self.view().count; ++i) copy.growing->add(self.view()[i]);
             return copy;
           })
      .def("arrays", [](const Attributes& self) {
        const IndexView& view = self.view();
        const size_t bytes = view.count ? size_t(view.ends[view.count - 1]) : 0;
        return nb::make_tuple(copy_of(reinterpret_cast<const uint8_t*>(view.bytes), bytes),
                              copy_of(view.ends, size_t(view.count)), copy_of(view.marks, size_t(view.capacity)),
                              copy_of(view.table, size_t(view.capacity)));
      });
  nb::class_<Dataset>(m, "Dataset")
      .def_prop_ro("sentences", &Dataset::sentences)
      .def_prop_ro("tokens", &Dataset::tokens)
      .def_prop_ro("bundles", &Dataset::bundles)
      .def_prop_ro("entries", [](const Dataset& self) { return self.attributes.size(); })
      .def_prop_ro("offsets",
                   [](const Dataset& self) { return copy_of(self.offsets.data(), self.offsets.size()); },
                   nb::rv_policy::move)
      .def("token_attributes", [](const Dataset& self, int64_t n) {
        std::vector<std::pair<int64_t, double>> found;
        for (int64_t g = 0; g < self.groups; ++g) {
          const int64_t u = self.bundle(n, g);
          for (int64_t e = self.bundle_begin(u); e < self.bundle_ends[size_t(u)]; ++e)
            found.emplace_back(self.attributes[size_t(e)], self.value(e));
        }
        return found;
      });
  nb::class_<ReadyWeights>(m, "Weights")
      .def("__init__", [](ReadyWeights* self, const Flat<const int64_t>& ends, const Flat<const uint16_t>& labels,
                          const Flat<const double>& weights, int64_t L) {
        const Pairs pairs{ends.data(), labels.data(), int64_t(ends.size()), L};
        new (self) ReadyWeights{WeightTable<double>(pairs), nb::cast(labels)};
        self->table.fill(weights.data());
        self->table.forget_ends();
      }, exact(), exact(), exact(), nb::arg());
  nb::class_<TokenScorer>(m, "TokenScorer")
      .def("__init__", [](TokenScorer* self, nb::object set, nb::object attributes, nb::object weights) {
        const auto& table = nb::cast<const ReadyWeights&>(weights).table;
        new (self) TokenScorer{{nb::cast<const TemplateSet&>(set), nb::cast<Attributes&>(attributes).view(), table}, {},
                               nb::make_tuple(set, attributes, weights)};
      })
      .def("score", &TokenScorer::score)
      .def_prop_ro("bytes", [](const TokenScorer& self) { return self.scorer.bytes(); })
      .def_prop_ro_static("most_bytes", [](nb::handle) { return Scorer::most_bytes; });
  m.def("compile_tokens", &compile_tokens);
  m.def("compile_features", [](nb::handle sentences, Attributes& attributes, bool grow) {
    return std::make_shared<Dataset>(read_features(sentences, attributes.source(grow)));
  });
  m.def("feature_strings", &feature_strings);
  m.def("score_dataset", &emissions_of);
}

// The objective with the arrays that it points into.
struct Training {
  Objective objective;
  nb::object arrays;
};

using Result = std::tuple<int, int64_t, double>;  // status, sentence, loss

void bind_objective(nb::module_& m) {
  nb::class_<Training>(m, "Objective")
      .def("__init__",
           [](Training* self, std::shared_ptr<Dataset> data, int64_t attributes, int64_t L, nb::object tags,
              nb::object allowed, nb::object sentence_weights, nb::object token_weights, bool single_precision) {
             const Supervision known{pointer<const int64_t>(tags), pointer<const uint8_t>(allowed),
                                     pointer<const double>(sentence_weights), pointer<const double>(token_weights)};
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
      .def("set_states",
           [](Training& self, const Array<const int64_t>& ends, const Array<const uint16_t>& labels) {
             self.objective.set_states({{ends.data(), ends.data() + ends.size()},
                                        {labels.data(), labels.data() + labels.size()}});
           })
      .def("set_transitions",
           [](Training& self, const Array<const uint8_t>& transitions, const Array<const uint8_t>& start,
              const Array<const uint8_t>& end) {
             self.objective.set_transitions(transitions.data(), start.data(), end.data());
           })
      .def_prop_ro("size", [](const Training& self) { return self.objective.size(); })
      .def("states",
           [](const Training& self) {
             const StateFeatures& states = self.objective.states();
             return nb::make_tuple(copy_of(states.ends.data(), states.ends.size()),
                                   copy_of(states.labels.data(), states.labels.size()));
           })
      .def("evaluate",
           [](Training& self, const Array<const double>& weights, nb::object gradient) -> Result {
             const double* w = weights.data();
             double loss = 0.0, *g = pointer<double>(gradient);
             nb::gil_scoped_release release;
             const Outcome outcome = self.objective.evaluate(w, g, &loss);
             return {outcome.status, outcome.sequence, loss};
           }, nb::arg(), nb::arg().none())
      .def("descend",
           [](const Training& self, const Array<const int64_t>& order, const Array<double>& weights, double rate,
              double decay, int64_t batch, int64_t done, double scale) {
             Descent descent{rate, decay, scale, batch, done};
             const int64_t* sentences = order.data();
             const int64_t count = int64_t(order.size());
             double loss = 0.0, *w = weights.data();
             Outcome outcome;
             {
               nb::gil_scoped_release release;
               outcome = descend(self.objective, sentences, count, descent, w, &loss);
             }
             return nb::make_tuple(Result{outcome.status, outcome.sequence, loss}, descent.done, descent.scale);
           })
      .def("perceptron", [](const Training& self, const Array<const int64_t>& order, const Array<double>& weights,
                            const Array<double>& sums, int64_t seen) {
        const int64_t* sentences = order.data();
        const int64_t count = int64_t(order.size());
        int64_t mistakes = 0;
        double *w = weights.data(), *s = sums.data();
        {
          nb::gil_scoped_release release;
          perceptron(self.objective, sentences, count, w, s, &seen, &mistakes);
        }
        return nb::make_tuple(seen, mistakes);
      });
}

template <typename T>
using Vectors = std::vector<Array<const T>>;

template <typename T>
std::vector<const T*> pointers(const Vectors<T>& vectors) {
  std::vector<const T*> result;
  for (const auto& vector : vectors) result.push_back(vector.data());
  return result;
}

void bind_vectors(nb::module_& m) {
  m.def("dot", [](const Array<const double>& a, const Array<const double>& b) {
    nb::gil_scoped_release release;
    return dot(a.data(), b.data(), int64_t(a.size()));
  });
  m.def("combine", [](const Vectors<double>& vectors, const std::vector<double>& factors, const Array<double>& out) {
    const auto from = pointers<double>(vectors);
    nb::gil_scoped_release release;
    combine(from, factors, int64_t(out.size()), out.data());
  });
  m.def("combine_steps", [](const Vectors<float>& vectors, const std::vector<double>& factors,
                            const Array<const double>& v, double factor, const Array<double>& out) {
    const auto from = pointers<float>(vectors);
    nb::gil_scoped_release release;
    combine(from, factors, v.data(), factor, int64_t(out.size()), out.data());
  });
  m.def("add_decay", [](const Array<const double>& weights, double factor, const Array<double>& gradient) {
    nb::gil_scoped_release release;
    return add_decay(weights.data(), factor, int64_t(weights.size()), gradient.data());
  });
  m.def("learn_step", [](const Array<const double>& x, const Array<const double>& x_before,
                         const Array<const double>& g, const Array<const double>& g_before,
                         const Array<const double>& v, const Vectors<float>& vectors, const Array<float>& s,
                         const Array<float>& y) {
    const auto from = pointers<float>(vectors);
    const Steps step{x.data(), x_before.data(), g.data(), g_before.data()};
    std::vector<double> products;
    {
      nb::gil_scoped_release release;
      products = learn_step(step, v.data(), from, int64_t(v.size()), s.data(), y.data());
    }
    return copy_of(products.data(), products.size());
  });
}

}  // namespace

void bind_features(nb::module_& m) {
  bind_data(m);
  bind_objective(m);
  bind_vectors(m);
}

}  // namespace trellis

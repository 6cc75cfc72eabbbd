// Templates, compiled corpora and their scores. The caller is responsible for sizes and lifetimes of arrays, as in
// inference.cpp; it is trellis.features.
#include "features/dataset.h"

#include "base/block.h"
#include "bind/array.h"
#include "bind/attributes.h"
#include "bind/calls.h"
#include "bind/module.h"
#include "bind/reading.h"
#include "features/bundling.h"
#include "features/edges.h"
#include "features/value_scorer.h"
#include "text/token_lists.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace nb = nanobind;

namespace trellis {
namespace {

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

// Weights of pairs as a model has them.
struct LearnedPairs {
  Flat<const int64_t> ends;
  Flat<const uint16_t> labels;
  Flat<const double> weights;
  int64_t L;

  Pairs pairs() const { return {ends.data(), labels.data(), int64_t(ends.size()), L}; }
};

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

void edges_of(const Dataset& data, const ReadyWeights& weights, const Array<double>& out) {
  double* edges = out.data();
  nb::gil_scoped_release release;
  score_edges(data, weights.table, edges);
}

// A model that scores tokens, with the Python objects that it points into. Each call has a scorer for itself, which
// remembers words; as many are made as calls run at the same time.
class TokenScorer {
 public:
  TokenScorer(nb::object set, nb::object attributes, const LearnedPairs& learned, const Folding& folding)
      : set_(nb::cast<const TemplateSet&>(set)),
        attributes_(nb::cast<Attributes&>(attributes)),
        parts_(nb::make_tuple(set, attributes, learned.labels)),
        folding_(folding.empty() ? nullptr : std::make_shared<const Folding>(folding)) {
    nb::gil_scoped_release release;
    if (make_values(learned, single_)) return;
    if (make_values(learned, double_)) return;
    names_ = std::make_unique<WeightTable<double>>(learned.pairs());
    names_->fill(learned.weights.data());
    names_->forget_ends();
  }

  nb::tuple score(const nb::list& columns, const std::vector<std::string>& names) {
    const Borrowed own(*this);
    std::vector<int64_t> offsets;
    for (size_t c = 0; c < columns.size() && c < own.scorer->columns().size(); ++c)
      read_column(columns[c], names[c].c_str(), offsets, *own.scorer->columns()[c]);
    return scored(*own.scorer, offsets);
  }
  // The same for a model that looks at tokens alone.
  nb::tuple score_lists(const TokenLists& lists) {
    const Borrowed own(*this);
    if (own.scorer->columns().size() != 1) throw nb::value_error("the templates look at more than tokens");
    Column& column = *own.scorer->columns()[0];
    for (int64_t n = 0; n < lists.offsets.back(); ++n) column.cells.push_back(int32_t(column.values.add(lists[n])));
    return scored(*own.scorer, lists.offsets);
  }
  // What is remembered, to measure and to test without it.
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    scorers_ -= int(idle_.size());
    idle_.clear();
  }
  bool folds() const { return folding_ && !names_; }
  bool by_names() const { return names_ != nullptr; }
  int64_t bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    int64_t sum = 0;
    for (const auto& scorer : idle_) sum += scorer->bytes();
    return sum;
  }

 private:
  // A scorer for one call, in order again after it even if it ends with an error.
  struct Borrowed {
    TokenScorer& from;
    std::unique_ptr<Scorer> scorer;

    explicit Borrowed(TokenScorer& from) : from(from), scorer(from.take()) {}
    ~Borrowed() { from.give_back(std::move(scorer)); }
  };

  static nb::tuple scored(Scorer& scorer, const std::vector<int64_t>& offsets) {
    const size_t N = size_t(offsets.back()), L = size_t(scorer.labels());
    auto* emissions = new Block<double>(int64_t(N * L));
    nb::capsule owner(emissions, [](void* p) noexcept { delete static_cast<Block<double>*>(p); });
    constexpr int64_t per_token = 256;  // operations, for words that are known
    without_lock(int64_t(N) * per_token, [&] { scorer.score(offsets, *emissions); });
    nb::ndarray<nb::numpy, double> array(static_cast<double*>(*emissions), {N, L}, owner);
    return nb::make_tuple(array, copy_of(offsets.data(), offsets.size()));
  }
  template <typename R>
  bool make_values(const LearnedPairs& learned, std::shared_ptr<const ValueWeights<R>>& values) const {
    const double* from = learned.weights.data();
    const std::vector<R> weights(from, from + learned.weights.size());
    if (!std::equal(weights.begin(), weights.end(), from)) return false;
    auto made = std::make_shared<ValueWeights<R>>(set_);
    if (made->make(attributes_.strings(), learned.pairs(), weights.data())) values = std::move(made);
    return values != nullptr;
  }
  std::unique_ptr<Scorer> take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Scorer> scorer = std::move(idle_.back());
        idle_.pop_back();
        return scorer;
      }
      ++scorers_;
    }
    if (single_) return std::make_unique<ValueScorer<float>>(single_, set_.columns, folding_);
    if (double_) return std::make_unique<ValueScorer<double>>(double_, set_.columns, folding_);
    return std::make_unique<NameScorer>(set_, attributes_.view(), *names_);
  }
  void give_back(std::unique_ptr<Scorer> scorer) {
    scorer->finish(Scorer::most_bytes / std::max(1, scorers_.load()));
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(scorer));
  }

  const TemplateSet& set_;
  const Attributes& attributes_;
  nb::object parts_;
  std::shared_ptr<const Folding> folding_;
  std::shared_ptr<const ValueWeights<float>> single_;
  std::shared_ptr<const ValueWeights<double>> double_;
  std::unique_ptr<WeightTable<double>> names_;  // if the model's names cannot be read back
  std::mutex mutex_;                            // of what follows
  std::vector<std::unique_ptr<Scorer>> idle_;
  std::atomic<int> scorers_{0};
};

}  // namespace

void bind_dataset(nb::module_& m) {
  nb::class_<TemplateSet>(m, "TemplateSet")
      .def("__init__", [](TemplateSet* self, const std::vector<std::vector<PieceTuple>>& lines) {
        new (self) TemplateSet(templates_of(lines));
      });
  nb::class_<Dataset>(m, "Dataset")
      .def_prop_ro("sentences", &Dataset::sentences)
      .def_prop_ro("tokens", &Dataset::tokens)
      .def_prop_ro("bundles", &Dataset::bundles)
      .def_prop_ro("entries", [](const Dataset& self) { return self.attributes.size(); })
      .def_prop_ro("offsets",
                   [](const Dataset& self) { return copy_of(self.offsets.data(), self.offsets.size()); },
                   nb::rv_policy::move)
      .def("arrays",  // offsets, token_bundles [N, groups], bundle_ends, attributes, values, families [groups, 2]
           [](const Dataset& self) {
             std::vector<int32_t> families;
             for (const Family& family : self.families) families.insert(families.end(), {family.number, family.row});
             return nb::make_tuple(copy_of(self.offsets.data(), self.offsets.size()),
                                   copy_of(self.token_bundles.data(), self.token_bundles.size()),
                                   copy_of(self.bundle_ends.data(), self.bundle_ends.size()),
                                   copy_of(self.attributes.data(), self.attributes.size()),
                                   copy_of(self.values.data(), self.values.size()),
                                   copy_of(families.data(), families.size()));
           })
      .def_static("of_arrays",  // the inverse; the caller has made sure that they are the same
                  [](const Array<const int64_t>& offsets, const Array<const int32_t>& token_bundles,
                     const Array<const int64_t>& bundle_ends, const Array<const int32_t>& attributes,
                     const Array<const double>& values, const Array<const int32_t>& families) {
                    auto data = std::make_shared<Dataset>();
                    data->offsets.assign(offsets.data(), offsets.data() + offsets.size());
                    data->token_bundles.assign(token_bundles.data(), token_bundles.data() + token_bundles.size());
                    data->bundle_ends.assign(bundle_ends.data(), bundle_ends.data() + bundle_ends.size());
                    data->attributes.assign(attributes.data(), attributes.data() + attributes.size());
                    data->values.assign(values.data(), values.data() + values.size());
                    for (size_t g = 0; g + 1 < families.size(); g += 2)
                      data->families.push_back({families.data()[g], families.data()[g + 1]});
                    if (data->tokens() && !data->token_bundles.empty())
                      data->groups = int64_t(data->token_bundles.size()) / data->tokens();
                    return data;
                  })
      .def("forget", &Dataset::forget_features)
      .def("share_bundles",
           [](Dataset& self) {
             nb::gil_scoped_release release;
             return share_bundles(self);
           })
      .def("first_uses",  // groups and sentences of so many attributes
           [](const Dataset& self, int64_t attributes) {
             const FirstUses uses(self, attributes);
             return nb::make_tuple(copy_of(uses.groups.data(), uses.groups.size()),
                                   copy_of(uses.sentences.data(), uses.sentences.size()));
           })
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
      }, unconverted(), unconverted(), unconverted(), nb::arg());
  nb::class_<TokenScorer>(m, "TokenScorer")
      .def("__init__", [](TokenScorer* self, nb::object set, nb::object attributes, const Flat<const int64_t>& ends,
                          const Flat<const uint16_t>& labels, const Flat<const double>& weights, int64_t L,
                          const Folding& folding) {
        new (self) TokenScorer(set, attributes, {ends, labels, weights, L}, folding);
      }, nb::arg(), nb::arg(), unconverted(), unconverted(), unconverted(), nb::arg(), nb::arg())
      .def("score", &TokenScorer::score)
      .def("score_lists", &TokenScorer::score_lists)
      .def("forget", &TokenScorer::forget)
      .def_prop_ro("folds", &TokenScorer::folds)
      .def_prop_ro("by_names", &TokenScorer::by_names)
      .def_prop_ro("bytes", &TokenScorer::bytes)
      .def_prop_ro_static("most_bytes", [](nb::handle) { return Scorer::most_bytes; });
  m.def("compile_tokens", &compile_tokens);
  m.def("compile_features", [](nb::handle sentences, Attributes& attributes, bool grow) {
    return std::make_shared<Dataset>(read_features(sentences, attributes, grow));
  });
  m.def("feature_strings", &feature_strings);
  m.def("score_dataset", &emissions_of);
  m.def("score_edges", &edges_of);
}

}  // namespace trellis

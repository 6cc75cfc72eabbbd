// Model files of CRFsuite as arrays of Python.
#include "crfsuite/model_file.h"

#include "bind/labels.h"
#include "bind/python.h"
#include "bind/reading.h"

#include <numeric>

namespace nb = nanobind;

namespace trellis::bind {

using namespace crfsuite;

namespace {

// (bytes and lengths of the labels, the same of the attributes, pairs of each attribute, their labels, their weights,
// transitions as from * labels + to, their weights)
nb::tuple read_crfsuite(const Flat<const uint8_t>& file) {
  Model model;
  without_lock(int64_t(file.size()), [&] { model = read_model(file.data(), file.size()); });
  std::vector<int64_t> places;
  std::vector<double> weights;
  for (const Transition& step : model.transitions) {
    places.push_back(int64_t(step.from) * int64_t(model.labels.lengths.size()) + step.to);
    weights.push_back(step.weight);
  }
  return nb::make_tuple(to_numpy(std::move(model.labels.bytes)), to_numpy(std::move(model.labels.lengths)),
                        to_numpy(std::move(model.attributes.bytes)), to_numpy(std::move(model.attributes.lengths)),
                        to_numpy(std::move(model.pair_counts)), to_numpy(std::move(model.pair_labels)),
                        to_numpy(std::move(model.pair_weights)), to_numpy(std::move(places)), to_numpy(std::move(weights)));
}

template <typename T>
std::vector<T> vector_of(const Flat<const T>& array) {
  return {array.data(), array.data() + array.size()};
}

Strings strings_of(const Flat<const uint8_t>& bytes, const Flat<const uint32_t>& lengths) {
  Strings strings{vector_of(bytes), vector_of(lengths)};
  uint64_t sum = 0;
  for (const uint32_t length : strings.lengths) sum += length;
  if (sum != bytes.size()) throw nb::value_error("the lengths of strings must add up to their bytes");
  return strings;
}

// The inverse of read_crfsuite.
nb::bytes write_crfsuite(const Flat<const uint8_t>& label_bytes, const Flat<const uint32_t>& label_lengths,
                         const Flat<const uint8_t>& attribute_bytes, const Flat<const uint32_t>& attribute_lengths,
                         const Flat<const uint32_t>& pair_counts, const Flat<const uint16_t>& pair_labels,
                         const Flat<const double>& pair_weights, const Flat<const int64_t>& places,
                         const Flat<const double>& weights) {
  const size_t L = label_lengths.size();
  Model model;
  model.labels = strings_of(label_bytes, label_lengths);
  model.attributes = strings_of(attribute_bytes, attribute_lengths);
  model.pair_counts = vector_of(pair_counts);
  model.pair_labels = vector_of(pair_labels);
  model.pair_weights = vector_of(pair_weights);
  uint64_t pairs = 0;
  for (const uint32_t count : model.pair_counts) pairs += count;
  if (pairs != pair_labels.size() || pairs != pair_weights.size() || pair_counts.size() != attribute_lengths.size() ||
      places.size() != weights.size())
    throw nb::value_error("arrays of the same things must have the same sizes");
  for (size_t i = 0; i < places.size(); ++i) {
    if (places.data()[i] < 0 || size_t(places.data()[i]) >= L * L) throw nb::value_error("a transition of no label");
    const auto place = size_t(places.data()[i]);
    model.transitions.push_back({uint32_t(place / L), uint32_t(place % L), weights.data()[i]});
  }
  const std::vector<uint8_t> file = write_model(model);
  return nb::bytes(file.data(), file.size());
}

// A file of CRFsuite that is not read but looked up in.
class LazyModel : AttributeIndex::Source {
 public:
  explicit LazyModel(Flat<const uint8_t> file)
      : file_(std::move(file)), model_(file_.data(), file_.size()), index_(static_cast<const Source&>(*this)) {}

  int64_t num_labels() const { return int64_t(model_.labels().lengths.size()); }
  nb::list labels() const {
    nb::list names;
    const auto* text = reinterpret_cast<const char*>(model_.labels().bytes.data());
    for (const uint32_t length : model_.labels().lengths) names.append(new_string({text, length})), text += length;
    return names;
  }
  // (L, L), without a shape
  nb::ndarray<nb::numpy, double> transitions() const {
    std::vector<double> weights(size_t(num_labels() * num_labels()));
    for (const Transition& step : model_.transitions()) weights[size_t(step.from * num_labels() + step.to)] = step.weight;
    return to_numpy(std::move(weights));
  }
  // (emissions without a shape, offsets)
  nb::tuple score(nb::handle sentences) {
    const Dataset data = read_features(sentences, index_, false);
    std::vector<double> emissions(size_t(data.tokens() * num_labels()));
    const std::shared_ptr<const Table> table = table_for(data);
    without_lock(cost(data), [&] { add_scores(data, table.get(), emissions.data()); });
    return nb::make_tuple(to_numpy(std::move(emissions)), copy_of(data.offsets.data(), data.offsets.size()));
  }
  nb::object best(nb::handle sentences, const Labeller& labeller) {
    if (labeller.labels() != num_labels()) throw nb::value_error("a chain of other labels than the model has");
    const Dataset data = read_features(sentences, index_, false);
    const std::shared_ptr<const Table> table = table_for(data);
    return labeller.best(data.offsets, data.tokens() ? cost(data) / data.tokens() : 0,
                         [&](const std::vector<int64_t>&, double* emissions) {
                           std::fill_n(emissions, data.tokens() * num_labels(), 0.0);
                           add_scores(data, table.get(), emissions);
                         });
  }

 private:
  static int64_t cost(const Dataset& data) { return 64 * int64_t(data.attributes.size()); }
  void find(const std::string_view* names, size_t count, int64_t* numbers) const override {
    model_.find(names, count, numbers);
  }
  // All weights, once so many were asked for that to read them pays; null before, or if the file holds nonsense somewhere.
  struct Table {
    std::vector<int64_t> ends;
    std::vector<uint16_t> labels;
    WeightTable<double> weights;

    Table(const Model& model, int64_t L)
        : ends(model.pair_counts.begin(), model.pair_counts.end()), labels(model.pair_labels),
          weights((std::partial_sum(ends.begin(), ends.end(), ends.begin()),
                   Pairs{ends.data(), labels.data(), int64_t(ends.size()), L})) {
      weights.fill(model.pair_weights.data());
    }
  };
  std::shared_ptr<const Table> table_for(const Dataset& data) {
    constexpr size_t bytes_per_weight = 20;
    if (table_ || asked_ > file_.size() / bytes_per_weight) return table_;
    asked_ += data.attributes.size();
    if (asked_ <= file_.size() / bytes_per_weight) return nullptr;
    try {
      table_ = std::make_shared<const Table>(read_model(file_.data(), file_.size()), num_labels());
    } catch (const FormatError&) {  // what is asked for may be right nevertheless
    }
    return table_;
  }
  void add_scores(const Dataset& data, const Table* table, double* emissions) const {
    if (table) return score_dataset(data, table->weights, emissions);
    constexpr size_t ahead = 8;
    const std::vector<int32_t>& attributes = data.attributes;
    size_t e = 0;
    for (int64_t n = 0; n < data.tokens(); ++n, emissions += num_labels()) {
      data.for_attributes(n, [&](int64_t attribute, double value) {
        for (int step = 0; step < 3; ++step) {
          const size_t later = e + ahead * size_t(3 - step);
          if (later < attributes.size()) model_.fetch(uint32_t(attributes[later]), step);
        }
        model_.add_weights(uint32_t(attribute), value, emissions);
        ++e;
      });
    }
  }

  Flat<const uint8_t> file_;
  OpenModel model_;
  AttributeIndex index_;
  size_t asked_ = 0;  // weights of attributes
  std::shared_ptr<const Table> table_;
};

}  // namespace

void bind_crfsuite(nb::module_& m) {
  nb::class_<LazyModel>(m, "CrfsuiteModel")
      .def(nb::init<Flat<const uint8_t>>(), unconverted())
      .def_prop_ro("labels", &LazyModel::labels)
      .def_prop_ro("transitions", &LazyModel::transitions, nb::rv_policy::move)
      .def("score", &LazyModel::score)
      .def("best", &LazyModel::best);
  m.def("read_crfsuite", &read_crfsuite, unconverted());
  m.def("write_crfsuite", &write_crfsuite, unconverted(), unconverted(), unconverted(), unconverted(), unconverted(),
        unconverted(), unconverted(), unconverted(), unconverted());
}

}  // namespace trellis::bind

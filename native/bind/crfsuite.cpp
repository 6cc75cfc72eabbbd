// Model files of CRFsuite as arrays of Python.
#include "crfsuite/model_file.h"

#include "bind/python.h"

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

}  // namespace

void bind_crfsuite(nb::module_& m) {
  m.def("read_crfsuite", &read_crfsuite, unconverted());
  m.def("write_crfsuite", &write_crfsuite, unconverted(), unconverted(), unconverted(), unconverted(), unconverted(),
        unconverted(), unconverted(), unconverted(), unconverted());
}

}  // namespace trellis::bind

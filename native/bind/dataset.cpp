// The numbered attributes of a model, templates, compiled corpora and their scores. The caller is responsible for sizes and lifetimes of arrays, as in
// inference.cpp; it is trellis.features.
#include "features/dataset.h"

#include "bind/python.h"
#include "bind/reading.h"
#include "bind/labels.h"
#include "bind/stl.h"
#include "features/attribute_index.h"
#include "features/edges.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

namespace nb = nanobind;

namespace trellis::bind {

using namespace features;

namespace {

StringList list_of(const Flat<const uint8_t>& bytes, const Flat<const uint64_t>& ends) {
  return {reinterpret_cast<const char*>(bytes.data()), ends.data(), ends.size()};
}

// All strings of a list, and where they end.
nb::tuple arrays_of(const StringList& strings) {
  std::vector<uint64_t> ends(strings.ends, strings.ends + strings.count);
  for (uint64_t& end : ends) end -= strings.start;
  const size_t size = ends.empty() ? 0 : size_t(ends.back());
  return nb::make_tuple(copy_of(reinterpret_cast<const uint8_t*>(strings.bytes) + strings.start, size),
                        copy_of(ends.data(), ends.size()));
}

using PieceTuple = std::tuple<std::string, int, int, int, int>;

TemplateSet templates_of(const std::vector<std::vector<PieceTuple>>& lines) {
  std::vector<std::vector<Piece>> templates;
  for (const auto& line : lines) {
    templates.emplace_back();
    for (const auto& [text, function, argument, row, column] : line)
      templates.back().push_back({text, Function(function), argument, row, column});
  }
  return TemplateSet(templates);
}

struct Cells {
  Columns columns;
  std::vector<int64_t> offsets;

  Cells(const nb::list& given, const std::vector<std::string>& names) : columns(given.size()) {
    for (size_t c = 0; c < columns.size(); ++c) read_column(given[c], names[c].c_str(), offsets, columns[c]);
  }
};

Dataset* compile_tokens(const std::shared_ptr<TemplateSet>& set, const nb::list& columns,
                        const std::vector<std::string>& names, AttributeIndex& attributes, bool grow) {
  Cells cells(columns, names);
  nb::gil_scoped_release release;
  return new Dataset(compile_templates(set, cells.columns, std::move(cells.offsets), attributes, grow));
}

std::vector<std::vector<nb::bytes>> feature_strings(const TemplateSet& set, const nb::list& columns,
                                                    const std::vector<std::string>& names) {
  const Cells cells(columns, names);
  std::vector<std::vector<nb::bytes>> tokens;
  for (int64_t b = 0; b + 1 < int64_t(cells.offsets.size()); ++b) {
    for (int64_t t = 0; t < cells.offsets[size_t(b) + 1] - cells.offsets[size_t(b)]; ++t) {
      tokens.emplace_back();
      for (const std::string& name : attribute_names(set, cells.columns, cells.offsets, b, t))
        tokens.back().emplace_back(name.data(), name.size());
    }
  }
  return tokens;
}

// Where each of so many attributes is used first: a group of templates, and in it a sentence; -1 if it is not used. In
// this order the attributes of a corpus are numbered.
nb::tuple first_uses(const Dataset& data, int64_t attributes) {
  std::vector<int64_t> groups(size_t(attributes), -1), sentences(size_t(attributes), -1);
  std::vector<bool> seen(size_t(data.bundles()), false);
  for (int64_t g = 0; g < data.groups; ++g) {
    for (int64_t b = 0; b < data.sentences(); ++b) {
      for (int64_t n = data.offsets[size_t(b)]; n < data.offsets[size_t(b) + 1]; ++n) {
        const int64_t u = data.bundle(n, g);
        if (seen[size_t(u)]) continue;
        seen[size_t(u)] = true;
        for (int64_t e = data.bundle_begin(u); e < data.bundle_ends[size_t(u)]; ++e) {
          const size_t a = size_t(data.attributes[size_t(e)]);
          if (groups[a] < 0) groups[a] = g, sentences[a] = b;
        }
      }
    }
  }
  return nb::make_tuple(to_numpy(std::move(groups)), to_numpy(std::move(sentences)));
}

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

}  // namespace

void bind_dataset(nb::module_& m) {
  nb::class_<AttributeIndex>(m, "Attributes")
      .def(nb::init<>())
      .def("__init__",  // names as they lie in a file
           [](AttributeIndex* self, const Flat<const uint8_t>& bytes, const Flat<const uint64_t>& ends) {
             new (self) AttributeIndex(list_of(bytes, ends), nullptr, {});
           }, unconverted(), unconverted(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def("__init__",  // keys of attributes of templates, and the values of all readings: counts[reading] of each
           [](AttributeIndex* self, const Flat<const uint8_t>& bytes, const Flat<const uint64_t>& ends,
              std::shared_ptr<TemplateSet> set, const Flat<const uint8_t>& value_bytes,
              const Flat<const uint64_t>& value_ends, const std::vector<uint64_t>& counts) {
             std::vector<StringList> values;
             StringList all = list_of(value_bytes, value_ends);
             for (const uint64_t count : counts) {
               if (count > all.count) throw nb::value_error("must count as many values as there are");
               values.push_back({all.bytes, all.ends, count, all.start});
               all = {all.bytes, all.ends + count, all.count - count, all.begin(count)};
             }
             if (all.count) throw nb::value_error("must count as many values as there are");
             new (self) AttributeIndex(list_of(bytes, ends), std::move(set), std::move(values));
           }, unconverted(), unconverted(), nb::arg(), unconverted(), unconverted(), nb::arg(),
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 5>(), nb::keep_alive<1, 6>())
      .def_prop_ro("templates", [](const AttributeIndex& self) -> const TemplateSet* { return self.templates().get(); },
                   nb::rv_policy::reference)
      .def("__len__", [](const AttributeIndex& self) { return self.keys().count; })
      .def("find", [](AttributeIndex& self, nb::bytes name) { return self.key_index().number({name.c_str(), name.size()}); })
      .def("add", [](AttributeIndex& self, nb::bytes name) {
        return self.key_index().add({name.c_str(), name.size()}).number;
      })
      .def("name", [](const AttributeIndex& self, uint64_t i) {
        const std::string name = self.name(i);
        return nb::bytes(name.data(), name.size());
      })
      .def("take",  // the numbers that attributes of other indexes get here: attributes[k] of others[sources[k]]
           [](AttributeIndex& self, const std::vector<AttributeIndex*>& others, const Array<const int64_t>& sources,
              const Array<const int64_t>& attributes) {
             std::vector<AttributeIndex::Renumbering> values(others.size());
             std::vector<int64_t> numbers(sources.size());
             for (size_t k = 0; k < numbers.size(); ++k) {
               const size_t s = size_t(sources.data()[k]);
               numbers[k] = self.take(*others[s], uint64_t(attributes.data()[k]), values[s]);
             }
             return to_numpy(std::move(numbers));
           })
      .def("select",  // those of the given numbers, with new numbers; the copy grows
           [](const AttributeIndex& self, const Array<const int64_t>& numbers) {
             return self.select(numbers.data(), numbers.size()).release();
           })
      .def("keys", [](const AttributeIndex& self) { return arrays_of(self.keys()); })
      .def("values", [](const AttributeIndex& self) {  // of each reading of the templates; None if these are names
        if (!self.templates()) return nb::object(nb::none());
        nb::list found;
        for (size_t r = 0; r < self.templates()->readings.size(); ++r) found.append(arrays_of(self.values(r)));
        return nb::object(found);
      });
  nb::class_<TemplateSet>(m, "TemplateSet")
      .def("__init__", [](TemplateSet* self, const std::vector<std::vector<PieceTuple>>& lines) {
        new (self) TemplateSet(templates_of(lines));
      });
  nb::class_<Dataset>(m, "Dataset")
      .def(nb::init<>())  // no sentence
      .def_prop_ro("sentences", &Dataset::sentences)
      .def_prop_ro("tokens", &Dataset::tokens)
      .def_prop_ro("bundles", &Dataset::bundles)
      .def_prop_ro("entries", [](const Dataset& self) { return self.attributes.size(); })
      .def_prop_ro("offsets",
                   [](const Dataset& self) { return copy_of(self.offsets.data(), self.offsets.size()); },
                   nb::rv_policy::move)
      .def("arrays",  // offsets, token_bundles [N, groups], bundle_ends, attributes, values; of windows these three:
           [](const Dataset& self) {
             std::vector<int32_t> windows, places, bundles;  // width, units and groups of each; what they have together
             for (const Window& window : self.windows) {
               windows.insert(windows.end(), {int32_t(window.width()), int32_t(window.bundles.size()) / int32_t(window.width())});
               windows.insert(windows.end(), window.groups.begin(), window.groups.end());
               places.insert(places.end(), window.places.begin(), window.places.end());
               bundles.insert(bundles.end(), window.bundles.begin(), window.bundles.end());
             }
             return nb::make_tuple(copy_of(self.offsets.data(), self.offsets.size()),
                                   copy_of(self.token_bundles.data(), self.token_bundles.size()),
                                   copy_of(self.bundle_ends.data(), self.bundle_ends.size()),
                                   copy_of(self.attributes.data(), self.attributes.size()),
                                   copy_of(self.values.data(), self.values.size()), to_numpy(std::move(windows)),
                                   to_numpy(std::move(places)), to_numpy(std::move(bundles)));
           })
      .def_static("of_arrays",  // the inverse; the caller has made sure that they are the same
                  [](const Array<const int64_t>& offsets, const Array<const int32_t>& token_bundles,
                     const Array<const int64_t>& bundle_ends, const Array<const int32_t>& attributes,
                     const Array<const double>& values, const Array<const int32_t>& windows,
                     const Array<const int32_t>& places, const Array<const int32_t>& bundles) {
                    auto data = std::make_unique<Dataset>();
                    data->offsets.assign(offsets.data(), offsets.data() + offsets.size());
                    data->token_bundles.assign(token_bundles.data(), token_bundles.data() + token_bundles.size());
                    data->bundle_ends.assign(bundle_ends.data(), bundle_ends.data() + bundle_ends.size());
                    data->attributes.assign(attributes.data(), attributes.data() + attributes.size());
                    data->values.assign(values.data(), values.data() + values.size());
                    const int32_t *place = places.data(), *bundle = bundles.data();
                    for (const int32_t* at = windows.data(); at < windows.data() + windows.size();) {
                      const int64_t width = *at++, units = *at++;
                      const int32_t* last = place + data->tokens() + (width - 1) * data->sentences();
                      data->windows.push_back({{at, at + width}, {place, last}, {bundle, bundle + units * width}});
                      at += width, place = last, bundle += units * width;
                    }
                    if (data->tokens() && !data->token_bundles.empty())
                      data->groups = int64_t(data->token_bundles.size()) / data->tokens();
                    return data.release();
                  })
      .def("forget", &Dataset::forget_features)
      .def("share_bundles",
           [](Dataset& self) {
             nb::gil_scoped_release release;
             return share_bundles(self);
           })
      .def("first_uses", &first_uses)
      .def("token_attributes", [](const Dataset& self, int64_t n) {
        std::vector<std::pair<int64_t, double>> found;
        self.for_attributes(n, [&](int64_t attribute, double value) { found.emplace_back(attribute, value); });
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
  m.def("compile_tokens", &compile_tokens);
  m.def("compile_features", [](nb::handle sentences, AttributeIndex& attributes, bool grow) {
    return new Dataset(read_features(sentences, attributes, grow));
  });
  m.def("feature_strings", &feature_strings);
  m.def("score_dataset", &emissions_of);
  m.def("score_edges", &edges_of);
}

}  // namespace trellis::bind

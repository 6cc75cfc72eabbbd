// The numbered attributes of a model as Python holds them.
#include "features/attribute_index.h"

#include "bind/python.h"
#include "bind/stl.h"

#include <memory>

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

}  // namespace

void bind_attributes(nb::module_& m) {
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
}

}  // namespace trellis::bind

#include "bind/attributes.h"

#include "bind/module.h"

namespace nb = nanobind;

namespace trellis::bind {

void bind_attributes(nb::module_& m) {
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
                  }, unconverted(), unconverted(), unconverted(), unconverted())
      .def_static("named",  // without a table
                  [](const Flat<const uint8_t>& bytes, const Flat<const uint64_t>& ends) {
                    Attributes self;
                    self.fixed = {reinterpret_cast<const char*>(bytes.data()), ends.data(), nullptr, nullptr, ends.size(), 0};
                    self.arrays = nb::make_tuple(bytes, ends);
                    self.lazy = std::make_unique<LazyTable>();
                    return self;
                  }, unconverted(), unconverted())
      .def("__len__", [](const Attributes& self) { return self.strings().count; })
      .def("find", [](const Attributes& self, nb::bytes name) {
        return self.view().find({name.c_str(), name.size()});
      })
      .def("add", [](Attributes& self, nb::bytes name) {
        return self.source(true).number({name.c_str(), name.size()});
      })
      .def("name", [](const Attributes& self, uint64_t i) {
        const std::string_view name = self.strings()[i];
        return nb::bytes(name.data(), name.size());
      })
      .def("select",  // those of the given numbers, with new numbers
           [](const Attributes& self, const Array<const int64_t>& numbers) {
             Attributes chosen{std::make_unique<StringIndex>(), {}, {}};
             for (size_t i = 0; i < numbers.size(); ++i) chosen.growing->add(self.strings()[uint64_t(numbers.data()[i])]);
             return chosen;
           })
      .def("growing",  // a copy that can grow
           [](const Attributes& self) {
             Attributes copy{std::make_unique<StringIndex>(), {}, {}};
             for (uint64_t i = 0; i < self.strings().count; ++i) copy.growing->add(self.strings()[i]);
             return copy;
           })
      .def("strings", [](const Attributes& self) {
        const IndexView& view = self.strings();
        const size_t bytes = view.count ? size_t(view.ends[view.count - 1]) : 0;
        return nb::make_tuple(copy_of(reinterpret_cast<const uint8_t*>(view.bytes), bytes),
                              copy_of(view.ends, size_t(view.count)));
      })
      .def("arrays", [](const Attributes& self) {
        const IndexView& view = self.view();
        const size_t bytes = view.count ? size_t(view.ends[view.count - 1]) : 0;
        const auto names = copy_of(reinterpret_cast<const uint8_t*>(view.bytes), bytes);
        const auto ends = copy_of(view.ends, size_t(view.count));
        if (!self.growing)
          return nb::make_tuple(names, ends, copy_of(view.marks, size_t(view.capacity)),
                                copy_of(view.table, size_t(view.capacity)));
        IndexTable table = self.growing->table();
        return nb::make_tuple(names, ends, to_numpy(std::move(table.marks)), to_numpy(std::move(table.numbers)));
      })
      .def_prop_ro("secret", [](const Attributes& self) { return self.view().key != nullptr; });  // which hash
}

}  // namespace trellis::bind

// Python strings to small integers: the one loop over labels or words that nothing can do without.
#include "bind/labels.h"

#include "bind/python.h"
#include "features/hash_table.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace nb = nanobind;

namespace trellis::bind {

using namespace features;

namespace {

// The codes met last, by the address of the string: labels read once are mostly the same few objects.
struct Cache {
  static constexpr size_t size = 1024;
  PyObject* keys[size] = {};
  uint32_t codes[size];

  static size_t place(PyObject* key) { return (reinterpret_cast<uintptr_t>(key) >> 4) % size; }
};

uint32_t code_of(PyObject* number) {
  const unsigned long long code = PyLong_Check(number) ? PyLong_AsUnsignedLongLong(number) : ~0ull;
  if (PyErr_Occurred()) PyErr_Clear();
  if (code > std::numeric_limits<uint32_t>::max())
    throw nb::value_error("the numbers of labels must be integers from 0 to 4294967295");
  return uint32_t(code);
}

// table[label] of every label of every sequence, with a 0 after each sequence. The table may register a label that it
// meets for the first time (__missing__).
nb::ndarray<nb::numpy, uint32_t> number_strings(nb::handle sequences, nb::handle table) {
  constexpr const char* otherwise = "labels must be sequences of strings";
  const Items outer = sequence_items(sequences, otherwise);
  std::vector<uint32_t> codes;
  std::vector<Items> alive;  // what the cache has addresses of
  Cache cache;
  for (Py_ssize_t i = 0; i < outer.size(); ++i) {
    const Items& labels = alive.emplace_back(sequence_items(outer[i], otherwise));
    for (Py_ssize_t j = 0; j < labels.size(); ++j) {
      PyObject* label = labels[j];
      const size_t place = Cache::place(label);
      if (cache.keys[place] != label) {
        const nb::object code = nb::steal(PyObject_GetItem(table.ptr(), label));
        if (!code.is_valid()) throw nb::python_error();
        cache.codes[place] = code_of(code.ptr());
        cache.keys[place] = label;
      }
      codes.push_back(cache.codes[place]);
    }
    codes.push_back(0);
  }
  return to_numpy(std::move(codes));
}

// How often each code follows another one, and at the beginning 0, in the order in which the pairs first occur: the
// codes before, the codes after, and the counts.
nb::tuple count_steps(const Array<const uint32_t>& codes) {
  HashTable<uint32_t> pairs(1024);
  std::vector<int64_t> before, after, counts;
  for (size_t i = 0; i < codes.size(); ++i) {
    const int64_t left = i ? codes.data()[i - 1] : 0, right = codes.data()[i];
    const size_t number = pairs.add(pair_key(left, right), uint32_t(counts.size()));
    if (number == counts.size()) before.push_back(left), after.push_back(right), counts.push_back(0);
    ++counts[number];
  }
  return nb::make_tuple(to_numpy(std::move(before)), to_numpy(std::move(after)), to_numpy(std::move(counts)));
}

// The lists of `name_lists`, for lengths that anybody may have written.
nb::list name_numbers(const nb::list& names, const Array<const int64_t>& ids, const Array<const int64_t>& lengths) {
  const int64_t tokens = int64_t(ids.size());
  return name_lists(names, ids.data(), tokens, layout_of_lengths(lengths.data(), int64_t(lengths.size()), tokens));
}

// The labels of a compiled corpus.
nb::object best_of_dataset(const Labeller& labeller, const Dataset& data, const ReadyWeights& weights) {
  if (weights.table.labels() != labeller.labels()) throw nb::value_error("weights of other labels than the chain has");
  const int64_t cost = data.tokens() ? labeller.labels() * int64_t(data.attributes.size()) / data.tokens() : 0;
  return labeller.best(data.offsets, cost, [&](const std::vector<int64_t>&, double* emissions) {
    score_dataset(data, weights.table, emissions);
  });
}

}  // namespace

nb::list name_lists(const nb::list& names, const int64_t* ids, int64_t rows, const Layout& layout) {
  std::vector<PyObject*> objects;
  for (const nb::handle name : names) objects.push_back(name.ptr());
  nb::object lists = nb::steal(PyList_New(Py_ssize_t(layout.sequences())));
  if (!lists.is_valid()) throw nb::python_error();
  for (int64_t b = 0; b < layout.sequences(); ++b) {
    const int64_t first = layout.offsets[size_t(b)], length = layout.offsets[size_t(b) + 1] - first;
    PyObject* own = PyList_New(Py_ssize_t(length));
    if (!own) throw nb::python_error();
    NB_LIST_SET_ITEM(lists.ptr(), Py_ssize_t(b), own);
    for (int64_t t = 0; t < length; ++t) {
      const int64_t row = layout.rows.empty() ? first + t : layout.rows[size_t(first + t)];
      if (row >= rows || ids[row] < 0 || size_t(ids[row]) >= objects.size()) throw nb::index_error("a label has no name");
      PyObject* name = objects[size_t(ids[row])];
      Py_INCREF(name);
      NB_LIST_SET_ITEM(own, Py_ssize_t(t), name);
    }
  }
  return nb::borrow<nb::list>(lists);
}

void bind_labels(nb::module_& m) {
  nb::class_<Labeller>(m, "Labeller")
      .def(nb::init<nb::list, Labeller::Numbers, Labeller::Numbers, Labeller::Numbers>())
      .def("best", &best_of_dataset);
  m.def("number_strings", &number_strings);
  m.def("count_steps", &count_steps);
  m.def("name_numbers", &name_numbers);
}

}  // namespace trellis::bind

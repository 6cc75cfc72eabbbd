// Tokens of raw text, and where they are in it.
#include "bind/python.h"
#include "text/words.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace nb = nanobind;

namespace trellis::bind {

using namespace text;

namespace {

// known[chunk], or what `pieces` finds, which may remember it there.
nb::object pieces_of(const nb::object& chunk, const nb::dict& known, const nb::callable& pieces) {
  PyObject* found = PyDict_GetItemWithError(known.ptr(), chunk.ptr());
  if (PyErr_Occurred()) throw nb::python_error();
  return found ? nb::borrow(found) : pieces(chunk);
}

// The tokens of the text; None if it has no UTF-8 (lone surrogates).
nb::object split_words(const EasyWords& words, nb::str text, const nb::dict& known, const nb::callable& pieces) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!bytes) return PyErr_Clear(), nb::none();
  const std::string_view all(bytes, size_t(size));
  nb::list tokens;
  for (size_t at = 0; at < all.size();) {
    const std::string_view chunk = next_chunk(all, at, words.quotes_apart());
    if (chunk.empty()) break;
    at = size_t(chunk.data() - all.data()) + chunk.size();
    const size_t first = words.first_token(chunk);
    if (!first) {
      tokens.extend(pieces_of(new_string(chunk), known, pieces));
      continue;
    }
    tokens.append(new_string(chunk.substr(0, first)));
    if (first < chunk.size()) tokens.append(new_string(chunk.substr(first)));
  }
  return tokens;
}

// (start, end) of each token, searched for one after another.
nb::object find_tokens(nb::str text, nb::handle tokens) {
  const Items items(tokens.ptr(), "tokens must be a sequence");
  if (!items.is_valid()) throw nb::python_error();
  const Py_ssize_t count = items.size(), length = PyUnicode_GetLength(text.ptr());
  nb::object found = nb::steal(PyTuple_New(count));
  if (!found.is_valid()) throw nb::python_error();
  Py_ssize_t end = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* token = items[i];
    if (!PyUnicode_Check(token)) throw nb::type_error("tokens must be strings");
    const Py_ssize_t start = PyUnicode_Find(text.ptr(), token, end, length, 1);
    if (start == -2) throw nb::python_error();
    if (start == -1) throw nb::value_error("a token is not in its text");
    end = start + PyUnicode_GetLength(token);
    NB_TUPLE_SET_ITEM(found.ptr(), i, nb::make_tuple(start, end).release().ptr());
  }
  return found;
}

// Texts one after another, as Arrow has them.
struct PackedTexts {
  std::vector<uint8_t> bytes;
  std::vector<int32_t> offsets{0};

  void add(std::string_view text) {
    if (bytes.size() + text.size() > size_t(INT32_MAX)) throw nb::value_error("texts of more than 2147483647 bytes in one array");
    bytes.insert(bytes.end(), text.begin(), text.end());
    offsets.push_back(int32_t(bytes.size()));
  }
};

std::string_view utf8_of(PyObject* text) {
  if (!PyUnicode_Check(text)) throw nb::type_error("texts must be strings");
  Py_ssize_t size = 0;
  const char* own = PyUnicode_AsUTF8AndSize(text, &size);
  if (!own) throw nb::python_error();
  return {own, size_t(size)};
}

// The bytes of all texts, where each begins and the last ends, and whether all are there: None is an empty one.
nb::tuple pack_texts(nb::handle texts) {
  const Items items(texts.ptr(), "texts must be a sequence");
  if (!items.is_valid()) throw nb::python_error();
  PackedTexts packed;
  packed.offsets.reserve(size_t(items.size()) + 1);
  bool all = true;
  for (Py_ssize_t i = 0; i < items.size(); ++i) {
    const bool is_there = items[i] != Py_None;
    packed.add(is_there ? utf8_of(items[i]) : std::string_view());
    all &= is_there;
  }
  return nb::make_tuple(to_numpy(std::move(packed.bytes)), to_numpy(std::move(packed.offsets)), all);
}

// The same for names[id] of each id.
nb::tuple pack_names(nb::handle names, const Array<const int64_t>& ids) {
  const Items items(names.ptr(), "names must be a sequence");
  if (!items.is_valid()) throw nb::python_error();
  std::vector<std::string_view> views;
  for (Py_ssize_t i = 0; i < items.size(); ++i) views.push_back(utf8_of(items[i]));
  PackedTexts packed;
  packed.offsets.reserve(ids.size() + 1);
  for (size_t n = 0; n < ids.size(); ++n) {
    const int64_t id = ids.data()[n];
    if (id < 0 || size_t(id) >= views.size()) throw nb::index_error("there is no such name");
    packed.add(views[size_t(id)]);
  }
  return nb::make_tuple(to_numpy(std::move(packed.bytes)), to_numpy(std::move(packed.offsets)), true);
}

}  // namespace

void bind_text(nb::module_& m) {
  nb::class_<EasyWords>(m, "EasyWords")
      .def(nb::init<>())
      .def("exclude", [](EasyWords& self, nb::bytes word) { self.exclude({word.c_str(), word.size()}); })
      .def("split", &split_words);
  m.def("find_tokens", &find_tokens);
  m.def("pack_texts", &pack_texts);
  m.def("pack_names", &pack_names);
}

}  // namespace trellis::bind

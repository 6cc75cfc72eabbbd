// Tokens of raw text, and where they are in it.
#include "bind/items.h"
#include "bind/module.h"
#include "text/words.h"

#include <string_view>

namespace nb = nanobind;

namespace trellis {
namespace {

nb::object new_string(std::string_view text) {
  nb::object made = nb::steal(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), nullptr));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

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

}  // namespace

void bind_text(nb::module_& m) {
  nb::class_<EasyWords>(m, "EasyWords")
      .def(nb::init<>())
      .def("exclude", [](EasyWords& self, nb::bytes word) { self.exclude({word.c_str(), word.size()}); })
      .def("split", &split_words);
  m.def("find_tokens", &find_tokens);
}

}  // namespace trellis

// From columns of strings to numbered cells.
#include "bind/reading.h"
#include "bind/refusing.h"
#include "bind/texts.h"

#include <algorithm>

namespace nb = nanobind;

namespace trellis {
namespace {

// The number of a cell's string. Strings of one character are found by it.
int32_t number_of(PyObject* cell, Column& column, std::string& spare) {
  const int64_t code = one_character(cell);
  if (code < 0) return int32_t(column.values.add(text_of(cell, spare)));
  int32_t number = column.characters.find(uint32_t(code));
  if (number < 0) {
    number = int32_t(column.values.add(text_of(cell, spare)));
    column.characters.add(uint32_t(code), number);
  }
  return number;
}

std::string named(Py_ssize_t sentence) { return "sentence " + std::to_string(sentence); }

// Its items; names are made only for messages.
Items sentence_of(PyObject* sentence, Py_ssize_t number) {
  if (is_text(sentence)) refuse(named(number) + " must be a sequence of strings, got one string");
  if (PyList_Check(sentence) || PyTuple_Check(sentence)) return Items(sentence);
  return items_of(sentence, named(number) + " must be a sequence of strings");
}

}  // namespace

void read_column(nb::handle sentences, const char* what, std::vector<int64_t>& offsets, Column& column) {
  constexpr Py_ssize_t ahead = 8;  // strings are fetched this many steps before they are read
  const Items outer = items_of(sentences.ptr(), "sentences must be a sequence");
  const bool first = offsets.empty();
  if (first) offsets.push_back(0);
  std::string spare;
  for (Py_ssize_t b = 0; b < outer.size(); ++b) {
    fetch_sentences(outer, b);
    const nb::object sentence = outer.owned(b);
    const Items inner = sentence_of(sentence.ptr(), b);
    const Py_ssize_t length = inner.size();
    for (Py_ssize_t t = 0; t < std::min(ahead, length); ++t) __builtin_prefetch(inner[t]);
    for (Py_ssize_t t = 0; t < length; ++t) {
      if (t + ahead < length) __builtin_prefetch(inner[t + ahead]);
      PyObject* cell = inner[t];
      if (!PyUnicode_Check(cell))
        refuse({b, t}, std::string(what) + " must be a string, got " + type_name(cell));
      column.cells.push_back(number_of(cell, column, spare));
    }
    if (first) {
      offsets.push_back(int64_t(column.cells.size()));
    } else if (offsets[size_t(b) + 1] != int64_t(column.cells.size())) {
      const int64_t tokens = offsets[size_t(b) + 1] - offsets[size_t(b)];
      refuse(named(b) + " has " + std::to_string(tokens) + " tokens and " + std::to_string(length) + " values of " + what);
    }
  }
}

}  // namespace trellis

// From columns of strings to numbered cells.
#include "bind/python.h"
#include "bind/reading.h"

namespace nb = nanobind;

namespace trellis::bind {
namespace {

constexpr Py_ssize_t sentences_ahead = 8, strings_ahead = 24;

std::string named(Py_ssize_t sentence) { return "sentence " + std::to_string(sentence); }

// Its items; names are made only for messages.
Items sentence_of(PyObject* sentence, Py_ssize_t number) {
  if (is_text(sentence)) refuse(named(number) + " must be a sequence of strings, got one string");
  if (PyList_Check(sentence) || PyTuple_Check(sentence)) return Items(sentence);
  return items_of(sentence, named(number) + " must be a sequence of strings");
}

// take(cell) for each string of a column. Fills offsets if they are empty; if they are not, the lengths must agree with
// them.
template <typename Take>
void for_cells(nb::handle sentences, const char* what, std::vector<int64_t>& offsets, Take take) {
  const Items outer = items_of(sentences.ptr(), "sentences must be a sequence");
  const bool first = offsets.empty();
  if (first) offsets.push_back(0);
  int64_t tokens = 0;
  for (Py_ssize_t b = 0; b < outer.size(); ++b) {
    if (b + sentences_ahead < outer.size()) fetch_object(outer[b + sentences_ahead]);
    const nb::object sentence = outer.owned(b);
    const Items inner = sentence_of(sentence.ptr(), b);
    const Py_ssize_t length = inner.size();
    for (Py_ssize_t t = 0; t < length; ++t) {
      if (t + strings_ahead < length) fetch_object(inner[t + strings_ahead]);
      PyObject* cell = inner[t];
      if (!PyUnicode_Check(cell))
        refuse({b, t}, std::string(what) + " must be a string, got " + type_name(cell));
      take(cell);
    }
    tokens += length;
    if (first) {
      offsets.push_back(tokens);
    } else if (offsets[size_t(b) + 1] != tokens) {
      const int64_t expected = offsets[size_t(b) + 1] - offsets[size_t(b)];
      refuse(named(b) + " has " + std::to_string(expected) + " tokens and " + std::to_string(length) + " values of " + what);
    }
  }
}

// A string of one character is not asked for its UTF-8, of which it would keep a copy.
template <typename To>
void add_cell(PyObject* cell, std::string& spare, To& to) {
  const int64_t code = one_character(cell);
  code < 0 ? to.add(text_of(cell, spare)) : to.add_character(uint32_t(code));
}

}  // namespace

void read_column(nb::handle sentences, const char* what, std::vector<int64_t>& offsets, Column& column) {
  std::string spare;
  for_cells(sentences, what, offsets, [&](PyObject* cell) { add_cell(cell, spare, column); });
}

void copy_column(nb::handle sentences, const char* what, std::vector<int64_t>& offsets, TokenBuffer& tokens) {
  std::string spare;
  for_cells(sentences, what, offsets, [&](PyObject* cell) { add_cell(cell, spare, tokens); });
}

}  // namespace trellis::bind

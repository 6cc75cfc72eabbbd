// The items of a Python sequence, by what the limited API has: one binary serves every Python from 3.12 on.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <utility>

namespace trellis {

// The list or tuple that PySequence_Fast gives; not valid, with Python's error set, if the object is no sequence.
class Items {
 public:
  explicit Items(PyObject* sequence, const char* otherwise = "")
      : own_(nanobind::steal(PySequence_Fast(sequence, otherwise))),
        is_list_(own_.is_valid() && PyList_Check(own_.ptr())) {}

  bool is_valid() const { return own_.is_valid(); }
  // Of a list, what it is now: Python code that runs on the way may change it.
  Py_ssize_t size() const { return is_list_ ? NB_LIST_GET_SIZE(own_.ptr()) : NB_TUPLE_GET_SIZE(own_.ptr()); }
  // Borrowed.
  PyObject* operator[](Py_ssize_t i) const {
    return is_list_ ? NB_LIST_GET_ITEM(own_.ptr(), i) : NB_TUPLE_GET_ITEM(own_.ptr(), i);
  }
  // Kept alive, for when Python code may take it out of the list.
  nanobind::object owned(Py_ssize_t i) const { return nanobind::borrow((*this)[i]); }

 private:
  nanobind::object own_;
  bool is_list_;
};

// Brings near a string: it mostly lies in two cache lines, the text in the second.
inline void fetch_string(const PyObject* text) {
  __builtin_prefetch(text);
  __builtin_prefetch(reinterpret_cast<const char*>(text) + 48);
}

constexpr Py_ssize_t items_ahead = 24;

// The first strings of a sentence, if it is a list.
inline void fetch_strings([[maybe_unused]] PyObject* sentence) {
#if !defined(Py_LIMITED_API)
  if (!PyList_Check(sentence)) return;
  const Py_ssize_t count = std::min(items_ahead, PyList_GET_SIZE(sentence));
  for (Py_ssize_t t = 0; t < count; ++t) fetch_string(PyList_GET_ITEM(sentence, t));
#endif
}

// While sentence b of a list of lists is read: brings near the items of later ones.
inline void fetch_sentences([[maybe_unused]] const Items& outer, [[maybe_unused]] Py_ssize_t b) {
#if !defined(Py_LIMITED_API)
  constexpr Py_ssize_t far = 16, near = 8;
  if (b + far >= outer.size()) return;
  __builtin_prefetch(outer[b + far]);
  if (PyList_Check(outer[b + near])) __builtin_prefetch(reinterpret_cast<PyListObject*>(outer[b + near])->ob_item);
#endif
}

}  // namespace trellis

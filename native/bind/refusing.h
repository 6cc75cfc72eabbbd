// What is said about Python objects that are not what they should be.
#pragma once

#include "bind/items.h"

#include <cstdint>
#include <string>

namespace trellis {

struct Place {
  int64_t sentence, position;
};

// Feature names may be any bytes, which PyErr_SetString would not take.
[[noreturn]] inline void refuse(const std::string& problem) {
  const nanobind::object message =
      nanobind::steal(PyUnicode_DecodeUTF8(problem.data(), Py_ssize_t(problem.size()), "backslashreplace"));
  if (message.is_valid()) PyErr_SetObject(PyExc_ValueError, message.ptr());
  throw nanobind::python_error();
}

[[noreturn]] inline void refuse(const Place& place, const std::string& problem) {
  const std::string where = "sentence " + std::to_string(place.sentence) + ", position " + std::to_string(place.position);
  refuse(where + ": " + problem);
}

// The error that the caller's Python code raised, unless it says that an object is not what it should be.
inline void pass_on_others() {
  if (!PyErr_Occurred()) return;
  for (PyObject* kind : {PyExc_TypeError, PyExc_ValueError, PyExc_OverflowError}) {
    if (PyErr_ExceptionMatches(kind)) return PyErr_Clear();
  }
  throw nanobind::python_error();
}

inline std::string type_name(PyObject* object) {
  const nanobind::object name = nanobind::steal(PyType_GetName(Py_TYPE(object)));
  if (!name.is_valid()) throw nanobind::python_error();
  return nanobind::borrow<nanobind::str>(name).c_str();
}

inline Items items_of(PyObject* object, const std::string& otherwise) {
  Items items(object);
  if (items.is_valid()) return items;
  pass_on_others();
  refuse(otherwise + ", got " + type_name(object));
}

}  // namespace trellis

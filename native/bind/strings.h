// Python strings from UTF-8.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

namespace trellis {

inline nanobind::object new_string(std::string_view text) {
  nanobind::object made = nanobind::steal(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), nullptr));
  if (!made.is_valid()) throw nanobind::python_error();
  return made;
}

}  // namespace trellis

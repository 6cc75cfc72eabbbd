// The bytes of Python's strings.
#pragma once

#include "features/templates.h"

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace trellis {

inline bool is_text(PyObject* object) { return PyUnicode_Check(object) || PyBytes_Check(object); }

inline std::string_view bytes_of(PyObject* bytes) { return {PyBytes_AsString(bytes), size_t(PyBytes_Size(bytes))}; }

// The bytes of a str (lone surrogates pass) or bytes object; `spare` holds them if the object does not.
inline std::string_view text_of(PyObject* object, std::string& spare) {
  if (PyBytes_Check(object)) return bytes_of(object);
#if !defined(Py_LIMITED_API)
  if (PyUnicode_IS_COMPACT_ASCII(object))
    return {static_cast<const char*>(PyUnicode_DATA(object)), size_t(PyUnicode_GET_LENGTH(object))};
#endif
  Py_ssize_t size = 0;
  if (const char* text = PyUnicode_AsUTF8AndSize(object, &size)) return {text, size_t(size)};
  PyErr_Clear();
  const nanobind::object encoded = nanobind::steal(PyUnicode_AsEncodedString(object, "utf-8", "surrogatepass"));
  if (!encoded.is_valid()) throw nanobind::python_error();
  return spare = bytes_of(encoded.ptr());
}

// The code point of a str of one character, else -1.
inline int64_t one_character(PyObject* text) {
#if !defined(Py_LIMITED_API)
  return PyUnicode_IS_READY(text) && PyUnicode_GET_LENGTH(text) == 1 ? int64_t(PyUnicode_READ_CHAR(text, 0)) : -1;
#else
  return PyUnicode_GetLength(text) == 1 ? int64_t(PyUnicode_ReadChar(text, 0)) : -1;
#endif
}

#if !defined(Py_LIMITED_API)
// Nearly all strings are str itself and ASCII: that is seen, and their bytes are found, without looking at the type.
inline bool is_plain(PyObject* object) { return PyUnicode_CheckExact(object) && PyUnicode_IS_COMPACT_ASCII(object); }
inline std::string_view plain_text(PyObject* text) {
  return {static_cast<const char*>(PyUnicode_DATA(text)), size_t(PyUnicode_GET_LENGTH(text))};
}
#else
inline bool is_plain(PyObject*) { return false; }
inline std::string_view plain_text(PyObject*) { return {}; }
#endif

// What text_of gives, by reading memory only, so that threads may do it while another one holds the interpreter lock for them. The
// limited API has no way to do that: there is no reading by several threads with it.
#if !defined(Py_LIMITED_API)
constexpr bool threads_read = true;
// Strings made by very old extensions are not, before Python has looked at them.
inline bool is_readable(PyObject* text) { return !PyUnicode_Check(text) || PyUnicode_IS_READY(text); }
inline std::string_view read_text(PyObject* object, std::string& spare) {
  if (is_plain(object)) return plain_text(object);
  if (PyBytes_Check(object) || PyUnicode_IS_COMPACT_ASCII(object)) return text_of(object, spare);
  const int kind = PyUnicode_KIND(object);
  const void* data = PyUnicode_DATA(object);
  spare.clear();
  for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(object); ++i) append_character(spare, PyUnicode_READ(kind, data, i));
  return spare;
}
#else
constexpr bool threads_read = false;
inline bool is_readable(PyObject*) { return true; }
inline std::string_view read_text(PyObject* object, std::string& spare) { return text_of(object, spare); }
#endif

}  // namespace trellis

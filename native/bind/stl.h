// Strings, vectors, maps and shared pointers as arguments. nanobind converts them in functions that may not throw, where memory that runs
// out would end the process; here it is noted, and thrown when the function is called.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/detail/nb_dict.h>
#include <nanobind/stl/detail/nb_list.h>

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nanobind::detail {

// The conversion operators of a caster whose `value` may not have been made.
#define TRELLIS_MAY_BE_FULL(...)                                     \
  bool full = false;                                                 \
  __VA_ARGS__& made() {                                              \
    if (full) throw std::bad_alloc();                                \
    return this->value;                                              \
  }                                                                  \
  explicit operator __VA_ARGS__*() { return &made(); }               \
  explicit operator __VA_ARGS__&() { return made(); }                \
  explicit operator __VA_ARGS__&&() { return std::move(made()); }    \
  template <typename F>                                              \
  bool make(F f) noexcept {                                          \
    try {                                                            \
      return f();                                                    \
    } catch (const std::bad_alloc&) {                                \
      return full = true;                                            \
    }                                                                \
  }

struct string_value {
  NB_TYPE_CASTER(std::string, const_name("str"))

  static handle from_cpp(const std::string& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_FromStringAndSize(text.c_str(), Py_ssize_t(text.size()));
  }
};

template <>
struct type_caster<std::string> : string_value {
  TRELLIS_MAY_BE_FULL(std::string)

  template <typename Flags>
  bool from_python(handle src, Flags, cleanup_list*) noexcept {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_Check(src.ptr()) ? PyUnicode_AsUTF8AndSize(src.ptr(), &size) : nullptr;
    if (!text) return PyErr_Clear(), false;
    return make([&] { return this->value.assign(text, size_t(size)), true; });
  }
};

template <typename T>
struct type_caster<std::vector<T>> : list_caster<std::vector<T>, T> {
  TRELLIS_MAY_BE_FULL(std::vector<T>)

  template <typename Flags>
  bool from_python(handle src, Flags flags, cleanup_list* cleanup) noexcept {
    const object items = steal(PyBytes_Check(src.ptr()) || PyUnicode_Check(src.ptr())
                                   ? nullptr
                                   : PySequence_Fast(src.ptr(), "expected a sequence"));
    if (!items.is_valid()) return PyErr_Clear(), false;
    return make([&] {
      const Py_ssize_t size = PySequence_Size(items.ptr());
      this->value.reserve(size_t(size));
      for (Py_ssize_t i = 0; i < size; ++i) {
        const object item = steal(PySequence_GetItem(items.ptr(), i));
        make_caster<T> one;
        if (!item.is_valid()) return PyErr_Clear(), false;
        if (!one.from_python(item, flags_for_local_caster<T>(flags), cleanup) || !one.template can_cast<T>())
          return false;
        this->value.push_back(one.operator cast_t<T>());
      }
      return true;
    });
  }
};

template <typename K, typename V>
struct type_caster<std::unordered_map<K, V>> : dict_caster<std::unordered_map<K, V>, K, V> {
  TRELLIS_MAY_BE_FULL(std::unordered_map<K, V>)

  template <typename Flags>
  bool from_python(handle src, Flags flags, cleanup_list* cleanup) noexcept {
    if (!PyDict_Check(src.ptr())) return false;
    return make([&] {
      PyObject *key, *item;
      for (Py_ssize_t at = 0; PyDict_Next(src.ptr(), &at, &key, &item);) {
        make_caster<K> first;
        make_caster<V> second;
        if (!first.from_python(key, flags_for_local_caster<K>(flags), cleanup) || !first.template can_cast<K>() ||
            !second.from_python(item, flags_for_local_caster<V>(flags), cleanup) || !second.template can_cast<V>())
          return false;
        this->value.emplace(first.operator cast_t<K>(), second.operator cast_t<V>());
      }
      return true;
    });
  }
};

#undef TRELLIS_MAY_BE_FULL

// What a Python object holds, which lives as long as it is used. To Python, give new objects by pointer.
template <typename T>
struct type_caster<std::shared_ptr<T>> {
  static constexpr auto Name = make_caster<T>::Name;
  template <typename T_>
  using Cast = std::shared_ptr<T>;
  template <typename T_>
  static constexpr bool can_cast() {
    return true;
  }

  template <typename Flags>
  bool from_python(handle src, Flags flags, cleanup_list* cleanup) noexcept {
    make_caster<T> held;
    if (!held.from_python(src, flags, cleanup)) return false;
    owner = src, data = held.operator T*();
    return data != nullptr;
  }
  explicit operator std::shared_ptr<T>() {
    const auto release = [owner = owner.inc_ref()](T*) noexcept {
      const gil_scoped_acquire lock;
      owner.dec_ref();
    };
    return std::shared_ptr<T>(data, release);
  }

  handle owner;
  T* data = nullptr;
};

}  // namespace nanobind::detail

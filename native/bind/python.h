// What bindings are given by Python, and what they give back: arrays, addresses of torch's tensors, sequences, strings,
// errors. Only what the limited API of Python 3.12 has is used, so that every Python runs the same code.
#pragma once

#include "base/threads.h"
#include "chain/outcome.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace trellis::bind {

using namespace chain;

// A contiguous array on the CPU; further demands as those of nanobind's arrays. Its numbers must lie where the compiler
// may assume that such numbers lie. trellis.arrays copies what does not; what slips through is refused here, since
// kernels would read it with undefined behaviour.
template <typename T, typename... More>
struct Array : nanobind::ndarray<T, More..., nanobind::c_contig, nanobind::device::cpu> {
  using Base = nanobind::ndarray<T, More..., nanobind::c_contig, nanobind::device::cpu>;
  Array() = default;
  explicit Array(Base base) : Base(std::move(base)) {}
};

// Arrays of saved models: of one dimension, and, with `unconverted`, never converted, since conversion takes -1 for
// 65535.
template <typename T>
using Flat = Array<T, nanobind::ndim<1>>;
inline auto unconverted() { return nanobind::arg().noconvert(); }

inline bool is_aligned(size_t address, size_t size) { return address % size == 0; }

// The address of a tensor; 0 is null.
template <typename T>
T* at(size_t address) {
  if (!is_aligned(address, alignof(T))) throw nanobind::value_error("a tensor is not aligned to the size of its numbers");
  return reinterpret_cast<T*>(address);
}

}  // namespace trellis::bind

namespace nanobind::detail {

template <typename T, typename... More>
struct type_caster<trellis::bind::Array<T, More...>> {
  using Own = trellis::bind::Array<T, More...>;
  using Base = make_caster<typename Own::Base>;
  NB_TYPE_CASTER(Own, Base::Name)

  template <typename Flags>
  bool from_python(handle src, Flags flags, cleanup_list* cleanup) noexcept {
    Base base;
    if (!base.from_python(src, flags, cleanup)) return false;
    value = Own(base.operator cast_t<typename Own::Base&&>());
    return trellis::bind::is_aligned(reinterpret_cast<size_t>(value.data()), alignof(T));
  }

  static handle from_cpp(const Own& array, rv_policy policy, cleanup_list* cleanup) noexcept {
    return Base::from_cpp(array, policy, cleanup);
  }
};

}  // namespace nanobind::detail

namespace trellis::bind {

// It must be what is wanted as it comes: a converted copy would be gone before it is used.
template <typename T>
Array<T> array_of(nanobind::handle array) {
  Array<T> found;
  if (!nanobind::try_cast(array, found, false))
    throw nanobind::type_error("an array is not of the type and order that it must have, or is not aligned");
  return found;
}

// Where an array's numbers are.
template <typename T>
T* data_of(nanobind::handle array) {
  return array_of<T>(array).data();
}

// An array, or the address of one as an int, or 0 for null.
template <typename T>
T* pointer(nanobind::handle array) {
  if (PyLong_Check(array.ptr())) return at<T>(PyLong_AsSize_t(array.ptr()));
  return data_of<T>(array);
}

// A NumPy array that owns these numbers.
template <typename T>
nanobind::ndarray<nanobind::numpy, T> to_numpy(std::vector<T> values) {
  auto* data = new std::vector<T>(std::move(values));
  nanobind::capsule owner(data, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nanobind::ndarray<nanobind::numpy, T>(data->data(), {data->size()}, owner);
}

template <typename T>
nanobind::ndarray<nanobind::numpy, T> copy_of(const T* from, size_t count) {
  return to_numpy(std::vector<T>(from, from + count));
}

// One Python function out of one for float and one for double: the first argument tells whether it is double.
template <typename Result, typename... Args>
auto by_type(Result (*single_precision)(Args...), Result (*double_precision)(Args...)) {
  return [=](bool doubles, Args... args) { return (doubles ? double_precision : single_precision)(args...); };
}

// What f gives, run without the interpreter lock.
template <typename F>
auto released(F f) {
  nanobind::gil_scoped_release release;
  return f();
}

// (status, sequence) of the first problem
using Report = std::pair<int, int64_t>;

// Runs f without the interpreter lock, unless it is over sooner than another thread could have taken the lock and given
// it back. `work` counts additions or multiplications, roughly.
template <typename F>
void without_lock(int64_t work, F f) {
  constexpr int64_t little = 1 << 17;  // some ten microseconds
  if (work <= little) return f();
  nanobind::gil_scoped_release release;
  f();
}

template <typename F>
Report unlocked(int64_t work, F f) {
  Outcome outcome;
  without_lock(work, [&] { outcome = f(); });
  return {outcome.status, outcome.sequence};
}

// For questions that may take long: Ctrl-C stops them.
template <typename F>
Report unlocked(F f) {
  nanobind::gil_scoped_release release;
  const Stoppable stoppable;
  const Outcome outcome = f();
  return {outcome.status, outcome.sequence};
}

// What Python gives for a parameter: an array or its address for a pointer, the number itself for a number.
template <typename T>
struct Argument {
  using Type = T;
  static T value(T number) { return number; }
};
template <typename T>
struct Argument<T*> {
  using Type = nanobind::handle;
  static T* value(nanobind::handle array) { return pointer<T>(array); }
};

// A method, or a function of an object, that gives an Outcome, for Python; see `unlocked` and `pointer`. work(self) says how
// much there is to do, or it may take long.
struct Long {};
template <typename F, typename Self, typename... Parameters, typename Work = Long>
auto unlocked_function(F f, Outcome (F::*)(Self&, Parameters...) const, Work work = {}) {
  return [=](Self& self, typename Argument<Parameters>::Type... given) {
    const auto call = [&](Parameters... values) {
      const auto run = [&] { return f(self, values...); };
      if constexpr (std::is_same_v<Work, Long>) return unlocked(run);
      else return unlocked(work(self), run);
    };
    return call(Argument<Parameters>::value(given)...);
  };
}
template <typename F, typename Work = Long>
auto unlocked_function(F f, Work work = {}) {
  return unlocked_function(f, &F::operator(), work);
}
template <typename Self, typename... Parameters>
auto unlocked_method(Outcome (Self::*method)(Parameters...)) {
  return unlocked_function([method](Self& self, Parameters... values) { return (self.*method)(values...); });
}

// The items of the list or tuple that PySequence_Fast gives; not valid, with Python's error set, if the object is no
// sequence.
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

// The items of a sequence; a TypeError that says `otherwise` if it is none.
inline Items sequence_items(nanobind::handle sequence, const char* otherwise) {
  Items items(sequence.ptr(), otherwise);
  if (!items.is_valid()) throw nanobind::python_error();
  return items;
}

// Brings near an object that is read once: its type, and if it is a string its text, which often lies in the next cache
// line.
inline void fetch_object(const PyObject* object) {
  __builtin_prefetch(object, 0, 0);
  __builtin_prefetch(reinterpret_cast<const char*>(object) + 48, 0, 0);
}

inline bool is_text(PyObject* object) {
  return PyUnicode_CheckExact(object) || PyUnicode_Check(object) || PyBytes_Check(object);
}

inline std::string_view bytes_of(PyObject* bytes) { return {PyBytes_AsString(bytes), size_t(PyBytes_Size(bytes))}; }

// The bytes of a str (lone surrogates pass) or bytes object; `spare` holds them if the object does not. Runs no Python
// code.
inline std::string_view text_of(PyObject* object, std::string& spare) {
  if (!PyUnicode_CheckExact(object) && PyBytes_Check(object)) return bytes_of(object);
  Py_ssize_t size = 0;
  if (const char* text = PyUnicode_AsUTF8AndSize(object, &size)) return {text, size_t(size)};
  PyErr_Clear();
  const nanobind::object encoded = nanobind::steal(PyUnicode_AsEncodedString(object, "utf-8", "surrogatepass"));
  if (!encoded.is_valid()) throw nanobind::python_error();
  return spare = bytes_of(encoded.ptr());
}

// The code point of a str of one character, else -1.
inline int64_t one_character(PyObject* text) {
  return PyUnicode_GetLength(text) == 1 ? int64_t(PyUnicode_ReadChar(text, 0)) : -1;
}

// A string from UTF-8.
inline nanobind::object new_string(std::string_view text) {
  nanobind::object made = nanobind::steal(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), nullptr));
  if (!made.is_valid()) throw nanobind::python_error();
  return made;
}

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

// What each file of this folder adds to the Python module.
void bind_crfsuite(nanobind::module_& m);
void bind_dataset(nanobind::module_& m);
void bind_expectation(nanobind::module_& m);
void bind_inference(nanobind::module_& m);
void bind_labels(nanobind::module_& m);
void bind_layers(nanobind::module_& m);
void bind_objective(nanobind::module_& m);
void bind_optimizers(nanobind::module_& m);
void bind_segments(nanobind::module_& m);
void bind_text(nanobind::module_& m);
void bind_token_scorer(nanobind::module_& m);

}  // namespace trellis::bind

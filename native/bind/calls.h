// What the bindings of inference share: arguments that are arrays or addresses, and reports.
#pragma once

#include "bind/array.h"
#include "chain/outcome.h"

#include <nanobind/stl/pair.h>

#include <utility>

namespace trellis {

// An array, or the address of one as an int, or 0 for null.
template <typename T>
T* pointer(nanobind::handle array) {
  if (PyLong_Check(array.ptr())) return at<T>(PyLong_AsSize_t(array.ptr()));
  return data_of<T>(array);
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

template <typename F>
Report unlocked(F f) {
  nanobind::gil_scoped_release release;
  const Outcome outcome = f();
  return {outcome.status, outcome.sequence};
}

}  // namespace trellis

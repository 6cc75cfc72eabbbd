#include "layers/spelling.h"

#include "bind/array.h"
#include "bind/by_type.h"
#include "base/instruction_set.h"

#include <algorithm>
#include <cstring>

namespace nb = nanobind;

namespace trellis {
namespace {

template <typename R>
const SpellingKernels<R>& spelling_kernels() {
  return TRELLIS_BEST(spelling_kernels<R>);
}

// Addresses are torch's.
template <typename R>
Spelling<R> spelling(size_t words, int64_t W, int64_t C, size_t table, int64_t width, int64_t characters, int64_t F) {
  return {at<const int64_t>(words), W, C, at<R>(table), width, characters, F};
}

// False where a word has an id that is not in the table; nothing is computed then.
template <typename R>
bool forward(size_t words, int64_t W, int64_t C, size_t table, int64_t width, int64_t characters, int64_t F,
             size_t largest, size_t places) {
  nb::gil_scoped_release release;
  const Spelling<R> in = spelling<R>(words, W, C, table, width, characters, F);
  const auto known = [&](int64_t id) { return id >= 0 && id < characters; };
  if (!std::all_of(in.words, in.words + W * C, known)) return false;
  spelling_kernels<R>().find(in, at<R>(largest), at<int32_t>(places));
  return true;
}

template <typename R>
void backward(size_t words, int64_t W, int64_t C, size_t table, int64_t width, int64_t characters, int64_t F,
              size_t gradient, size_t places) {
  nb::gil_scoped_release release;
  spelling_kernels<R>().add(spelling<R>(words, W, C, table, width, characters, F),
                            at<const R>(gradient), at<const int32_t>(places));
}

}  // namespace

void bind_spelling(nb::module_& m) {
  m.def("spelling_forward", by_type(&forward<float>, &forward<double>));
  m.def("spelling_backward", by_type(&backward<float>, &backward<double>));
}

}  // namespace trellis

#include "layers/spelling.h"

#include "bind/array.h"
#include "bind/by_type.h"
#include "bind/module.h"

namespace nb = nanobind;

namespace trellis {
namespace {

// Addresses are torch's.
template <typename R>
Spelling<R> spelling(size_t words, int64_t W, int64_t C, size_t table, int64_t width, int64_t characters, int64_t F) {
  return {at<const int64_t>(words), W, C, at<R>(table), width, characters, F};
}

template <typename R>
bool forward(size_t words, int64_t W, int64_t C, size_t table, int64_t width, int64_t characters, int64_t F,
             size_t largest, size_t places) {
  nb::gil_scoped_release release;
  const Spelling<R> in = spelling<R>(words, W, C, table, width, characters, F);
  return spelling_forward(in, at<R>(largest), at<int32_t>(places));
}

template <typename R>
void backward(size_t words, int64_t W, int64_t C, size_t table, int64_t width, int64_t characters, int64_t F,
              size_t gradient, size_t places) {
  nb::gil_scoped_release release;
  spelling_backward(spelling<R>(words, W, C, table, width, characters, F), at<const R>(gradient),
                    at<const int32_t>(places));
}

}  // namespace

void bind_spelling(nb::module_& m) {
  m.def("spelling_forward", by_type(&forward<float>, &forward<double>));
  m.def("spelling_backward", by_type(&backward<float>, &backward<double>));
}

}  // namespace trellis

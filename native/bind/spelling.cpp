#include "layers/spelling.h"

#include "bind/module.h"
#include "bind/python.h"

#include <algorithm>

namespace nb = nanobind;

namespace trellis::bind {

using namespace layers;

namespace {

// Addresses are torch's.
template <typename R>
Spelling<R> spelling(size_t words, int64_t W, int64_t C, size_t table, int64_t width, int64_t characters, int64_t F) {
  return {at<const int64_t>(words), W, C, nullptr, at<R>(table), width, characters, F};
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

// characters[offsets[w] .. offsets[w + 1]) of each word, table[width, characters, F]: to largest[W, F]
bool spell_words(const Array<const int64_t, nb::ndim<1>>& characters, const Array<const int64_t, nb::ndim<1>>& offsets,
                 const Array<const float, nb::ndim<3>>& table, int threads,
                 const Array<float, nb::ndim<2>>& largest) {
  const int64_t W = int64_t(offsets.size()) - 1;
  const int64_t *first = offsets.data(), *last = first + W;
  const bool fits = W >= 0 && *first == 0 && *last == int64_t(characters.size()) && std::is_sorted(first, last + 1) &&
                    int64_t(largest.shape(0)) == W && largest.shape(1) == table.shape(2);
  if (!fits) throw nb::value_error("offsets, characters, table and result do not fit each other");
  // The table is only written by `add`.
  const Spelling<float> in{characters.data(),       W, 0, first, const_cast<float*>(table.data()), int64_t(table.shape(0)),
                           int64_t(table.shape(1)), int64_t(table.shape(2))};
  float* to = largest.data();
  nb::gil_scoped_release release;
  return spell(in, threads, to);
}

}  // namespace

void bind_spelling(nb::module_& m) {
  m.def("spelling_forward", by_type(&forward<float>, &forward<double>));
  m.def("spelling_backward", by_type(&backward<float>, &backward<double>));
  m.def("spell", &spell_words);
}

}  // namespace trellis::bind

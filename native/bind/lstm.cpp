#include "layers/lstm.h"

#include "bind/array.h"
#include "bind/by_type.h"
#include "bind/module.h"

namespace nb = nanobind;

namespace trellis {
namespace {

using Lengths = Array<const int64_t>;

// Addresses are torch's.
template <typename R>
void forward(const Lengths& lengths, int64_t H, int threads, bool keep, size_t weights, size_t gate_rows, size_t gates,
             size_t cells, size_t states) {
  const Recurrence<R> arrays{H,
                             nullptr,
                             8 * H,
                             2 * H,
                             at<const int64_t>(gate_rows),
                             at<R>(gates),
                             at<R>(cells),
                             at<R>(states),
                             nullptr,
                             nullptr,
                             nullptr,
                             keep};
  const Sequences sequences{lengths.data(), int64_t(lengths.size())};
  const R* own = at<const R>(weights);
  nb::gil_scoped_release release;
  lstm_forward(sequences, threads, own, arrays);
}

template <typename R>
void backward(const Lengths& lengths, int64_t H, int threads, size_t weights, size_t gates, size_t cells, size_t states,
              size_t gradient, size_t gate_gradient, size_t previous) {
  const Recurrence<R> arrays{H,
                             nullptr,
                             8 * H,
                             2 * H,
                             nullptr,
                             at<R>(gates),
                             at<R>(cells),
                             at<R>(states),
                             at<const R>(gradient),
                             at<R>(gate_gradient),
                             at<R>(previous),
                             true};
  const Sequences sequences{lengths.data(), int64_t(lengths.size())};
  const R* own = at<const R>(weights);
  nb::gil_scoped_release release;
  lstm_backward(sequences, threads, own, arrays);
}

}  // namespace

void bind_lstm(nb::module_& m) {
  m.def("lstm_forward", by_type(&forward<float>, &forward<double>));
  m.def("lstm_backward", by_type(&backward<float>, &backward<double>));
}

}  // namespace trellis

#include "layers/lstm.h"

#include "bind/module.h"
#include "bind/python.h"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>

namespace nb = nanobind;

namespace trellis::bind {

using namespace layers;

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

using Rows = Array<const float, nb::ndim<2>>;
using Line = Array<const float, nb::ndim<1>>;

void new_stored(StoredLstm* self, const Rows& inward, const Line& bias, const Array<const float, nb::ndim<3>>& recurrent) {
  const size_t H = recurrent.shape(2), D = inward.shape(1);
  const bool fits = H > 0 && recurrent.shape(0) == 2 && recurrent.shape(1) == 4 * H && inward.shape(0) == 8 * H &&
                    bias.size() == 8 * H;
  if (!fits) throw nb::value_error("an LSTM takes weights [8H, D], [8H] and [2, 4H, H]");
  new (self) StoredLstm(inward.data(), bias.data(), recurrent.data(), int64_t(D), int64_t(H));
}

void check_tokens(const Lengths& lengths, const std::optional<Lengths>& rows, int64_t features, int64_t tokens) {
  const int64_t* length = lengths.data();
  int64_t total = 0;
  for (size_t b = 0; b < lengths.size(); ++b) {
    if (length[b] < 0 || length[b] > tokens - total) throw nb::value_error("lengths do not add up to the tokens");
    total += length[b];
  }
  if (total != tokens || int64_t(rows ? rows->size() : size_t(features)) != tokens)
    throw nb::value_error("lengths do not add up to the tokens");
  const auto known = [&](int64_t row) { return row >= 0 && row < features; };
  if (rows && !std::all_of(rows->data(), rows->data() + rows->size(), known))
    throw nb::value_error("a token has a row that there is not");
}

void run_stored(const StoredLstm& self, const Rows& features, const std::optional<Lengths>& rows,
                const Lengths& lengths, int threads, const Array<float, nb::ndim<2>>& states) {
  check_tokens(lengths, rows, int64_t(features.shape(0)), int64_t(states.shape(0)));
  if (int64_t(features.shape(1)) != self.inputs() || int64_t(states.shape(1)) != 2 * self.H())
    throw nb::value_error("features or states are not as wide as the layer");
  const float* in = features.data();
  const int64_t count = int64_t(features.shape(0)), *row_of = rows ? rows->data() : nullptr;
  const Sequences sequences{lengths.data(), int64_t(lengths.size())};
  float* out = states.data();
  nb::gil_scoped_release release;
  self.run(in, count, row_of, sequences, threads, out);
}

}  // namespace

void bind_lstm(nb::module_& m) {
  m.def("lstm_forward", by_type(&forward<float>, &forward<double>));
  m.def("lstm_backward", by_type(&backward<float>, &backward<double>));
  nb::class_<StoredLstm>(m, "StoredLstm")
      .def("__init__", &new_stored)
      .def("run", &run_stored, nb::arg("features"), nb::arg("rows").none(), nb::arg("lengths"), nb::arg("threads"),
           nb::arg("states"));
}

}  // namespace trellis::bind

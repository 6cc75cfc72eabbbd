// Layers of networks, for training beside torch and for tagging without it. Addresses are those of torch's tensors; the
// functions that take them come for float and double, and their callers in trellis.nn check sizes.
#include "bind/python.h"
#include "layers/dense.h"
#include "layers/kernels.h"
#include "layers/lstm.h"
#include "layers/spelling.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

namespace nb = nanobind;

namespace trellis::bind {

using namespace layers;

namespace {

using Indices = Array<const int64_t, nb::ndim<1>>;
using Vector = Array<const float, nb::ndim<1>>;
using Matrix = Array<const float, nb::ndim<2>>;
using Result = Array<float, nb::ndim<2>>;

// Row numbers, or null if token n has row n; every token must have a row that there is.
const int64_t* rows_of(const std::optional<Indices>& rows, int64_t count, int64_t tokens) {
  const auto known = [&](int64_t row) { return row >= 0 && row < count; };
  const bool fits = rows ? int64_t(rows->size()) == tokens && std::all_of(rows->data(), rows->data() + tokens, known)
                         : count == tokens;
  if (!fits) throw nb::value_error("a token has a row that there is not");
  return rows ? rows->data() : nullptr;
}

using Shares = std::tuple<double, double, double>;  // of rows, numbers, columns
using TensorRows = std::tuple<size_t, int64_t, int64_t, std::optional<Indices>>;  // address, count, stride; which

template <typename R>
void apply_dropout(uint64_t seed, const Shares& shares, const Indices& lengths, int64_t first, int64_t width,
                   const TensorRows& in, const TensorRows& out, bool add) {
  const auto [rows, numbers, columns] = shares;
  const auto& [from, in_count, in_stride, in_rows] = in;
  const auto& [to, out_count, out_stride, out_rows] = out;
  const int64_t count = int64_t(lengths.size()), N = std::accumulate(lengths.data(), lengths.data() + count, int64_t(0));
  const Masked<R> masked{lengths.data(), count, first, width,
                         at<const R>(from), in_stride, rows_of(in_rows, in_count, N),
                         at<R>(to), out_stride, rows_of(out_rows, out_count, N), add};
  const Dropout dropout{seed, rows, numbers, columns};
  nb::gil_scoped_release release;
  kernels_in_use<DropoutKernels<R>>().apply(dropout, masked);
}

// The arrays of both directions, side by side in each row.
template <typename R>
Recurrence<R> recurrence(int64_t H, size_t gates, size_t cells, size_t states) {
  Recurrence<R> arrays{};
  arrays.H = H, arrays.gate_stride = 8 * H, arrays.state_stride = 2 * H;
  arrays.gates = at<R>(gates), arrays.cells = at<R>(cells), arrays.states = at<R>(states);
  return arrays;
}

template <typename R>
void forward_lstm(const Indices& lengths, int64_t H, int threads, bool keep, size_t weights, size_t gate_rows,
                  size_t gates, size_t cells, size_t states) {
  Recurrence<R> arrays = recurrence<R>(H, gates, cells, states);
  arrays.gate_rows = at<const int64_t>(gate_rows), arrays.keep = keep;
  nb::gil_scoped_release release;
  lstm_forward({lengths.data(), int64_t(lengths.size())}, threads, at<const R>(weights), arrays);
}

template <typename R>
void backward_lstm(const Indices& lengths, int64_t H, int threads, size_t weights, size_t gates, size_t cells,
                   size_t states, size_t gradient, size_t gate_gradient, size_t previous) {
  Recurrence<R> arrays = recurrence<R>(H, gates, cells, states);
  arrays.gradient = at<const R>(gradient), arrays.gate_gradient = at<R>(gate_gradient);
  arrays.previous = at<R>(previous);
  nb::gil_scoped_release release;
  lstm_backward({lengths.data(), int64_t(lengths.size())}, threads, at<const R>(weights), arrays);
}

void new_lstm(StoredLstm* self, const Matrix& inward, const Vector& bias, const Array<const float, nb::ndim<3>>& recurrent) {
  const size_t H = recurrent.shape(2), D = inward.shape(1);
  const bool fits = H > 0 && recurrent.shape(0) == 2 && recurrent.shape(1) == 4 * H && inward.shape(0) == 8 * H &&
                    bias.size() == 8 * H;
  if (!fits) throw nb::value_error("an LSTM takes weights [8H, D], [8H] and [2, 4H, H]");
  new (self) StoredLstm(inward.data(), bias.data(), recurrent.data(), int64_t(D), int64_t(H));
}

void run_lstm(const StoredLstm& self, const Matrix& features, const std::optional<Indices>& rows,
              const Indices& lengths, int threads, const Result& states) {
  const int64_t count = int64_t(features.shape(0)), tokens = int64_t(states.shape(0));
  int64_t left = tokens;
  const auto take = [&](int64_t length) { return length >= 0 && (left -= length) >= 0; };
  if (!std::all_of(lengths.data(), lengths.data() + lengths.size(), take) || left)
    throw nb::value_error("lengths do not add up to the tokens");
  const int64_t* row_of = rows_of(rows, count, tokens);
  if (int64_t(features.shape(1)) != self.inputs() || int64_t(states.shape(1)) != 2 * self.H())
    throw nb::value_error("features or states are not as wide as the layer");
  nb::gil_scoped_release release;
  self.run(features.data(), count, row_of, {lengths.data(), int64_t(lengths.size())}, threads, states.data());
}

void new_dense(StoredDense* self, const Matrix& weights, const Vector& bias) {
  if (bias.size() != weights.shape(0)) throw nb::value_error("a dense layer takes weights [M, K] and a bias [M]");
  new (self) StoredDense(weights.data(), bias.data(), int64_t(weights.shape(1)), int64_t(weights.shape(0)));
}

void apply_dense(const StoredDense& self, const Matrix& in, int threads, const Result& out) {
  const bool fits = in.shape(0) == out.shape(0) && int64_t(in.shape(1)) == self.inputs() &&
                    int64_t(out.shape(1)) == self.outputs();
  if (!fits) throw nb::value_error("rows are not as wide as the layer");
  nb::gil_scoped_release release;
  self.apply(in.data(), int64_t(in.shape(0)), threads, out.data());
}

template <typename R>
Spelling<R> spelling(size_t words, int64_t W, int64_t C, size_t table, int64_t width, int64_t characters, int64_t F) {
  return {at<const int64_t>(words), W, C, nullptr, at<R>(table), width, characters, F};
}

template <typename R>
bool forward_spelling(size_t words, int64_t W, int64_t C, size_t table, int64_t width, int64_t characters, int64_t F,
                      size_t largest, size_t places) {
  nb::gil_scoped_release release;
  const Spelling<R> in = spelling<R>(words, W, C, table, width, characters, F);
  return spelling_forward(in, at<R>(largest), at<int32_t>(places));
}

template <typename R>
void backward_spelling(size_t words, int64_t W, int64_t C, size_t table, int64_t width, int64_t characters, int64_t F,
                       size_t gradient, size_t places) {
  nb::gil_scoped_release release;
  const Spelling<R> in = spelling<R>(words, W, C, table, width, characters, F);
  spelling_backward(in, at<const R>(gradient), at<const int32_t>(places));
}

// characters[offsets[w] .. offsets[w + 1]) of each word, table[width, characters, F]: to largest[W, F]
bool spell_words(const Indices& characters, const Indices& offsets, const Array<const float, nb::ndim<3>>& table,
                 int threads, const Result& largest) {
  const int64_t W = int64_t(offsets.size()) - 1;
  const int64_t *first = offsets.data(), *last = first + W;
  const bool fits = W >= 0 && *first == 0 && *last == int64_t(characters.size()) && std::is_sorted(first, last + 1) &&
                    int64_t(largest.shape(0)) == W && largest.shape(1) == table.shape(2);
  if (!fits) throw nb::value_error("offsets, characters, table and result do not fit each other");
  // The table is only written by `add`.
  const Spelling<float> in{characters.data(),       W, 0, first, const_cast<float*>(table.data()), int64_t(table.shape(0)),
                           int64_t(table.shape(1)), int64_t(table.shape(2))};
  nb::gil_scoped_release release;
  return spell(in, threads, largest.data());
}

}  // namespace

void bind_layers(nb::module_& m) {
  m.def("apply_dropout", by_type(&apply_dropout<float>, &apply_dropout<double>));
  m.def("lstm_forward", by_type(&forward_lstm<float>, &forward_lstm<double>));
  m.def("lstm_backward", by_type(&backward_lstm<float>, &backward_lstm<double>));
  m.def("spelling_forward", by_type(&forward_spelling<float>, &forward_spelling<double>));
  m.def("spelling_backward", by_type(&backward_spelling<float>, &backward_spelling<double>));
  m.def("spell", &spell_words);
  nb::class_<StoredDense>(m, "StoredDense").def("__init__", &new_dense).def("apply", &apply_dense);
  nb::class_<StoredLstm>(m, "StoredLstm")
      .def("__init__", &new_lstm)
      .def("run", &run_lstm, nb::arg("features"), nb::arg("rows").none(), nb::arg("lengths"), nb::arg("threads"),
           nb::arg("states"));
}

}  // namespace trellis::bind

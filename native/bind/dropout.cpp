#include "layers/dropout.h"

#include "bind/module.h"
#include "bind/python.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

namespace nb = nanobind;

namespace trellis::bind {

using namespace layers;

namespace {

using Lengths = Array<const int64_t, nb::ndim<1>>;
using Shares = std::tuple<double, double, double>;  // of rows, numbers, columns
using Rows = Array<const int64_t, nb::ndim<1>>;
using Place = std::tuple<size_t, int64_t, int64_t, std::optional<Rows>>;  // address, count and stride of rows; which

// The row numbers of a place, or null; every token must have a row that there is.
const int64_t* rows_of(const Place& place, int64_t tokens) {
  const auto& rows = std::get<3>(place);
  const int64_t count = std::get<1>(place);
  const auto known = [&](int64_t row) { return row >= 0 && row < count; };
  const bool fits = rows ? int64_t(rows->size()) == tokens && std::all_of(rows->data(), rows->data() + tokens, known)
                         : count == tokens;
  if (!fits) throw nb::value_error("a token has a row that there is not");
  return rows ? rows->data() : nullptr;
}

// Addresses are torch's.
template <typename R>
void apply(uint64_t seed, const Shares& shares, const Lengths& lengths, int64_t first, int64_t width, const Place& in,
           const Place& out, bool add) {
  const Dropout dropout{seed, std::get<0>(shares), std::get<1>(shares), std::get<2>(shares)};
  const int64_t count = int64_t(lengths.size()), N = std::accumulate(lengths.data(), lengths.data() + count, int64_t(0));
  const Masked<R> masked{lengths.data(),
                         count,
                         first,
                         width,
                         at<const R>(std::get<0>(in)),
                         std::get<2>(in),
                         rows_of(in, N),
                         at<R>(std::get<0>(out)),
                         std::get<2>(out),
                         rows_of(out, N),
                         add};
  nb::gil_scoped_release release;
  kernels_in_use<DropoutKernels<R>>().apply(dropout, masked);
}

}  // namespace

void bind_dropout(nb::module_& m) { m.def("apply_dropout", by_type(&apply<float>, &apply<double>)); }

}  // namespace trellis::bind

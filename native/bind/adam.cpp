#include "layers/adam.h"

#include "bind/module.h"
#include "bind/python.h"

#include <vector>

namespace nb = nanobind;

namespace trellis::bind {

using namespace layers;

namespace {

using Addresses = Array<const uint64_t, nb::ndim<2>>;  // a row for each array; addresses are torch's
using Counts = Array<const int64_t, nb::ndim<1>>;
using Numbers = Array<const double, nb::ndim<2>>;

// Columns: gradient, weights, means, squares; the length of a gradient needs the first only.
template <typename R>
std::vector<Weights<R>> weights_of(const Addresses& addresses, const Counts& counts, size_t columns) {
  const size_t rows = addresses.shape(0);
  if (addresses.shape(1) != columns || counts.size() != rows)
    throw nb::value_error("addresses and counts do not fit each other");
  std::vector<Weights<R>> found;
  for (size_t row = 0; row < rows; ++row) {
    const uint64_t* own = addresses.data() + row * columns;
    Weights<R> weights{nullptr, at<const R>(own[0]), nullptr, nullptr, counts.data()[row]};
    if (columns == 4) weights.values = at<R>(own[1]), weights.means = at<R>(own[2]), weights.squares = at<R>(own[3]);
    found.push_back(weights);
  }
  return found;
}

template <typename R>
double length(int threads, const Addresses& addresses, const Counts& counts) {
  const auto weights = weights_of<R>(addresses, counts, 1);
  nb::gil_scoped_release release;
  return gradient_length(weights.data(), int64_t(weights.size()), threads);
}

// numbers[row]: those of AdamStep, in its order
template <typename R>
void step(int threads, const Addresses& addresses, const Counts& counts, const Numbers& numbers) {
  const auto weights = weights_of<R>(addresses, counts, 4);
  if (numbers.shape(0) != weights.size() || numbers.shape(1) != 8)
    throw nb::value_error("a step of Adam takes eight numbers for each array");
  std::vector<AdamStep> steps;
  for (size_t row = 0; row < weights.size(); ++row) {
    const double* own = numbers.data() + row * 8;
    steps.push_back({own[0], own[1], own[2], own[3], own[4], own[5], own[6], own[7]});
  }
  nb::gil_scoped_release release;
  adam(weights.data(), steps.data(), int64_t(weights.size()), threads);
}

}  // namespace

void bind_adam(nb::module_& m) {
  m.def("gradient_length", by_type(&length<float>, &length<double>));
  m.def("adam_step", by_type(&step<float>, &step<double>));
}

}  // namespace trellis::bind

// Vector operations of L-BFGS and OWL-QN on arrays, and steps of Adam on the addresses of torch's tensors.
#include "bind/python.h"
#include "bind/stl.h"
#include "optimizers/adam.h"
#include "optimizers/vectors.h"

#include <nanobind/stl/pair.h>

namespace nb = nanobind;

namespace trellis::bind {

using namespace optimizers;

namespace {

template <typename T>
using Vectors = std::vector<Array<const T>>;

template <typename T>
std::vector<const T*> pointers(const Vectors<T>& vectors) {
  std::vector<const T*> result;
  for (const auto& vector : vectors) result.push_back(vector.data());
  return result;
}

using Counts = Array<const int64_t, nb::ndim<1>>;
using Addresses = Array<const uint64_t, nb::ndim<2>>;  // a row for each array of weights

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
void adam_step(int threads, const Addresses& addresses, const Counts& counts,
               const Array<const double, nb::ndim<2>>& numbers) {
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

void bind_optimizers(nb::module_& m) {
  m.def("gradient_length", by_type(&length<float>, &length<double>));
  m.def("adam_step", by_type(&adam_step<float>, &adam_step<double>));
  m.def("dot", [](const Array<const double>& a, const Array<const double>& b) {
    nb::gil_scoped_release release;
    return dot(a.data(), b.data(), int64_t(a.size()));
  });
  m.def("combine", [](const Vectors<double>& vectors, const std::vector<double>& factors, const Array<double>& out) {
    const auto from = pointers<double>(vectors);
    nb::gil_scoped_release release;
    combine(from, factors, int64_t(out.size()), out.data());
  });
  m.def("combine_steps", [](const Vectors<float>& vectors, const std::vector<double>& factors,
                            const Array<const double>& v, double factor, const Array<double>& out) {
    const auto from = pointers<float>(vectors);
    nb::gil_scoped_release release;
    combine(from, factors, v.data(), factor, int64_t(out.size()), out.data());
  });
  m.def("add_decay", [](const Array<const double>& weights, double factor, const Array<double>& gradient) {
    nb::gil_scoped_release release;
    return add_decay(weights.data(), factor, int64_t(weights.size()), gradient.data());
  });
  m.def("pseudo_gradient", [](const Array<const double>& weights, const Array<const double>& gradient, double c1,
                              const Array<double>& out) {
    nb::gil_scoped_release release;
    pseudo_gradient(weights.data(), gradient.data(), c1, int64_t(out.size()), out.data());
  });
  m.def("keep_downhill", [](const Array<const double>& uphill, const Array<double>& direction) {
    nb::gil_scoped_release release;
    keep_downhill(uphill.data(), int64_t(direction.size()), direction.data());
  });
  m.def("step_in_orthant", [](const Array<const double>& x, const Array<const double>& uphill,
                              const Array<const double>& direction, double step, const Array<double>& out) {
    nb::gil_scoped_release release;
    const OrthantStep found =
        step_in_orthant(x.data(), uphill.data(), direction.data(), step, int64_t(out.size()), out.data());
    return std::make_pair(found.length, found.slope);
  });
  m.def("learn_step", [](const Array<const double>& x, const Array<const double>& x_before,
                         const Array<const double>& g, const Array<const double>& g_before,
                         const Array<const double>& v, const Vectors<float>& vectors, const Array<float>& s,
                         const Array<float>& y) {
    const auto from = pointers<float>(vectors);
    const Steps step{x.data(), x_before.data(), g.data(), g_before.data()};
    return to_numpy(released([&] { return learn_step(step, v.data(), from, int64_t(v.size()), s.data(), y.data()); }));
  });
}

}  // namespace trellis::bind

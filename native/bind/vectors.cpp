#include "features/vectors.h"

#include "bind/module.h"
#include "bind/python.h"
#include "bind/stl.h"

#include <nanobind/stl/pair.h>

namespace nb = nanobind;

namespace trellis::bind {

using namespace features;

namespace {

template <typename T>
using Vectors = std::vector<Array<const T>>;

template <typename T>
std::vector<const T*> pointers(const Vectors<T>& vectors) {
  std::vector<const T*> result;
  for (const auto& vector : vectors) result.push_back(vector.data());
  return result;
}

}  // namespace

void bind_vectors(nb::module_& m) {
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
    std::vector<double> products;
    {
      nb::gil_scoped_release release;
      products = learn_step(step, v.data(), from, int64_t(v.size()), s.data(), y.data());
    }
    return copy_of(products.data(), products.size());
  });
}

}  // namespace trellis::bind

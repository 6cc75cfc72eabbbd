#include "layers/dense.h"

#include "bind/module.h"
#include "bind/python.h"

namespace nb = nanobind;

namespace trellis::bind {

using namespace layers;

namespace {

using Rows = Array<const float, nb::ndim<2>>;

void new_dense(StoredDense* self, const Rows& weights, const Array<const float, nb::ndim<1>>& bias) {
  if (bias.size() != weights.shape(0)) throw nb::value_error("a dense layer takes weights [M, K] and a bias [M]");
  new (self) StoredDense(weights.data(), bias.data(), int64_t(weights.shape(1)), int64_t(weights.shape(0)));
}

void apply(const StoredDense& self, const Rows& in, int threads, const Array<float, nb::ndim<2>>& out) {
  const bool fits = in.shape(0) == out.shape(0) && int64_t(in.shape(1)) == self.inputs() &&
                    int64_t(out.shape(1)) == self.outputs();
  if (!fits) throw nb::value_error("rows are not as wide as the layer");
  const float* from = in.data();
  const int64_t rows = int64_t(in.shape(0));
  float* to = out.data();
  nb::gil_scoped_release release;
  self.apply(from, rows, threads, to);
}

}  // namespace

void bind_dense(nb::module_& m) {
  nb::class_<StoredDense>(m, "StoredDense").def("__init__", &new_dense).def("apply", &apply);
}

}  // namespace trellis::bind

// The Python module.
#include "bind/module.h"

#include "base/instruction_set.h"
#include "base/threads.h"
#include "chain/kernels.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace nb = nanobind;

namespace trellis {
namespace {

// Multiply-adds per second of one core at best.
double fma_peak(const std::string& dtype) {
  constexpr int64_t repeats = 2'000'000;
  const auto run = dtype == "float64" ? kernels<double>().fma_peak : kernels<float>().fma_peak;
  double best = 0.0;
  for (int i = 0; i < 5; ++i) {
    const auto from = std::chrono::steady_clock::now();
    const double operations = 2.0 * run(repeats);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
    best = std::max(best, operations / took.count());
  }
  return best;
}

void bind_runtime(nb::module_& m) {
  m.def("num_threads", &num_threads);
  m.def("set_num_threads", &set_num_threads);
  m.def("instruction_set", &instruction_set_name);
  m.def("use_instruction_set", [](const std::string& name) { return use_instruction_set(name.c_str()); });
  m.def("fma_peak", &fma_peak);
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // a graph that lives until the interpreter ends is not a leak
  bind_runtime(m);
  bind_attributes(m);
  bind_dataset(m);
  bind_dense(m);
  bind_descent(m);
  bind_dropout(m);
  bind_expectation(m);
  bind_inference(m);
  bind_labeller(m);
  bind_labels(m);
  bind_lstm(m);
  bind_objective(m);
  bind_segments(m);
  bind_spelling(m);
  bind_text(m);
  bind_token_lists(m);
  bind_token_scorer(m);
  bind_vectors(m);
}

}  // namespace trellis

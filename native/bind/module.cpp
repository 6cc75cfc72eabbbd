// The Python module.
#include "bind/python.h"

#include "base/cores.h"
#include "base/instruction_set.h"
#include "base/threads.h"
#include "base/unicode.h"
#include "bind/stl.h"

#include <string>

namespace nb = nanobind;

namespace trellis::bind {
namespace {

// Whether a signal (Ctrl-C) came whose handler raised an exception, which stays set.
bool was_interrupted() {
  const nb::gil_scoped_acquire lock;
  return PyErr_CheckSignals() != 0;
}

void bind_runtime(nb::module_& m) {
  set_stop_check(&was_interrupted);
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const Stopped&) {
      if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
  });
  m.def("num_threads", &num_threads);
  m.def("set_num_threads", &set_num_threads);
  m.def("instruction_set", &instruction_set_name);
  m.def("use_instruction_set", [](const std::string& name) { return use_instruction_set(name.c_str()); });
  m.def("core_quota", &core_quota);
  m.attr("unicode_version") = unicode_version();
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // a graph that lives until the interpreter ends is not a leak
  bind_runtime(m);
  bind_crfsuite(m);
  bind_dataset(m);
  bind_expectation(m);
  bind_inference(m);
  bind_labels(m);
  bind_layers(m);
  bind_objective(m);
  bind_optimizers(m);
  bind_segments(m);
  bind_text(m);
  bind_token_scorer(m);
}

}  // namespace trellis::bind

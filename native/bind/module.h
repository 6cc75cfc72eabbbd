// What each file of this folder adds to the Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace trellis::bind {

void bind_attributes(nanobind::module_& m);
void bind_dataset(nanobind::module_& m);
void bind_expectation(nanobind::module_& m);
void bind_inference(nanobind::module_& m);
void bind_labeller(nanobind::module_& m);
void bind_labels(nanobind::module_& m);
void bind_layers(nanobind::module_& m);
void bind_objective(nanobind::module_& m);
void bind_segments(nanobind::module_& m);
void bind_text(nanobind::module_& m);
void bind_token_scorer(nanobind::module_& m);
void bind_vectors(nanobind::module_& m);
void bind_words(nanobind::module_& m);

}  // namespace trellis::bind

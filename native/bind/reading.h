// From Python objects to cells and features; the interpreter lock is held.
#pragma once

#include "features/attribute_index.h"
#include "features/dataset.h"

#include <nanobind/nanobind.h>

namespace trellis::bind {

using namespace features;


// One column: a sequence of sentences, each a sequence of strings. Fills offsets if they are empty; if they are
// not, the lengths must agree with them.
void read_column(nanobind::handle sentences, const char* what, std::vector<int64_t>& offsets, Column& column);
// The same without numbers, which takes a third of the time.
void copy_column(nanobind::handle sentences, const char* what, std::vector<int64_t>& offsets, TokenBuffer& tokens);

// Ready features: for each token a list or set of strings, or a dict whose values are booleans, numbers, strings
// (`key:value`), or again such lists and dicts (`key:inner`).
Dataset read_features(nanobind::handle sentences, AttributeIndex& attributes, bool grow);

}  // namespace trellis::bind

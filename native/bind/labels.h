// Lists of labels as Python has them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

namespace trellis::bind {

// A list for each sequence with names[ids[t]] for each of its tokens, offsets[b] .. offsets[b + 1] - 1.
nanobind::list name_lists(const nanobind::list& names, const int64_t* ids, const std::vector<int64_t>& offsets);

}  // namespace trellis::bind

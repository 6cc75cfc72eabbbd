// What memory.h has, for code that is compiled once.
#pragma once

#define TRELLIS_ISA driver
#include "base/memory.h"
#undef TRELLIS_ISA

namespace trellis {

using driver::Block;
using driver::parts_of;
using driver::round_up;

}  // namespace trellis

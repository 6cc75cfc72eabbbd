// Block of memory.h for code that is compiled once.
#pragma once

#define TRELLIS_ISA driver
#include "base/memory.h"
#undef TRELLIS_ISA

namespace trellis {

using driver::Block;

}  // namespace trellis

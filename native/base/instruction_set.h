// Which kernels run: those of the best instruction set that this machine has, or of another for tests.
#pragma once

#include <cstring>

namespace trellis {

// "baseline", "avx2" or "avx512"
const char* instruction_set();
// Takes the named one from now on; false if this machine lacks it.
bool use_instruction_set(const char* name);

// avx512_NAME(), avx2_NAME() or baseline_NAME(), whichever is that of the instruction set in use
#if defined(TRELLIS_X86)
#define TRELLIS_BEST(name)                                              \
  (!std::strcmp(trellis::instruction_set(), "avx512") ? avx512_##name() \
   : !std::strcmp(trellis::instruction_set(), "avx2") ? avx2_##name()   \
                                                      : baseline_##name())
#else
#define TRELLIS_BEST(name) baseline_##name()
#endif

}  // namespace trellis

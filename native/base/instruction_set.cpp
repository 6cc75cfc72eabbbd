#include "base/instruction_set.h"

#include <initializer_list>

namespace trellis {
namespace {

bool has_avx512() {
#if defined(TRELLIS_X86)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool has_avx2() {
#if defined(TRELLIS_X86)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

const char* chosen = has_avx512() ? "avx512" : has_avx2() ? "avx2" : "baseline";

}  // namespace

const char* instruction_set() { return chosen; }

bool use_instruction_set(const char* name) {
  for (const char* known : {"baseline", "avx2", "avx512"}) {
    if (std::strcmp(name, known)) continue;
    const bool there = known[0] == 'b' || (std::strcmp(known, "avx2") ? has_avx512() : has_avx2());
    if (there) chosen = known;
    return there;
  }
  return false;
}

}  // namespace trellis

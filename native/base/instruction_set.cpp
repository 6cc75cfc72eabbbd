#include "base/instruction_set.h"

#include <cstring>
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

constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};

InstructionSet chosen = has_avx512() ? InstructionSet::avx512 : has_avx2() ? InstructionSet::avx2 : InstructionSet::baseline;

bool has(InstructionSet set) {
  return set == InstructionSet::avx512 ? has_avx512() : set == InstructionSet::avx2 ? has_avx2() : true;
}

}  // namespace

InstructionSet instruction_set() { return chosen; }

const char* instruction_set_name() { return kNames[int(chosen)]; }

bool use_instruction_set(const char* name) {
  for (const InstructionSet set : {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    if (std::strcmp(name, kNames[int(set)]) || !has(set)) continue;
    chosen = set;
    return true;
  }
  return false;
}

}  // namespace trellis

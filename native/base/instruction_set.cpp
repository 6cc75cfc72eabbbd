#include "base/instruction_set.h"

#include <cstring>
#include <initializer_list>
#if defined(TRELLIS_X86)
#include <cpuid.h>
#endif

namespace trellis {
namespace {

#if defined(TRELLIS_X86)

// The processor is asked here, since __builtin_cpu_supports needs a library that clang-cl and zig do not link.
struct Processor {
  unsigned basic = 0;     // leaf 1, ecx
  unsigned extended = 0;  // leaf 7, ebx
  unsigned saved = 0;     // the registers that the operating system saves

  Processor() {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    basic = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) extended = b;
    constexpr unsigned osxsave = 1u << 27;
    if (basic & osxsave) __asm__ volatile("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
  }
  bool has(unsigned basics, unsigned extensions, unsigned registers) const {
    return (basic & basics) == basics && (extended & extensions) == extensions && (saved & registers) == registers;
  }
};

constexpr unsigned fma = 1u << 12, avx2 = 1u << 5, avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F DQ BW VL

bool has_avx512() { return Processor().has(fma, avx2 | avx512, 0xe6); }
bool has_avx2() { return Processor().has(fma, avx2, 0x06); }

#else

bool has_avx512() { return false; }
bool has_avx2() { return false; }

#endif

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

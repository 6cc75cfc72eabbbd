// Which kernels run: those of the best instruction set that this machine has, or of another for tests.
#pragma once

namespace trellis {

enum class InstructionSet { baseline, avx2, avx512 };

InstructionSet instruction_set();
const char* instruction_set_name();
// Takes the named one from now on; false if this machine lacks it.
bool use_instruction_set(const char* name);

// The kernels of one instruction set as a table of functions.
template <typename Table, InstructionSet set>
const Table& kernels_for();

// Those of the instruction set in use.
template <typename Table>
const Table& kernels_in_use() {
#if defined(TRELLIS_X86)
  if (instruction_set() == InstructionSet::avx512) return kernels_for<Table, InstructionSet::avx512>();
  if (instruction_set() == InstructionSet::avx2) return kernels_for<Table, InstructionSet::avx2>();
#endif
  return kernels_for<Table, InstructionSet::baseline>();
}

}  // namespace trellis

// At the end of X_kernels.cpp, which is compiled once for each instruction set: the kernels of this one, in the order of
// the table of a room. BY_TYPE makes two tables, in whose kernels R is float and double.
#define TRELLIS_KERNELS(room, Table, ...) TRELLIS_KERNELS_OF(room, Table, double, __VA_ARGS__)
#define TRELLIS_KERNELS_BY_TYPE(room, Table, ...)           \
  TRELLIS_KERNELS_OF(room, Table<float>, float, __VA_ARGS__) \
  TRELLIS_KERNELS_OF(room, Table<double>, double, __VA_ARGS__)
#define TRELLIS_KERNELS_OF(room, Table, Number, ...)                                                               \
  template <>                                                                                                      \
  const trellis::room::Table& trellis::kernels_for<trellis::room::Table, trellis::InstructionSet::TRELLIS_ISA>() { \
    using namespace trellis::room::TRELLIS_ISA;                                                                    \
    using R [[maybe_unused]] = Number;                                                                             \
    static constexpr trellis::room::Table table = {__VA_ARGS__};                                                   \
    return table;                                                                                                  \
  }

// The kernels of one instruction set. CMake compiles this file once for each, with TRELLIS_ISA naming the namespace.
#include "chain/kernels.h"

#include "chain/edges_kernels.h"
#include "chain/entropy_kernels.h"
#include "chain/lockstep_kernels.h"
#include "chain/marginals_kernels.h"
#include "chain/sampling_kernels.h"
#include "chain/spans_kernels.h"
#include "chain/viterbi_kernels.h"
#include "chain/weighted_kernels.h"

namespace trellis {

namespace {

template <typename R>
const Kernels<R>& own_kernels() {
  namespace isa = TRELLIS_ISA;
  static const Kernels<R> kernels = {
      isa::width<R>,        isa::group_size,       isa::prepare<R>, isa::forward<R>, isa::backward<R>,
      isa::viterbi<R>,      isa::edge_forward<R>,  isa::edge_backward<R>, isa::edge_viterbi<R>,
      isa::log_partition<R>, isa::log_marginals<R>, isa::entropy<R>, isa::sample<R>,  isa::spans<R>,
      isa::weighted_nll<R>, isa::fma_peak<R>,
  };
  return kernels;
}

}  // namespace

template <>
const Kernels<float>& kernels_for<Kernels<float>, InstructionSet::TRELLIS_ISA>() {
  return own_kernels<float>();
}
template <>
const Kernels<double>& kernels_for<Kernels<double>, InstructionSet::TRELLIS_ISA>() {
  return own_kernels<double>();
}

}  // namespace trellis

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

namespace trellis::chain::TRELLIS_ISA {

// Whether any vector of the scores has bits set in what `look` makes of it.
template <typename R, typename Look>
inline bool any_of(const R* x, int64_t n, Look look) {
  IntVec<R> bits{};
  int64_t i = 0;
  for (; i + width<R> <= n; i += width<R>) bits |= look(load(x + i));
  if (i < n) bits |= look(load_first(x + i, int(n - i), R(0)));
  return any<R>(bits);
}

template <typename R>
uint8_t contents(const R* x, int64_t n) {
  // x - x is plus zero, all bits clear, unless x is infinite or NaN.
  if (!any_of(x, n, [](Vec<R> v) { return (IntVec<R>)(v - v); })) return chain::only_finite;
  const bool invalid = any_of(x, n, [](Vec<R> v) { return (IntVec<R>)~(v < infinity<R>); });
  const bool forbidden = any_of(x, n, [](Vec<R> v) { return (IntVec<R>)(v == -infinity<R>); });
  return uint8_t((invalid ? chain::some_invalid : 0) | (forbidden ? chain::some_forbidden : 0));
}

}  // namespace trellis::chain::TRELLIS_ISA

TRELLIS_KERNELS_BY_TYPE(chain, Kernels, width<R>, group_size, contents<R>, prepare<R>, forward<R>, backward<R>,
                        viterbi<R>, edge_forward<R>, edge_backward<R>, edge_viterbi<R>, log_partition<R>,
                        log_marginals<R>, entropy<R>, sample<R>, spans<R>, weighted_nll<R>)

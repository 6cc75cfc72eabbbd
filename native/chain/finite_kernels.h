// What a block of scores holds beside finite numbers.
#pragma once

#include "base/simd.h"
#include "chain/batch.h"

namespace trellis::chain::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

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

// The emissions of a token, as kernels may see them. In the namespace of whoever includes it: one function compiled for
// several instruction sets must not have one name.
#pragma once

#include "chain/batch.h"

namespace trellis::chain::TRELLIS_ISA {

// The emissions [L] of a token of sequence b, minus infinity for states that lie on no complete path.
template <typename R, typename To>
void copy_emission(const Batch<R>& batch, int64_t b, int64_t token, To* to) {
  const int64_t L = batch.L, t = token - batch.offsets[b], left = batch.offsets[b + 1] - 1 - token;
  const Pruning<R>& pruning = batch.pruning;
  const bool copied = pruning.rows && pruning.rows[b];
  const R* from = copied ? pruning.rows[b] + t * L : batch.emissions + batch.row(token) * L;
  for (int64_t j = 0; j < L; ++j) to[j] = To(from[j]);
  for (int64_t j = 0; j < L && !copied && t < pruning.heads; ++j) to[j] += To(pruning.from_start[t * L + j]);
  for (int64_t j = 0; j < L && !copied && left < pruning.tails; ++j) to[j] += To(pruning.to_end[left * L + j]);
}

// The same in place, or in `memory` [L] if they had to be changed.
template <typename R>
inline const R* emission(const Batch<R>& batch, int64_t b, int64_t token, R* memory) {
  const Pruning<R>& pruning = batch.pruning;
  const R* given = batch.emissions + batch.row(token) * batch.L;
  if (!pruning.rows) return given;
  const int64_t t = token - batch.offsets[b], left = batch.offsets[b + 1] - 1 - token;
  if (pruning.rows[b]) return pruning.rows[b] + t * batch.L;
  if (t >= pruning.heads && left >= pruning.tails) return given;
  copy_emission(batch, b, token, memory);
  return memory;
}

}  // namespace trellis::chain::TRELLIS_ISA

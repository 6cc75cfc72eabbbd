#include "chain/log_scores.h"

#include <algorithm>
#include <limits>

namespace trellis {

template <typename To>
template <typename R>
PaddedScores<To>::PaddedScores(const Batch<R>& batch, int64_t P)
    : memory_((2 * batch.L + 2) * P, -std::numeric_limits<To>::infinity()) {
  const int64_t L = batch.L;
  view_ = {L, P, memory_, memory_ + L * P, memory_ + 2 * L * P, memory_ + (2 * L + 1) * P, {}, {}};
  for (int64_t i = 0; i < L; ++i) {
    for (int64_t j = 0; j < L; ++j)
      view_.forward[i * P + j] = view_.backward[j * P + i] = To(batch.transitions[i * L + j]);
    view_.start[i] = To(batch.start[i]);
    view_.end[i] = To(batch.end[i]);
  }
}

template <typename R>
LogScores::LogScores(const Batch<R>& batch, int64_t P) : PaddedScores<double>(batch, P) {
  view_.forward_rows = find_live_rows(view_.forward, view_.L, P, forward_);
  view_.backward_rows = find_live_rows(view_.backward, view_.L, P, backward_);
}

// Lists the live rows of matrix[L, P]; null where most are live, and a list would only be in the way.
LiveRows LogScores::find_live_rows(const double* matrix, int64_t L, int64_t P, Rows& found) {
  const auto possible = [](double score) { return score != -std::numeric_limits<double>::infinity(); };
  for (int64_t j = 0; j < P; j += live_columns) {
    const int64_t stop = std::min(P, j + live_columns);
    for (int64_t i = 0; i < L; ++i)
      if (std::any_of(matrix + i * P + j, matrix + i * P + stop, possible)) found.rows.push_back(int32_t(i));
    found.ends.push_back(int64_t(found.rows.size()));
  }
  if (2 * found.rows.size() > found.ends.size() * size_t(L)) return {};
  return {found.ends.data(), found.rows.data()};
}

template PaddedScores<float>::PaddedScores(const Batch<float>&, int64_t);
template PaddedScores<double>::PaddedScores(const Batch<double>&, int64_t);
template PaddedScores<double>::PaddedScores(const Batch<float>&, int64_t);
template LogScores::LogScores(const Batch<float>&, int64_t);
template LogScores::LogScores(const Batch<double>&, int64_t);

}  // namespace trellis

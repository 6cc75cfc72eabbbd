#include "chain/complete_paths.h"

#include "base/numbers.h"

#include <algorithm>
#include <utility>

namespace trellis::chain {
namespace {

bool has(const std::vector<uint64_t>& set, int64_t label) { return set[size_t(label / 64)] >> (label % 64) & 1; }
void put(std::vector<uint64_t>& set, int64_t label) { set[size_t(label / 64)] |= uint64_t(1) << (label % 64); }

}  // namespace

template <typename R>
CompletePaths<R>::CompletePaths(const Batch<R>& batch, bool chain_forbids)
    : batch_(batch), chain_forbids_(chain_forbids) {
  if (!needed()) return;
  const int64_t L = batch.L;
  copies_.resize(size_t(batch.B));
  rows_.resize(size_t(batch.B), nullptr);
  successors_.assign(size_t(L), none());
  predecessors_.assign(size_t(L), none());
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j < L; ++j)
      if (batch.transitions[i * L + j] > forbidden) put(successors_[size_t(i)], j), put(predecessors_[size_t(j)], i);
  if (!chain_forbids) return;
  from_start_ = masks(possible(batch.start), successors_);
  to_end_ = masks(possible(batch.end), predecessors_);
}

template <typename R>
Pruning<R> CompletePaths<R>::view() const {
  if (!needed()) return {};
  const int64_t L = batch_.L;
  return {rows_.data(), from_start_.data(), to_end_.data(), int64_t(from_start_.size()) / L, int64_t(to_end_.size()) / L};
}

template <typename R>
typename CompletePaths<R>::Labels CompletePaths<R>::possible(const R* scores) const {
  Labels set = none();
  for (int64_t j = 0; j < batch_.L; ++j)
    if (scores[j] > forbidden) put(set, j);
  return set;
}

template <typename R>
typename CompletePaths<R>::Labels CompletePaths<R>::step(const Labels& from, const std::vector<Labels>& next,
                                                         const R* edges, int64_t row, int64_t column) const {
  Labels set = none();
  for (int64_t i = 0; i < batch_.L; ++i) {
    if (!has(from, i)) continue;
    const Labels& own = next[size_t(i)];
    for (size_t w = 0; w < set.size() && !edges; ++w) set[w] |= own[w];
    for (int64_t j = 0; j < batch_.L && edges; ++j)
      if (has(own, j) && edges[i * row + j * column] > forbidden) put(set, j);
  }
  return set;
}

// What the chain alone forbids 0, 1, 2, ... steps after a set of labels, as far as it forbids anything. Each set follows
// from the one before: once two are equal, so are all that follow.
template <typename R>
std::vector<R> CompletePaths<R>::masks(Labels set, const std::vector<Labels>& next) const {
  const int64_t L = batch_.L;
  int64_t longest = 0;
  for (int64_t b = 0; b < batch_.B; ++b) longest = std::max(longest, batch_.length(b));
  Labels all = none(), before;
  for (int64_t j = 0; j < L; ++j) put(all, j);
  std::vector<R> found;
  size_t needed = 0;
  for (int64_t k = 0; k < longest && !(set == before && set == all); ++k) {
    for (int64_t j = 0; j < L; ++j) found.push_back(has(set, j) ? R(0) : R(forbidden));
    if (set != all) needed = found.size();
    Labels after = set == before ? set : step(set, next, nullptr, 0, 0);
    before = std::exchange(set, std::move(after));
  }
  found.resize(needed);
  return found;
}

template <typename R>
void CompletePaths<R>::prune(int64_t b) {
  if (!needed()) return;
  const int64_t T = batch_.length(b), L = batch_.L, first = batch_.offsets[b];
  const auto row = [&](int64_t t) { return batch_.emissions + batch_.row(first + t) * L; };
  const auto edges = [&](int64_t t) { return batch_.edges ? batch_.edge(b, first + t) : nullptr; };
  const auto both = [](Labels set, const Labels& other) {
    for (size_t w = 0; w < set.size(); ++w) set[w] &= other[w];
    return set;
  };
  std::vector<Labels> reached;
  for (int64_t t = 0; t < T; ++t)
    reached.push_back(both(possible(row(t)), t ? step(reached.back(), successors_, edges(t), L, 1)
                                               : possible(batch_.start)));
  copies_[size_t(b)] = std::make_unique<R[]>(size_t(T * L));
  R* copy = copies_[size_t(b)].get();
  Labels ends;
  for (int64_t t = T - 1; t >= 0; --t) {
    ends = both(reached[size_t(t)], t < T - 1 ? step(ends, predecessors_, edges(t + 1), 1, L) : possible(batch_.end));
    for (int64_t j = 0; j < L; ++j) copy[t * L + j] = has(ends, j) ? row(t)[j] : R(forbidden);
  }
  rows_[size_t(b)] = copy;
}

template class CompletePaths<float>;
template class CompletePaths<double>;

}  // namespace trellis::chain

// From weights and emissions to lists of labels as Python has them.
#pragma once

#include "base/numbers.h"
#include "bind/python.h"
#include "chain/inference.h"
#include "features/scoring.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace trellis::bind {

using namespace chain;
using namespace features;

// A list for each sequence with names[ids[row]] for each of its tokens; there are so many rows.
nanobind::list name_lists(const nanobind::list& names, const int64_t* ids, int64_t rows, const Layout& layout);

// The chain of a model whose transitions do not depend on the place, and the name of each state.
class Labeller {
 public:
  using Numbers = Array<const double>;

  Labeller(nanobind::list names, Numbers transitions, Numbers start, Numbers end)
      : names_(std::move(names)), transitions_(std::move(transitions)), start_(std::move(start)), end_(std::move(end)) {
    const size_t L = names_.size();
    if (start_.size() != L || end_.size() != L || transitions_.size() != L * L)
      throw nanobind::value_error("a chain of L states has (L, L) transitions, L starts and L ends");
  }
  int64_t labels() const { return int64_t(start_.size()); }

  // The names of the best states of each sequence, None if there is a problem. score(offsets, emissions) is run without
  // the interpreter lock if there is much to do; it costs so many operations per token.
  template <typename F>
  nanobind::object best(std::vector<int64_t> offsets, int64_t cost, F score) const {
    auto layout = std::make_shared<Layout>();
    layout->offsets = std::move(offsets);
    std::vector<int64_t> ids(size_t(layout->tokens()));
    Outcome outcome;
    without_lock(layout->tokens() * (cost + labels() * labels()), [&] {
      const Block<double> emissions(layout->tokens() * labels());
      score(layout->offsets, emissions);
      outcome = find(layout, emissions, ids);
    });
    if (outcome.status) return nanobind::none();
    return name_lists(names_, ids.data(), layout->tokens(), *layout);
  }

 private:
  Outcome find(const std::shared_ptr<const Layout>& layout, const double* emissions, std::vector<int64_t>& ids) const {
    std::vector<double> scores(size_t(layout->sequences()));
    Inference<double> chain(layout, emissions, transitions_.data(), start_.data(), end_.data(), labels());
    return chain.viterbi(ids.data(), layout->tokens(), scores.data());
  }

  nanobind::list names_;
  Numbers transitions_, start_, end_;
};

// Weights of attributes as Python holds them, made ready for scoring, with the array of labels that they point into.
struct ReadyWeights {
  WeightTable<double> table;
  nanobind::object labels;
};

}  // namespace trellis::bind

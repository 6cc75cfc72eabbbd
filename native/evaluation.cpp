// One evaluation of the objective and its gradient:
//
//   weights -> rows of shared bundles -> by shard: emissions -> forward-backward -> derivatives of the tokens
//           -> derivatives of shared bundles -> gradient by weight
//
// In single precision scores and marginals are floats, while the loss and all sums over tokens are doubles: the
// gradient is then off by about 1e-7 of the counts it is made of.
#include "objective.h"
#include "plan.h"

#include <algorithm>
#include <limits>

namespace trellis {
namespace {

// Sentences go through inference some thousands of tokens at a time: what passes between its stages stays in cache.
std::vector<int64_t> cut_shards(const std::vector<int64_t>& offsets) {
  constexpr int64_t tokens = 16384;
  std::vector<int64_t> cuts{0};
  const int64_t B = int64_t(offsets.size()) - 1;
  for (int64_t b = 1; b < B; ++b)
    if (offsets[size_t(b) + 1] - offsets[size_t(cuts.back())] > tokens) cuts.push_back(b);
  cuts.push_back(B);
  return cuts;
}

std::shared_ptr<const Layout> layout_of(const std::vector<int64_t>& offsets, int64_t first, int64_t last) {
  auto layout = std::make_shared<Layout>();
  for (int64_t b = first; b <= last; ++b) layout->offsets.push_back(offsets[size_t(b)] - offsets[size_t(first)]);
  return layout;
}

// Sentences first .. last - 1 on their way through inference.
template <typename R>
struct Shard {
  std::shared_ptr<const Layout> layout;
  const R *emissions, *transitions, *start, *end;
  const int64_t* tags;          // [tokens] or null
  const uint8_t* allowed;       // [tokens, L] or null
  const double* weights;        // [sentences]
  const double* token_weights;  // [tokens] or null
  int64_t L;
  R* derivatives;               // [tokens, L]; null where only the loss is asked for
  std::vector<double> nll;      // [sentences]
  std::vector<R> steps;         // [L, L] derivatives of the transitions, and then of start and end

  Inference<R> chain(const R* scores) const { return {layout, scores, transitions, start, end, L}; }
  Outcome gradient(Inference<R>& chain, const int64_t* gold, R* to) {
    R* ends = steps.data() + L * L;
    return chain.gradient(weights, 1.0, gold, layout->tokens(), to, steps.data(), ends, ends + L);
  }
  Outcome full_labels(std::vector<double>& step_sums) {
    Inference<R> all = chain(emissions);
    const Outcome outcome = token_weights ? all.weighted_nll(tags, token_weights, nll.data())
                                          : all.nll(tags, nll.data(), derivatives);
    if (outcome.status != exact || !derivatives) return outcome;
    R* ends = steps.data() + L * L;
    if (token_weights) {
      all.weighted_nll_gradient(tags, token_weights, weights, derivatives, steps.data(), ends, ends + L);
    } else {
      gradient(all, tags, derivatives);
    }
    for (int64_t i = 0; i < L * L; ++i) step_sums[size_t(i)] += double(steps[size_t(i)]);
    return {};
  }
  // -log P(the labels are among those allowed) = log Z - log Z of the allowed paths; its gradient is the difference of
  // the two sets of marginals.
  Outcome partial_labels(std::vector<double>& step_sums) {
    const int64_t cells = layout->tokens() * L;
    std::vector<R> masked(emissions, emissions + cells), inner(derivatives ? size_t(cells) : 0);
    std::vector<double> inside(nll.size());
    for (int64_t i = 0; i < cells; ++i)
      if (!allowed[i]) masked[size_t(i)] = -std::numeric_limits<R>::infinity();
    Inference<R> all = chain(emissions), known = chain(masked.data());
    Outcome outcome = all.log_partition(nll.data(), derivatives);
    if (outcome.status == exact) outcome = known.log_partition(inside.data(), derivatives);
    if (outcome.status != exact) return outcome;
    for (size_t b = 0; b < nll.size(); ++b) nll[b] = std::max(nll[b] - inside[b], 0.0);
    if (!derivatives) return {};
    gradient(all, nullptr, derivatives);
    for (int64_t i = 0; i < L * L; ++i) step_sums[size_t(i)] += double(steps[size_t(i)]);
    gradient(known, nullptr, inner.data());
    for (int64_t i = 0; i < L * L; ++i) step_sums[size_t(i)] -= double(steps[size_t(i)]);
    for (int64_t i = 0; i < cells; ++i) derivatives[i] -= inner[size_t(i)];
    return {};
  }
};

template <typename R>
class EvaluationIn final : public Evaluation {
 public:
  explicit EvaluationIn(const Objective& objective)
      : objective_(objective),
        L_(objective.L()),
        shards_(cut_shards(objective.data().offsets)),
        plan_(objective.data(), objective.pairs()) {}

  Outcome evaluate(const double* weights, double* gradient, double* loss) override {
    std::vector<double> step_sums(size_t(L_ * L_), 0.0);
    const std::vector<R> chain = chain_scores(weights);
    plan_.score_rows(weights);
    *loss = 0.0;
    for (size_t s = 0; s + 1 < shards_.size(); ++s) {
      const Outcome outcome = evaluate_shard(shards_[s], shards_[s + 1], chain, weights, gradient, step_sums, loss);
      if (outcome.status != exact) return {outcome.status, outcome.sequence + shards_[s]};
    }
    if (!gradient) return {};
    plan_.gradient(gradient);
    double* step_gradient = gradient + objective_.states().labels.size();
    for (const int32_t step : objective_.steps()) *step_gradient++ = step_sums[size_t(step)];
    return {};
  }

 private:
  // Transitions, then start, then end, in R.
  std::vector<R> chain_scores(const double* weights) const {
    std::vector<double> transitions(size_t(L_ * L_));
    objective_.transition_scores(weights, 1.0, transitions.data());
    std::vector<R> scores(transitions.begin(), transitions.end());
    scores.insert(scores.end(), objective_.start_scores().begin(), objective_.start_scores().end());
    scores.insert(scores.end(), objective_.end_scores().begin(), objective_.end_scores().end());
    return scores;
  }

  Outcome evaluate_shard(int64_t first, int64_t last, const std::vector<R>& chain, const double* weights,
                         bool with_gradient, std::vector<double>& step_sums, double* loss) {
    const Dataset& data = objective_.data();
    const Supervision& known = objective_.supervision();
    const int64_t from = data.offsets[size_t(first)], to = data.offsets[size_t(last)];
    emissions_.resize(std::max(emissions_.size(), size_t((to - from) * L_)));
    plan_.score_tokens(weights, from, to, emissions_.data());
    const std::vector<double> ones(size_t(last - first), 1.0);
    Shard<R> shard{layout_of(data.offsets, first, last),
                   emissions_.data(),
                   chain.data(),
                   chain.data() + L_ * L_,
                   chain.data() + L_ * L_ + L_,
                   known.tags ? known.tags + from : nullptr,
                   known.allowed ? known.allowed + from * L_ : nullptr,
                   known.sentence_weights ? known.sentence_weights + first : ones.data(),
                   known.token_weights ? known.token_weights + from : nullptr,
                   L_,
                   with_gradient ? plan_.derivatives(from) : nullptr,
                   std::vector<double>(size_t(last - first)),
                   std::vector<R>(size_t(L_ * (L_ + 2)))};
    const Outcome outcome = shard.allowed ? shard.partial_labels(step_sums) : shard.full_labels(step_sums);
    if (outcome.status != exact) return outcome;
    for (size_t b = 0; b < shard.nll.size(); ++b) *loss += shard.weights[b] * shard.nll[b];
    return {};
  }

  const Objective& objective_;
  int64_t L_;
  std::vector<int64_t> shards_;  // sentences at which shards begin, and B
  Plan<R> plan_;
  std::vector<R> emissions_;
};

}  // namespace

std::unique_ptr<Evaluation> make_evaluation(const Objective& objective, bool single_precision) {
  if (single_precision) return std::make_unique<EvaluationIn<float>>(objective);
  return std::make_unique<EvaluationIn<double>>(objective);
}

}  // namespace trellis

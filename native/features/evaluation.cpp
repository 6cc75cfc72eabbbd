// One evaluation of the objective and its gradient:
//
//   weights -> rows of shared bundles -> by shard: emissions -> forward-backward -> derivatives of the tokens
//           -> derivatives of shared bundles -> gradient by weight
//
// Edges are scored, and their derivatives added to the gradient, shard by shard: a corpus of them would fill memory.
//
// In single precision scores and marginals are floats, while the loss and all sums over tokens are doubles: the
// gradient is then off by about 1e-7 of the counts it is made of.
#include "features/evaluation.h"

#include "features/edges.h"
#include "features/finer.h"
#include "features/objective.h"
#include "features/plan.h"
#include "features/shard.h"

#include <algorithm>
#include <optional>

namespace trellis {
namespace {

// Sentences go through inference some thousands of tokens at a time, or as many as have a few megabytes of edges: what
// passes between its stages stays in cache.
std::vector<int64_t> cut_shards(const Borrowed<int64_t>& sentences, int64_t edge_bytes) {
  constexpr int64_t most = 16384, least = 64, most_bytes = 1 << 20;
  const int64_t tokens = edge_bytes ? std::clamp(most_bytes / edge_bytes, least, most) : most;
  std::vector<int64_t> cuts{0};
  const int64_t* offsets = sentences.data();
  const int64_t B = int64_t(sentences.size()) - 1;
  for (int64_t b = 1; b < B; ++b)
    if (offsets[b + 1] - offsets[cuts.back()] > tokens) cuts.push_back(b);
  cuts.push_back(B);
  return cuts;
}

std::shared_ptr<const Layout> layout_of(const int64_t* offsets, int64_t first, int64_t last) {
  auto layout = std::make_shared<Layout>();
  for (int64_t b = first; b <= last; ++b) layout->offsets.push_back(offsets[b] - offsets[first]);
  return layout;
}

template <typename R>
class EvaluationIn final : public Evaluation {
 public:
  explicit EvaluationIn(const Objective& objective)
      : objective_(objective),
        L_(objective.L()),
        S_(objective.S()) {
    cut_sentences();
    if (objective.has_edges()) edge_plan_.emplace(objective.edge_data(), objective.edge_pairs(), shards_);
  }

  Outcome evaluate(const double* weights, double* gradient, double* loss) override {
    cut_sentences();
    std::vector<double> step_sums(size_t(S_ * S_), 0.0);
    const std::vector<R> chain = chain_scores(weights);
    Plan<R> plan(objective_.plan(), objective_.pairs(), room_.rows(Plan<R>::row_cells(objective_.plan(), L_)));
    plan.score_rows(weights);
    *loss = 0.0;
    for (size_t s = 0; s + 1 < shards_.size(); ++s) {
      const Outcome outcome = evaluate_shard(s, plan, chain, weights, gradient, step_sums, loss);
      if (outcome.status != exact) return {outcome.status, outcome.sequence + shards_[s]};
    }
    if (!gradient) return {};
    plan.add_gradient(gradient);
    objective_.add_step_gradient(step_sums.data(), 1.0, gradient + objective_.first_step());
    return {};
  }

 private:
  // Of the plan that the objective has now.
  void cut_sentences() {
    shards_ = cut_shards(objective_.plan().offsets, objective_.has_edges() ? L_ * L_ * int64_t(sizeof(R)) : 0);
  }

  // Transitions, then start, then end, in R.
  std::vector<R> chain_scores(const double* weights) const {
    std::vector<double> transitions(size_t(S_ * S_));
    objective_.transition_scores(weights, 1.0, transitions.data());
    std::vector<R> scores(transitions.begin(), transitions.end());
    scores.insert(scores.end(), objective_.start_scores().begin(), objective_.start_scores().end());
    scores.insert(scores.end(), objective_.end_scores().begin(), objective_.end_scores().end());
    return scores;
  }

  Outcome evaluate_shard(size_t s, Plan<R>& plan, const std::vector<R>& chain, const double* weights,
                         double* gradient, std::vector<double>& step_sums, double* loss) {
    const int64_t first = shards_[s], last = shards_[s + 1];
    const int64_t* offsets = objective_.plan().offsets.data();
    const Supervision& known = objective_.supervision();
    const int64_t from = offsets[first], to = offsets[last];
    room_.emissions.resize(std::max(room_.emissions.size(), size_t((to - from) * L_)));
    room_.derivatives.resize(gradient ? room_.emissions.size() : 0);
    plan.score_tokens(weights, first, last, room_.emissions.data());
    const std::vector<double> ones(size_t(last - first), 1.0);
    Shard<R> shard{layout_of(offsets, first, last),
                   room_.emissions.data(),
                   chain.data(),
                   chain.data() + S_ * S_,
                   chain.data() + S_ * S_ + S_,
                   known.tags ? objective_.chain_tags() + from : nullptr,
                   known.allowed ? known.allowed + from * L_ : nullptr,
                   known.sentence_weights ? known.sentence_weights + first : ones.data(),
                   known.token_weights ? known.token_weights + from : nullptr,
                   S_,
                   gradient ? room_.derivatives.data() : nullptr};
    const Outcome outcome = objective_.finer() ? evaluate_finer(shard, step_sums, loss)
                            : edge_plan_       ? evaluate_edges(s, shard, weights, gradient, step_sums, loss)
                                               : shard.run(step_sums, loss);
    if (outcome.status == exact && gradient) plan.take_derivatives(first, last, room_.derivatives.data());
    return outcome;
  }

  // The states of the chain are finer than labels: their emissions are those of their labels.
  Outcome evaluate_finer(Shard<R>& shard, std::vector<double>& step_sums, double* loss) {
    const int64_t tokens = shard.layout->tokens();
    const std::vector<uint16_t>& labels = objective_.chain_labels();
    std::vector<R> emissions(size_t(tokens * S_)), derivatives(shard.derivatives ? emissions.size() + 1 : 0);
    std::vector<uint8_t> allowed(shard.allowed ? emissions.size() : 0);
    spread_labels(shard.emissions, tokens, L_, labels, emissions.data());
    if (shard.allowed) spread_labels(shard.allowed, tokens, L_, labels, allowed.data());
    R* by_label = shard.derivatives;
    shard.emissions = emissions.data();
    shard.allowed = shard.allowed ? allowed.data() : nullptr;
    shard.derivatives = by_label ? derivatives.data() : nullptr;
    const Outcome outcome = shard.run(step_sums, loss);
    if (outcome.status == exact && by_label) gather_labels(derivatives.data(), tokens, L_, labels, by_label);
    return outcome;
  }

  Outcome evaluate_edges(size_t s, Shard<R>& shard, const double* weights, double* gradient,
                         std::vector<double>& step_sums, double* loss) {
    const size_t cells = size_t(shard.layout->pairs() * L_ * L_);
    room_.edges.resize(std::max(room_.edges.size(), cells + 1));  // never null, even if no sentence has two tokens
    room_.edge_derivatives.resize(room_.edges.size());
    edge_plan_->score(s, weights + objective_.first_edge(), room_.edges.data());
    shard.edges = room_.edges.data();
    shard.edge_derivatives = gradient ? room_.edge_derivatives.data() : nullptr;
    const Outcome outcome = shard.run(step_sums, loss);
    if (outcome.status == exact && gradient)
      edge_plan_->add_gradient(s, room_.edge_derivatives.data(), gradient + objective_.first_edge());
    return outcome;
  }

  const Objective& objective_;
  int64_t L_, S_;
  std::vector<int64_t> shards_;  // sentences at which shards begin, and B
  Room<R> room_;
  std::optional<EdgePlan<R>> edge_plan_;
};

}  // namespace

std::unique_ptr<Evaluation> make_evaluation(const Objective& objective, bool single_precision) {
  if (single_precision) return std::make_unique<EvaluationIn<float>>(objective);
  return std::make_unique<EvaluationIn<double>>(objective);
}

}  // namespace trellis

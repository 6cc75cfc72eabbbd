// One evaluation of the objective and its gradient:
//
//   weights -> rows of shared bundles -> by shard: emissions -> forward-backward -> derivatives of the tokens
//           -> derivatives of shared bundles -> gradient by weight
//
// Edges are scored, and their derivatives added to the gradient, shard by shard: a corpus of them would fill memory.
//
// In single precision scores and marginals are floats, while the loss and all sums over tokens are doubles: the
// gradient is then off by about 1e-7 of the counts it is made of.
#include "features/objective.h"

#include "base/threads.h"
#include "features/edges.h"
#include "features/plan.h"
#include "features/shard.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace trellis::features {

// How the objective is computed, in single or double precision.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  // The gradient is added to what is there.
  virtual Outcome evaluate(const CorpusPart& part, const double* weights, double* gradient, double* loss) = 0;
};

namespace {

// Sentences go through inference as many at a time as fit, with all that passes between its stages, into the cache of
// one core; fewer, if there are not enough of them for many cores.
std::vector<int64_t> cut_shards(const Borrowed<int64_t>& sentences, int64_t token_bytes) {
  constexpr int64_t most = 8192, few = 1024, least = 64, most_bytes = 1 << 20, shards = 16;
  const int64_t* offsets = sentences.data();
  const int64_t B = int64_t(sentences.size()) - 1;
  const int64_t wanted = std::clamp(offsets[B] / shards, few, most);
  const int64_t tokens = std::max(std::min(wanted, most_bytes / token_bytes), least);
  std::vector<int64_t> cuts{0};
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
      : objective_(objective), L_(objective.L()), S_(objective.S()) {}

  Outcome evaluate(const CorpusPart& part, const double* weights, double* gradient, double* loss) override {
    const int64_t cells = objective_.has_edges() ? L_ * L_ : L_;
    Call call{part,
              cut_shards(part.plan.offsets, cells * int64_t(sizeof(R))),
              chain_scores(weights),
              Plan<R>(part.plan, objective_.pairs(), rows_.numbers(Plan<R>::row_cells(part.plan, L_))),
              weights,
              gradient};
    if (objective_.has_edges() && !edge_plan_)
      edge_plan_.emplace(objective_.edge_data(), objective_.edge_pairs(), call.shards);
    call.plan.score_rows(weights);
    const ShardSums sums = evaluate_shards(call);
    if (sums.outcome.status != exact) return sums.outcome;
    *loss = sums.loss;
    if (!gradient) return {};
    call.plan.add_gradient(gradient);
    objective_.add_step_gradient(sums.steps.data(), 1.0, gradient + objective_.first_step());
    return {};
  }

 private:
  // One evaluation.
  struct Call {
    const CorpusPart& part;
    std::vector<int64_t> shards;  // sentences at which shards begin, and B
    std::vector<R> chain;         // transitions, then start, then end
    Plan<R> plan;
    const double* weights;
    double* gradient;
  };
  // Of some shards, one after another.
  struct ShardSums {
    std::vector<double> steps;  // derivatives of the transitions [S, S]
    double loss = 0.0;
    Outcome outcome;  // the first problem

    explicit ShardSums(int64_t S) : steps(size_t(S * S), 0.0) {}
    void add(const ShardSums& other) {
      for (size_t i = 0; i < steps.size(); ++i) steps[i] += other.steps[i];
      loss += other.loss;
      if (outcome.status == exact) outcome = other.outcome;
    }
  };

  // Each thread takes shards from emissions to derivatives by itself: only weights and rows travel between cores. Edges
  // of all shards are added to the same gradient, so there the threads share each shard.
  ShardSums evaluate_shards(Call& call) {
    constexpr int64_t most_tasks = 64, most_bytes = 8 << 20;
    const int64_t shards = int64_t(call.shards.size()) - 1;
    const int64_t affordable = std::clamp<int64_t>(most_bytes / (S_ * S_ * int64_t(sizeof(double))), 4, most_tasks);
    const int64_t tasks = edge_plan_ ? 1 : std::min(shards, affordable);
    std::vector<ShardSums> found(static_cast<size_t>(tasks), ShardSums(S_));
    const int threads = num_threads();
    workspaces_.resize(std::max(workspaces_.size(), size_t(threads)));
    run_tasks(tasks, threads, [&](int64_t task) {
      ShardSums& own = found[size_t(task)];
      Workspace<R>& workspace = workspaces_[size_t(task_thread())];
      for (int64_t s = shards * task / tasks; s < shards * (task + 1) / tasks && own.outcome.status == exact; ++s) {
        own.outcome = evaluate_shard(call, size_t(s), workspace, own.steps, &own.loss);
        own.outcome.sequence += call.shards[size_t(s)];
      }
    });
    for (size_t task = 1; task < found.size(); ++task) found[0].add(found[task]);
    return std::move(found[0]);
  }

  std::vector<R> chain_scores(const double* weights) const {
    std::vector<double> transitions(size_t(S_ * S_));
    objective_.transition_scores(weights, 1.0, transitions.data());
    std::vector<R> scores(transitions.begin(), transitions.end());
    scores.insert(scores.end(), objective_.start_scores().begin(), objective_.start_scores().end());
    scores.insert(scores.end(), objective_.end_scores().begin(), objective_.end_scores().end());
    return scores;
  }

  Outcome evaluate_shard(Call& call, size_t s, Workspace<R>& workspace, std::vector<double>& step_sums, double* loss) {
    const int64_t first = call.shards[s], last = call.shards[s + 1];
    const int64_t* offsets = call.part.plan.offsets.data();
    const Supervision& known = call.part.known;
    const int64_t* tags = objective_.finer() ? call.part.chain_tags : known.tags;
    const R* chain = call.chain.data();
    const int64_t from = offsets[first], to = offsets[last];
    workspace.emissions.resize(std::max(workspace.emissions.size(), size_t((to - from) * L_)));
    workspace.derivatives.resize(call.gradient ? workspace.emissions.size() : 0);
    call.plan.score_tokens(call.weights, first, last, workspace.emissions.data());
    const std::vector<double> ones(size_t(last - first), 1.0);
    Shard<R> shard{layout_of(offsets, first, last),
                   workspace.emissions.data(),
                   chain,
                   chain + S_ * S_,
                   chain + S_ * S_ + S_,
                   known.tags ? tags + from : nullptr,
                   known.allowed ? known.allowed + from * L_ : nullptr,
                   known.sentence_weights ? known.sentence_weights + first : ones.data(),
                   known.token_weights ? known.token_weights + from : nullptr,
                   S_,
                   call.gradient ? workspace.derivatives.data() : nullptr};
    const Outcome outcome = objective_.finer() ? evaluate_finer(shard, step_sums, loss)
                            : edge_plan_       ? evaluate_edges(call, s, workspace, shard, step_sums, loss)
                                               : shard.run(step_sums, loss);
    if (outcome.status == exact && call.gradient) call.plan.take_derivatives(first, last, workspace.derivatives.data());
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

  Outcome evaluate_edges(const Call& call, size_t s, Workspace<R>& workspace, Shard<R>& shard, std::vector<double>& step_sums,
                         double* loss) {
    const size_t cells = size_t(shard.layout->pairs() * L_ * L_);
    workspace.edges.resize(std::max(workspace.edges.size(), cells + 1));  // never null, even if no sentence has two tokens
    workspace.edge_derivatives.resize(workspace.edges.size());
    edge_plan_->score(s, call.weights + objective_.first_edge(), workspace.edges.data());
    shard.edges = workspace.edges.data();
    shard.edge_derivatives = call.gradient ? workspace.edge_derivatives.data() : nullptr;
    const Outcome outcome = shard.run(step_sums, loss);
    if (outcome.status == exact && call.gradient)
      edge_plan_->add_gradient(s, workspace.edge_derivatives.data(), call.gradient + objective_.first_edge());
    return outcome;
  }

  const Objective& objective_;
  int64_t L_, S_;
  RowMemory<R> rows_;
  std::vector<Workspace<R>> workspaces_;   // of threads
  std::optional<EdgePlan<R>> edge_plan_;
};

}  // namespace

Objective::~Objective() = default;

Objective::Objective(std::shared_ptr<Dataset> data, int64_t attributes, int64_t L, const Supervision& supervision,
                     bool single_precision)
    : data_(std::move(data)),
      L_(L),
      supervision_(supervision),
      base_(size_t(L * L), 0.0),
      start_(size_t(L), 0.0),
      end_(size_t(L), 0.0),
      single_precision_(single_precision) {
  states_.ends.assign(size_t(attributes), 0);
}

void Objective::set_states(StateFeatures states) {
  const std::lock_guard<std::mutex> lock(mutex_);
  states_ = std::move(states);
  flat_plan_ = {};
  evaluation_.reset();
}

void Objective::make_plan() {
  if (flat_plan_.size) return;
  flat_plan_ = features::make_plan(*data_, pairs());
  plan_ = read_plan(flat_plan_.bytes, flat_plan_.size);
}

void Objective::settle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  // A plan is made from one of these; both say the same.
  has_windows(*data_, pairs()) ? release(data_->token_bundles) : release(data_->windows);
  make_plan();
  data_->forget_features();
  settled_ = true;
}

void Objective::set_edges(std::shared_ptr<const Dataset> data, StateFeatures edges) {
  const std::lock_guard<std::mutex> lock(mutex_);
  edge_data_ = std::move(data);
  edges_ = std::move(edges);
  evaluation_.reset();
}

void Objective::set_chain(std::vector<uint16_t> labels, const int64_t* tags) {
  const std::lock_guard<std::mutex> lock(mutex_);
  chain_labels_ = std::move(labels);
  chain_tags_ = tags;
  evaluation_.reset();
}

void Objective::set_transitions(const uint8_t* transitions, const uint8_t* start, const uint8_t* end,
                                StepWeights weights) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto scores = [](const uint8_t* allowed, int64_t count) {
    std::vector<double> found(static_cast<size_t>(count));
    for (size_t i = 0; i < found.size(); ++i) found[i] = allowed[i] ? 0.0 : forbidden;
    return found;
  };
  base_ = scores(transitions, S() * S());
  start_ = scores(start, S());
  end_ = scores(end, S());
  steps_ = std::move(weights);
}

Evaluation& Objective::evaluation() {
  if (!evaluation_ && single_precision_) evaluation_ = std::make_unique<EvaluationIn<float>>(*this);
  if (!evaluation_) evaluation_ = std::make_unique<EvaluationIn<double>>(*this);
  return *evaluation_;
}

Outcome Objective::evaluate(const double* weights, double* gradient, double* loss) {
  const std::lock_guard<std::mutex> lock(mutex_);
  make_plan();
  if (gradient)
    for_chunks(size(), [&](int64_t first, int64_t last) { std::fill(gradient + first, gradient + last, 0.0); });
  return evaluation().evaluate({plan_, supervision_, chain_tags_}, weights, gradient, loss);
}

FlatPlan Objective::plan_of(const Dataset& data) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return features::make_plan(data, pairs());
}

Outcome Objective::evaluate_part(const CorpusPart& part, const double* weights, double* gradient, double* loss) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (has_edges()) throw std::invalid_argument("features of transitions are those of a whole corpus");
  return evaluation().evaluate(part, weights, gradient, loss);
}

void Objective::transition_scores(const double* weights, double scale, double* scores) const {
  std::copy(base_.begin(), base_.end(), scores);
  for (size_t i = 0; i < steps_.cells.size(); ++i)
    scores[steps_.cells[i]] += scale * weights[first_step() + steps_.numbers[i]];
}

void Objective::add_step_gradient(const double* derivatives, double factor, double* gradient) const {
  for (size_t i = 0; i < steps_.cells.size(); ++i)
    gradient[steps_.numbers[i]] += factor * derivatives[steps_.cells[i]];
}

}  // namespace trellis::features

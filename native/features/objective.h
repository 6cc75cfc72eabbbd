// The training objective of the feature CRF: the weighted sum of negative log-likelihoods, with its gradient.
//
// Weights are numbered: first the state pairs (attribute, label) attribute by attribute, then those of transitions, then
// the edge features. A transition without a weight scores 0, a forbidden one minus infinity.
//
// The states of the chain are the L labels, or finer: then each of the S states stands for a label, which its emissions
// are those of, and a weight may belong to several transitions.
#pragma once

#include "chain/inference.h"
#include "features/edges.h"
#include "features/plan.h"
#include "features/scoring.h"
#include "features/states.h"

#include <memory>
#include <mutex>
#include <vector>

namespace trellis::features {

using namespace chain;

class Evaluation;

// Some sentences, how they are scored, and what is known about their labels. All of it lies elsewhere, be it in a file
// that is mapped.
struct CorpusPart {
  PlanView plan;
  Supervision known;
  const int64_t* chain_tags = nullptr;  // the states of the tokens, see Objective::set_chain
};

// The weights of the transitions `cells`, each from * S + to, by number.
struct StepWeights {
  std::vector<int32_t> cells, numbers;
  int64_t count = 0;  // of different weights
};

// One thread at a time changes or evaluates it; others wait. What online training reads of it is not guarded.
class Objective {
 public:
  Objective(std::shared_ptr<Dataset> data, int64_t attributes, int64_t L, const Supervision& supervision,
            bool single_precision);
  ~Objective();

  void set_states(StateFeatures states);
  // After the last change: from here on only `evaluate` works, and features have no other memory than its plan.
  void settle();
  bool settled() const { return settled_; }
  // labels[S] of the states of the chain, and the states of the tokens [N], or null if some are not fully known.
  void set_chain(std::vector<uint16_t> labels, const int64_t* tags);
  // 1 allowed, 0 forbidden: transitions [S, S], start and end [S]. See StepWeights.
  void set_transitions(const uint8_t* transitions, const uint8_t* start, const uint8_t* end, StepWeights weights);
  // Features of transitions: the same sentences as features of the step into each token; see edges.h.
  void set_edges(std::shared_ptr<const Dataset> data, StateFeatures edges);

  int64_t size() const { return first_edge() + int64_t(edges_.labels.size()); }
  int64_t L() const { return L_; }
  int64_t S() const { return finer() ? int64_t(chain_labels_.size()) : L_; }
  bool finer() const { return !chain_labels_.empty(); }
  const int64_t* chain_tags() const { return finer() ? chain_tags_ : supervision_.tags; }
  const std::vector<uint16_t>& chain_labels() const { return chain_labels_; }
  int64_t attributes() const { return int64_t(states_.ends.size()); }
  const Dataset& data() const { return *data_; }
  const Supervision& supervision() const { return supervision_; }
  const StateFeatures& states() const { return states_; }
  Pairs pairs() const { return {states_.ends.data(), states_.labels.data(), attributes(), L_}; }
  const StepWeights& steps() const { return steps_; }
  int64_t first_step() const { return int64_t(states_.labels.size()); }  // the number of its weight
  bool has_edges() const { return edge_data_ != nullptr; }
  const Dataset& edge_data() const { return *edge_data_; }
  const StateFeatures& edges() const { return edges_; }
  Pairs edge_pairs() const { return {edges_.ends.data(), edges_.labels.data(), int64_t(edges_.ends.size()), L_ * L_}; }
  int64_t first_edge() const { return first_step() + steps_.count; }

  // sum_b weight_b * nll_b, and its gradient [size] unless null; the outcome names the first sentence it fails on.
  Outcome evaluate(const double* weights, double* gradient, double* loss);

  // A plan for other sentences with the same attributes, and their loss; the gradient is added to what is there.
  FlatPlan plan_of(const Dataset& data) const;
  Outcome evaluate_part(const CorpusPart& part, const double* weights, double* gradient, double* loss);

  // Transition scores [S, S] of these weights times scale; the scores of first and last states are fixed.
  void transition_scores(const double* weights, double scale, double* scores) const;
  // gradient[i] += factor * the sum of the derivatives [S, S] of the transitions that have weight i, counted from the
  // first of them
  void add_step_gradient(const double* derivatives, double factor, double* gradient) const;
  const std::vector<double>& base_scores() const { return base_; }  // [S, S] without weights
  const std::vector<double>& start_scores() const { return start_; }
  const std::vector<double>& end_scores() const { return end_; }

 private:
  void make_plan();
  Evaluation& evaluation();

  mutable std::mutex mutex_;
  std::shared_ptr<Dataset> data_;
  std::shared_ptr<const Dataset> edge_data_;
  int64_t L_;
  Supervision supervision_;
  StateFeatures states_, edges_;
  StepWeights steps_;
  std::vector<uint16_t> chain_labels_;  // [S], or empty if the states are the labels
  const int64_t* chain_tags_ = nullptr;
  std::vector<double> base_, start_, end_;  // 0, or minus infinity if forbidden
  bool single_precision_, settled_ = false;
  FlatPlan flat_plan_;
  PlanView plan_;  // of these states, in flat_plan_ if that has any bytes
  std::unique_ptr<Evaluation> evaluation_;  // of these states; made when first asked for
};

}  // namespace trellis::features

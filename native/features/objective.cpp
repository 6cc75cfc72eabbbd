#include "features/objective.h"

#include <algorithm>
#include <stdexcept>

namespace trellis::features {

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
  if (!evaluation_) evaluation_ = make_evaluation(*this, single_precision_);
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

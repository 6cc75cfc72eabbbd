#include "features/objective.h"

#include <algorithm>
#include <limits>

namespace trellis {

Objective::Objective(std::shared_ptr<const Dataset> data, int64_t attributes, int64_t L,
                     const Supervision& supervision, bool single_precision)
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
  states_ = std::move(states);
  evaluation_.reset();
}

void Objective::set_edges(std::shared_ptr<const Dataset> data, StateFeatures edges) {
  edge_data_ = std::move(data);
  edges_ = std::move(edges);
  evaluation_.reset();
}

void Objective::set_transitions(const uint8_t* transitions, const uint8_t* start, const uint8_t* end) {
  constexpr double forbidden = -std::numeric_limits<double>::infinity();
  steps_.clear();
  for (int64_t i = 0; i < L_ * L_; ++i) {
    base_[size_t(i)] = transitions[i] ? 0.0 : forbidden;
    if (transitions[i] == 2) steps_.push_back(int32_t(i));
  }
  for (int64_t l = 0; l < L_; ++l) {
    start_[size_t(l)] = start[l] ? 0.0 : forbidden;
    end_[size_t(l)] = end[l] ? 0.0 : forbidden;
  }
}

Outcome Objective::evaluate(const double* weights, double* gradient, double* loss) {
  if (!evaluation_) evaluation_ = make_evaluation(*this, single_precision_);
  return evaluation_->evaluate(weights, gradient, loss);
}

void Objective::transition_scores(const double* weights, double scale, double* scores) const {
  std::copy(base_.begin(), base_.end(), scores);
  for (size_t i = 0; i < steps_.size(); ++i) scores[steps_[i]] = scale * weights[first_step() + int64_t(i)];
}

}  // namespace trellis

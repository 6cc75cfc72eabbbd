#include "features/online.h"

#include "base/threads.h"
#include "features/shard.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace trellis::features {
namespace {

// Rows of scores, one per token of a batch: that of tokens[i] is the sum of its attributes' weights, which are numbered
// from `first`. A row has a score for each label, or, of the step into a token, for each pair of labels.
struct BatchScores {
  const Dataset& data;
  Pairs pairs;
  int64_t first;
  const std::vector<int64_t>& tokens;

  int64_t count() const { return int64_t(tokens.size()); }
  int64_t width() const { return pairs.labels_in_all; }
  // f(weight, label, value) for every weight that speaks at tokens[i]
  template <typename F>
  void for_weights(int64_t i, F f) const {
    for_pairs(data, pairs, tokens[size_t(i)], [&](int64_t p, int64_t l, double value) { f(first + p, l, value); });
  }
  void score(const double* weights, double scale, std::vector<double>& scores) const {
    constexpr int64_t chunk = 64;
    scores.assign(size_t(count() * width()), 0.0);
    run_tasks(parts_of(count(), chunk), num_threads(), [&](int64_t task) {
      for (int64_t i = task * chunk; i < std::min(count(), (task + 1) * chunk); ++i) {
        double* row = scores.data() + i * width();
        for_weights(i, [&](int64_t w, int64_t l, double value) { row[l] += value * scale * weights[w]; });
      }
    });
  }
  // weights -= step * gradient, given the derivatives of the rows. Each task owns the attributes of one
  // remainder, so that no two write the same weight and the order of the tokens decides the order of the sums.
  void step(const double* derivatives, double step, double* weights) const {
    constexpr int64_t tasks = 4;
    run_tasks(tasks, num_threads(), [&](int64_t task) {
      for (int64_t i = 0; i < count(); ++i) {
        const double* row = derivatives + i * width();
        data.for_attributes(tokens[size_t(i)], [&](int64_t a, double value) {
          if (a % tasks != task) return;
          const double scaled = step * value;
          for (int64_t p = pairs.begin(a); p < pairs.ends[a]; ++p) weights[first + p] -= scaled * row[pairs.labels[p]];
        });
      }
    });
  }
};

// The sentences of one batch, their tokens one after another, with what is known of their labels.
struct Batched {
  const Objective& objective;
  std::vector<int64_t> tokens, later, tags;  // `later`: the tokens that have one before them
  std::vector<uint8_t> allowed;
  std::vector<double> weights, token_weights, emissions, transitions, edges;
  std::shared_ptr<Layout> layout;

  explicit Batched(const Objective& objective) : objective(objective) {}

  void take(const int64_t* sentences, int64_t count) {
    const Supervision& known = objective.supervision();
    const int64_t* states = objective.chain_tags();
    layout = std::make_shared<Layout>();
    layout->offsets.push_back(0);
    tokens.clear(), later.clear(), tags.clear(), allowed.clear(), weights.clear(), token_weights.clear();
    const int64_t L = objective.L();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t b = sentences[i];
      const int64_t from = objective.data().offsets[size_t(b)], to = objective.data().offsets[size_t(b) + 1];
      for (int64_t n = from; n < to; ++n) tokens.push_back(n);
      for (int64_t n = from + 1; n < to; ++n) later.push_back(n);
      if (known.tags) tags.insert(tags.end(), states + from, states + to);
      if (known.allowed) allowed.insert(allowed.end(), known.allowed + from * L, known.allowed + to * L);
      if (known.token_weights)
        token_weights.insert(token_weights.end(), known.token_weights + from, known.token_weights + to);
      layout->offsets.push_back(int64_t(tokens.size()));
      weights.push_back(known.sentence_weights ? known.sentence_weights[b] : 1.0);
    }
    if (known.allowed && objective.finer()) spread(allowed);
  }
  // Rows of labels become rows of the states of the chain.
  template <typename T>
  void spread(std::vector<T>& rows) const {
    std::vector<T> by_state(tokens.size() * size_t(objective.S()));
    spread_labels(rows.data(), int64_t(tokens.size()), objective.L(), objective.chain_labels(), by_state.data());
    rows.swap(by_state);
  }
  BatchScores states() const { return {objective.data(), objective.pairs(), 0, tokens}; }
  BatchScores steps() const { return {objective.edge_data(), objective.edge_pairs(), objective.first_edge(), later}; }
  void score(const double* state, double scale) {
    states().score(state, scale, emissions);
    if (objective.finer()) spread(emissions);
    transitions.resize(size_t(objective.S() * objective.S()));
    objective.transition_scores(state, scale, transitions.data());
    if (objective.has_edges()) steps().score(state, scale, edges);
  }
  Inference<double> chain(const std::vector<double>& scores) const {
    return {layout, scores.data(), transitions.data(), objective.start_scores().data(),
            objective.end_scores().data(), objective.S(), objective.has_edges() ? edges.data() : nullptr};
  }
  Shard<double> shard(double* derivatives, double* edge_derivatives) const {
    const Supervision& known = objective.supervision();
    return {layout, emissions.data(), transitions.data(), objective.start_scores().data(),
            objective.end_scores().data(), tags.data(), known.allowed ? allowed.data() : nullptr, weights.data(),
            known.token_weights ? token_weights.data() : nullptr, objective.S(), derivatives,
            objective.has_edges() ? edges.data() : nullptr, objective.has_edges() ? edge_derivatives : nullptr};
  }
  // The best labels of one sentence with these scores.
  Outcome best(const std::vector<double>& scores, std::vector<int64_t>& labels) const {
    double score;
    labels.resize(tokens.size());
    return chain(scores).viterbi(labels.data(), int64_t(labels.size()), &score);
  }
  // Partly known labels become those of the best path among the allowed.
  Outcome complete() {
    if (allowed.empty()) return {};
    std::vector<double> masked(emissions);
    for (size_t i = 0; i < masked.size(); ++i)
      if (!allowed[i]) masked[i] = forbidden;
    return best(masked, tags);
  }
};

// The weights of each transition.
struct StepsOf {
  std::vector<int32_t> ends, weights;

  explicit StepsOf(const Objective& objective) : ends(objective.base_scores().size() + 1, 0) {
    const StepWeights& steps = objective.steps();
    for (const int32_t cell : steps.cells) ++ends[size_t(cell) + 1];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    std::vector<int32_t> next(ends);
    weights.resize(steps.cells.size());
    for (size_t i = 0; i < steps.cells.size(); ++i)
      weights[size_t(next[size_t(steps.cells[i])]++)] = int32_t(objective.first_step()) + steps.numbers[i];
  }
  template <typename F>
  void each(int64_t cell, F f) const {
    for (int32_t i = ends[size_t(cell)]; i < ends[size_t(cell) + 1]; ++i) f(weights[size_t(i)]);
  }
};

// Decodes one sentence after another, and tells how the best path differs from the right one.
class Decoder {
 public:
  explicit Decoder(const Objective& objective) : batch_(objective), weights_of_(objective) {}
  // Whether there are a best path and a right one.
  bool decode(int64_t sentence, const double* weights) {
    batch_.take(&sentence, 1);
    batch_.score(weights, 1.0);
    Outcome outcome = batch_.best(batch_.emissions, best_);
    if (outcome.status == exact) outcome = batch_.complete();
    return outcome.status == exact;
  }
  double weight() const { return batch_.weights[0]; }
  // f(weight, by) for the weights of the right path with what they count there, for those of the best one with minus
  // that, where the paths differ; returns how many labels do.
  template <typename F>
  int64_t for_difference(F f) const {
    const int64_t S = batch_.objective.S();
    const auto correct = [&](const BatchScores& rows, int64_t i, int64_t gold, int64_t guess) {
      rows.for_weights(i, [&](int64_t w, int64_t l, double value) {
        if (l == gold) f(w, value);
        if (l == guess) f(w, -value);
      });
    };
    int64_t wrong = 0;
    for (int64_t t = 0; t < int64_t(best_.size()); ++t) {
      const int64_t gold = batch_.tags[size_t(t)], guess = best_[size_t(t)];
      if (label_of(gold) != label_of(guess)) {
        ++wrong;
        correct(batch_.states(), t, label_of(gold), label_of(guess));
      }
      if (t == 0) continue;
      const int64_t right = batch_.tags[size_t(t - 1)] * S + gold, taken = best_[size_t(t - 1)] * S + guess;
      if (right == taken) continue;
      weights_of_.each(right, [&](int64_t w) { f(w, 1.0); });
      weights_of_.each(taken, [&](int64_t w) { f(w, -1.0); });
      if (batch_.objective.has_edges()) correct(batch_.steps(), t - 1, right, taken);
    }
    return wrong;
  }

 private:
  int64_t label_of(int64_t state) const {
    const Objective& objective = batch_.objective;
    return objective.finer() ? int64_t(objective.chain_labels()[size_t(state)]) : state;
  }

  Batched batch_;
  StepsOf weights_of_;
  std::vector<int64_t> best_;
};

// The features of the right path less those of the best one: a sparse vector, each weight once.
class Difference {
 public:
  explicit Difference(int64_t size) : amounts_(size_t(size), 0.0), listed_(size_t(size), 0) {}
  // Returns how many labels are wrong.
  int64_t take(const Decoder& decoder, double times) {
    for (const int64_t w : weights_) amounts_[size_t(w)] = 0.0, listed_[size_t(w)] = 0;
    weights_.clear();
    return decoder.for_difference([&](int64_t w, double by) {
      if (!listed_[size_t(w)]) listed_[size_t(w)] = 1, weights_.push_back(w);
      amounts_[size_t(w)] += times * by;
    });
  }
  template <typename F>
  void each(F f) const {
    for (const int64_t w : weights_) f(w, amounts_[size_t(w)]);
  }
  double dot(const double* weights) const {
    double sum = 0.0;
    each([&](int64_t w, double f) { sum += weights[w] * f; });
    return sum;
  }
  double norm() const {
    double sum = 0.0;
    each([&](int64_t, double f) { sum += f * f; });
    return sum;
  }

 private:
  std::vector<double> amounts_;
  std::vector<uint8_t> listed_;
  std::vector<int64_t> weights_;
};

}  // namespace

Outcome descend(const Objective& objective, const int64_t* order, int64_t count, Descent& descent, double* weights,
                double* loss) {
  Batched batch(objective);
  std::vector<double> derivatives, by_label, edge_derivatives, steps;
  for (int64_t from = 0; from < count; from += descent.batch) {
    const int64_t size = std::min(descent.batch, count - from);
    batch.take(order + from, size);
    batch.score(weights, descent.scale);
    derivatives.resize(batch.emissions.size() + 1);  // never null, even for a batch of empty sentences
    edge_derivatives.resize(batch.edges.size() + 1);
    steps.assign(batch.transitions.size(), 0.0);
    const Outcome outcome = batch.shard(derivatives.data(), edge_derivatives.data()).run(steps, loss);
    if (outcome.status != exact) return {outcome.status, order[from + outcome.sequence]};
    const double rate = descent.rate0 / (1.0 + descent.rate0 * descent.decay * double(descent.done++));
    descent.scale *= 1.0 - rate * descent.decay;
    if (descent.scale == 0.0) {  // the decay has taken all that there was
      std::fill(weights, weights + objective.size(), 0.0);
      descent.scale = 1.0;
    }
    const double step = rate / (double(size) * descent.scale);
    if (objective.finer()) {
      by_label.resize(batch.tokens.size() * size_t(objective.L()));
      gather_labels(derivatives.data(), int64_t(batch.tokens.size()), objective.L(), objective.chain_labels(),
                    by_label.data());
    }
    batch.states().step(objective.finer() ? by_label.data() : derivatives.data(), step, weights);
    if (objective.has_edges()) batch.steps().step(edge_derivatives.data(), step, weights);
    objective.add_step_gradient(steps.data(), -step, weights + objective.first_step());
  }
  return {};
}

void perceptron(const Objective& objective, const int64_t* order, int64_t count, double* weights, double* sums,
                int64_t* seen, int64_t* mistakes) {
  Decoder decoder(objective);
  for (int64_t i = 0; i < count; ++i) {
    ++*seen;
    if (!decoder.decode(order[i], weights)) continue;
    const double weight = decoder.weight();
    *mistakes += decoder.for_difference([&](int64_t w, double by) {
      weights[w] += weight * by;
      sums[w] += weight * by * double(*seen);
    });
  }
}

double passive_aggressive(const Objective& objective, const int64_t* order, int64_t count, const Aggression& aggression,
                          double* weights, double* sums, int64_t* seen) {
  Decoder decoder(objective);
  Difference difference(objective.size());
  double total = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    ++*seen;
    if (!decoder.decode(order[i], weights)) continue;
    const int64_t wrong = difference.take(decoder, 1.0);
    if (wrong == 0) continue;
    const double cost = (aggression.by_errors ? std::sqrt(double(wrong)) : 1.0) - difference.dot(weights);
    total += cost * decoder.weight();
    const double norm = difference.norm();
    if (norm == 0.0) continue;  // the same features on both paths
    const double tau = aggression.type == 0   ? cost / norm
                       : aggression.type == 1 ? std::min(aggression.c, cost / norm)
                                              : cost / (norm + 0.5 / aggression.c);
    difference.each([&](int64_t w, double f) {
      weights[w] += tau * decoder.weight() * f;
      sums[w] += tau * decoder.weight() * f * double(*seen);
    });
  }
  return total;
}

double arow(const Objective& objective, const int64_t* order, int64_t count, double gamma, double* weights,
            double* variances) {
  Decoder decoder(objective);
  Difference difference(objective.size());
  double total = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    if (!decoder.decode(order[i], weights)) continue;
    const double weight = decoder.weight();
    const int64_t wrong = difference.take(decoder, weight);
    if (wrong == 0 || weight == 0.0) continue;
    const double cost = double(wrong) - difference.dot(weights) / weight;
    total += cost * weight;
    double spread = gamma;
    difference.each([&](int64_t w, double f) { spread += f * f * variances[w]; });
    const double alpha = cost / spread;
    difference.each([&](int64_t w, double f) {
      weights[w] += alpha * variances[w] * f;
      variances[w] = 1.0 / (1.0 / variances[w] + f * f / gamma);
    });
  }
  return total;
}

}  // namespace trellis::features

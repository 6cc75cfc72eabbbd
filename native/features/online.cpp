#include "features/online.h"

#include "base/threads.h"
#include "features/shard.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trellis {
namespace {

// f(pair, label, value) for every weight that speaks at token n.
template <typename F>
void for_weights(const Dataset& data, const Pairs& pairs, int64_t n, F f) {
  for (int64_t g = 0; g < data.groups; ++g) {
    const int64_t u = data.bundle(n, g);
    for (int64_t e = data.bundle_begin(u); e < data.bundle_ends[size_t(u)]; ++e) {
      const int64_t a = data.attributes[size_t(e)];
      const double value = data.value(e);
      for (int64_t p = pairs.begin(a); p < pairs.ends[a]; ++p) f(a, p, pairs.labels[p], value);
    }
  }
}

// The sentences of one batch, their tokens one after another, with what is known of their labels.
struct Batched {
  const Objective& objective;
  std::vector<int64_t> tokens, tags;
  std::vector<uint8_t> allowed;
  std::vector<double> weights, token_weights, emissions, transitions;
  std::shared_ptr<Layout> layout;

  explicit Batched(const Objective& objective) : objective(objective) {}

  void take(const int64_t* sentences, int64_t count) {
    const Supervision& known = objective.supervision();
    layout = std::make_shared<Layout>();
    layout->offsets.push_back(0);
    tokens.clear(), tags.clear(), allowed.clear(), weights.clear(), token_weights.clear();
    const int64_t L = objective.L();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t b = sentences[i];
      const int64_t from = objective.data().offsets[size_t(b)], to = objective.data().offsets[size_t(b) + 1];
      for (int64_t n = from; n < to; ++n) tokens.push_back(n);
      if (known.tags) tags.insert(tags.end(), known.tags + from, known.tags + to);
      if (known.allowed) allowed.insert(allowed.end(), known.allowed + from * L, known.allowed + to * L);
      if (known.token_weights)
        token_weights.insert(token_weights.end(), known.token_weights + from, known.token_weights + to);
      layout->offsets.push_back(int64_t(tokens.size()));
      weights.push_back(known.sentence_weights ? known.sentence_weights[b] : 1.0);
    }
  }
  void score(const double* state, double scale) {
    constexpr int64_t chunk = 64;
    const int64_t L = objective.L(), N = int64_t(tokens.size());
    const Pairs pairs = objective.pairs();
    emissions.assign(size_t(N * L), 0.0);
    run_tasks((N + chunk - 1) / chunk, num_threads(), [&](int64_t task) {
      for (int64_t i = task * chunk; i < std::min(N, (task + 1) * chunk); ++i) {
        double* row = emissions.data() + i * L;
        for_weights(objective.data(), pairs, tokens[size_t(i)],
                    [&](int64_t, int64_t p, int64_t l, double value) { row[l] += value * scale * state[p]; });
      }
    });
    transitions.resize(size_t(L * L));
    objective.transition_scores(state, scale, transitions.data());
  }
  Inference<double> chain(const std::vector<double>& scores) const {
    return {layout, scores.data(), transitions.data(), objective.start_scores().data(),
            objective.end_scores().data(), objective.L()};
  }
  Shard<double> shard(double* derivatives) const {
    const Supervision& known = objective.supervision();
    return {layout, emissions.data(), transitions.data(), objective.start_scores().data(),
            objective.end_scores().data(), tags.data(), known.allowed ? allowed.data() : nullptr, weights.data(),
            known.token_weights ? token_weights.data() : nullptr, objective.L(), derivatives};
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
      if (!allowed[i]) masked[i] = -std::numeric_limits<double>::infinity();
    return best(masked, tags);
  }
};

// weights -= step * gradient, given the derivatives of the tokens. Each task owns the attributes of one
// remainder, so that no two write the same weight and the order of the tokens decides the order of the sums.
void step_states(const Batched& batch, const double* derivatives, double step, double* weights) {
  constexpr int64_t tasks = 4;
  const Objective& objective = batch.objective;
  const Pairs pairs = objective.pairs();
  run_tasks(tasks, num_threads(), [&](int64_t task) {
    for (size_t i = 0; i < batch.tokens.size(); ++i) {
      const double* row = derivatives + int64_t(i) * objective.L();
      const Dataset& data = objective.data();
      for (int64_t g = 0; g < data.groups; ++g) {
        const int64_t u = data.bundle(batch.tokens[i], g);
        for (int64_t e = data.bundle_begin(u); e < data.bundle_ends[size_t(u)]; ++e) {
          const int64_t a = data.attributes[size_t(e)];
          if (a % tasks != task) continue;
          const double scaled = step * data.value(e);
          for (int64_t p = pairs.begin(a); p < pairs.ends[a]; ++p) weights[p] -= scaled * row[pairs.labels[p]];
        }
      }
    }
  });
}

// Decodes one sentence after another, and tells how the best path differs from the right one.
class Decoder {
 public:
  explicit Decoder(const Objective& objective) : batch_(objective), step_of_(size_t(objective.L() * objective.L()), -1) {
    const int64_t states = objective.size() - int64_t(objective.steps().size());
    for (size_t i = 0; i < objective.steps().size(); ++i)
      step_of_[size_t(objective.steps()[i])] = states + int64_t(i);
  }
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
    const Objective& objective = batch_.objective;
    const Pairs pairs = objective.pairs();
    const int64_t L = objective.L();
    int64_t wrong = 0;
    for (size_t t = 0; t < best_.size(); ++t) {
      const int64_t gold = batch_.tags[t], guess = best_[t];
      if (gold != guess) {
        ++wrong;
        for_weights(objective.data(), pairs, batch_.tokens[t], [&](int64_t, int64_t p, int64_t l, double value) {
          if (l == gold) f(p, value);
          if (l == guess) f(p, -value);
        });
      }
      if (t == 0) continue;
      const int64_t right = step_of_[size_t(batch_.tags[t - 1] * L + gold)];
      const int64_t taken = step_of_[size_t(best_[t - 1] * L + guess)];
      if (right == taken) continue;
      if (right >= 0) f(right, 1.0);
      if (taken >= 0) f(taken, -1.0);
    }
    return wrong;
  }

 private:
  Batched batch_;
  std::vector<int64_t> step_of_, best_;
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
  const int64_t L = objective.L();
  Batched batch(objective);
  std::vector<double> derivatives, steps;
  const std::vector<int32_t>& numbered = objective.steps();
  double* step_weights = weights + objective.size() - int64_t(numbered.size());
  for (int64_t from = 0; from < count; from += descent.batch) {
    const int64_t size = std::min(descent.batch, count - from);
    batch.take(order + from, size);
    batch.score(weights, descent.scale);
    derivatives.resize(batch.emissions.size() + 1);  // never null, even for a batch of empty sentences
    steps.assign(size_t(L * L), 0.0);
    const Outcome outcome = batch.shard(derivatives.data()).run(steps, loss);
    if (outcome.status != exact) return {outcome.status, order[from + outcome.sequence]};
    const double rate = descent.rate0 / (1.0 + descent.rate0 * descent.decay * double(descent.done++));
    descent.scale *= 1.0 - rate * descent.decay;
    if (descent.scale == 0.0) {  // the decay has taken all that there was
      std::fill(weights, weights + objective.size(), 0.0);
      descent.scale = 1.0;
    }
    const double step = rate / (double(size) * descent.scale);
    step_states(batch, derivatives.data(), step, weights);
    for (size_t i = 0; i < numbered.size(); ++i) step_weights[i] -= step * steps[size_t(numbered[i])];
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

}  // namespace trellis

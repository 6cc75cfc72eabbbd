#include "features/online.h"

#include "base/threads.h"
#include "features/shard.h"

#include <algorithm>
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
    const double step = rate / (double(size) * descent.scale);
    step_states(batch, derivatives.data(), step, weights);
    for (size_t i = 0; i < numbered.size(); ++i) step_weights[i] -= step * steps[size_t(numbered[i])];
  }
  return {};
}

void perceptron(const Objective& objective, const int64_t* order, int64_t count, double* weights, double* sums,
                int64_t* seen, int64_t* mistakes) {
  const Pairs pairs = objective.pairs();
  const int64_t L = objective.L(), states = objective.size() - int64_t(objective.steps().size());
  std::vector<int64_t> step_of(size_t(L * L), -1), best;
  for (size_t i = 0; i < objective.steps().size(); ++i) step_of[size_t(objective.steps()[i])] = states + int64_t(i);
  Batched batch(objective);
  for (int64_t i = 0; i < count; ++i) {
    batch.take(order + i, 1);
    batch.score(weights, 1.0);
    Outcome outcome = batch.best(batch.emissions, best);
    if (outcome.status == exact) outcome = batch.complete();
    ++*seen;
    if (outcome.status != exact) continue;
    const auto move = [&](int64_t w, double by) {
      weights[w] += by;
      sums[w] += by * double(*seen);
    };
    const double weight = batch.weights[0];
    for (size_t t = 0; t < best.size(); ++t) {
      const int64_t gold = batch.tags[t], guess = best[t];
      if (gold != guess) {
        ++*mistakes;
        for_weights(objective.data(), pairs, batch.tokens[t], [&](int64_t, int64_t p, int64_t l, double value) {
          if (l == gold) move(p, weight * value);
          if (l == guess) move(p, -weight * value);
        });
      }
      if (t == 0) continue;
      const int64_t right = step_of[size_t(batch.tags[t - 1] * L + gold)], wrong = step_of[size_t(best[t - 1] * L + guess)];
      if (right == wrong) continue;
      if (right >= 0) move(right, weight);
      if (wrong >= 0) move(wrong, -weight);
    }
  }
}

}  // namespace trellis

// A few sentences on their way from emissions to the loss and its derivatives.
#pragma once

#include "chain/inference.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace trellis::features {

using namespace chain;

// From labels to the states of a chain that are finer than labels, and back.
// to[n, s] = from[n, labels[s]]
template <typename T>
void spread_labels(const T* from, int64_t tokens, int64_t L, const std::vector<uint16_t>& labels, T* to) {
  for (int64_t n = 0; n < tokens; ++n, from += L)
    for (const uint16_t label : labels) *to++ = from[label];
}

// to[n, l] = sum over the states s of label l of from[n, s]
template <typename R>
void gather_labels(const R* from, int64_t tokens, int64_t L, const std::vector<uint16_t>& labels, R* to) {
  for (int64_t n = 0; n < tokens; ++n, to += L) {
    for (int64_t l = 0; l < L; ++l) to[l] = R(0);
    for (const uint16_t label : labels) to[label] += *from++;
  }
}

// The scores of some sentences, and what is known about their labels; null if there is nothing.
template <typename R>
struct Shard {
  std::shared_ptr<const Layout> layout;
  const R *emissions, *transitions, *start, *end;
  const int64_t* tags;          // [tokens] or null
  const uint8_t* allowed;       // [tokens, L] or null
  const double* weights;        // [sentences]
  const double* token_weights;  // [tokens] or null
  int64_t L;
  R* derivatives;               // [tokens, L]; null if only the loss is asked for
  const R* edges = nullptr;     // [pairs, L, L] what the place of a transition adds to its score
  R* edge_derivatives = nullptr;  // [pairs, L, L] if there are edges and derivatives
  std::vector<double> nll = std::vector<double>(size_t(layout->sequences()));  // of each sentence
  std::vector<R> steps = std::vector<R>(size_t(L * (L + 2)));  // derivatives of transitions, then of start and end

  // Adds the weighted loss of the sentences to `loss`, the derivatives of the transitions to step_sums [L, L].
  Outcome run(std::vector<double>& step_sums, double* loss) {
    const Outcome outcome = allowed ? partial_labels(step_sums) : full_labels(step_sums);
    if (outcome.status != exact) return outcome;
    for (size_t b = 0; b < nll.size(); ++b) *loss += weights[b] * nll[b];
    return {};
  }

  Inference<R> chain(const R* scores) const { return {layout, scores, transitions, start, end, L, edges}; }
  Gradient<R> gradient(R* to, R* to_edges) {
    R* ends = steps.data() + L * L;
    return {to, steps.data(), ends, ends + L, layout->tokens(), to_edges, layout->pairs()};
  }
  Outcome full_labels(std::vector<double>& step_sums) {
    Inference<R> all = chain(emissions);
    const Outcome outcome = token_weights  ? all.weighted_nll(tags, token_weights, nll.data())
                            : derivatives ? all.forward_backward(tags, nll.data(), weights,
                                                                 gradient(derivatives, edge_derivatives))
                                          : all.nll(tags, nll.data(), false);
    if (outcome.status != exact || !derivatives) return outcome;
    R* ends = steps.data() + L * L;
    if (token_weights)
      all.weighted_nll_gradient(token_weights, weights, derivatives, steps.data(), ends, ends + L, layout->pairs(),
                                edge_derivatives);
    for (int64_t i = 0; i < L * L; ++i) step_sums[size_t(i)] += double(steps[size_t(i)]);
    return {};
  }
  // -log P(the labels are among those allowed) = log Z - log Z of the allowed paths; its gradient is the difference of
  // the two sets of marginals.
  Outcome partial_labels(std::vector<double>& step_sums) {
    const int64_t cells = layout->tokens() * L, edge_cells = edge_derivatives ? layout->pairs() * L * L : 0;
    std::vector<R> masked(emissions, emissions + cells), inner(derivatives ? size_t(cells) : 0);
    std::vector<R> inner_edges(static_cast<size_t>(edge_cells));
    std::vector<double> inside(nll.size());
    for (int64_t i = 0; i < cells; ++i)
      if (!allowed[i]) masked[size_t(i)] = R(forbidden);
    Inference<R> all = chain(emissions), known = chain(masked.data());
    Outcome outcome = all.log_partition(nll.data(), derivatives);
    if (outcome.status == exact) outcome = known.log_partition(inside.data(), derivatives);
    if (outcome.status != exact) return outcome;
    for (size_t b = 0; b < nll.size(); ++b) nll[b] = std::max(nll[b] - inside[b], 0.0);
    if (!derivatives) return {};
    all.gradient(weights, gradient(derivatives, edge_derivatives));
    for (int64_t i = 0; i < L * L; ++i) step_sums[size_t(i)] += double(steps[size_t(i)]);
    known.gradient(weights, gradient(inner.data(), edge_derivatives ? inner_edges.data() : nullptr));
    for (int64_t i = 0; i < L * L; ++i) step_sums[size_t(i)] -= double(steps[size_t(i)]);
    for (int64_t i = 0; i < cells; ++i) derivatives[i] -= inner[size_t(i)];
    for (int64_t i = 0; i < edge_cells; ++i) edge_derivatives[i] -= inner_edges[size_t(i)];
    return {};
  }
};

}  // namespace trellis::features

// The kernels of one instruction set, in log space and in double, one sequence at a time.
//   into[t, l]  = start[l] if t = 0, else lse_i(alpha[t-1, i] + A[i, l])      all ways to begin a segment at t
//   alpha[t, l] = lse_k(into[t-k, l] + s[t, k, l])                            all ways to end one at t
//   beta[t, l]  = end[l] if t = T-1, else lse_j(A[l, j] + from[t+1, j])       all ways to go on after one ends at t
//   from[t, l]  = lse_k(s[t+k, k, l] + beta[t+k, l])                          all ways to go on as one begins at t
//   log Z = lse_l(alpha[T-1, l] + end[l])         P(t, k, l) = exp(into[t-k, l] + s[t, k, l] + beta[t, l] - log Z)
// So the work is T K L for the segments and T L^2 for what lies between them.
#include "segments/batch.h"

#include "base/threads.h"
#include "chain/logspace_kernels.h"
#include "chain/sampling_kernels.h"
#include "segments/scaled_kernels.h"

namespace trellis::segments::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;
using namespace chain::TRELLIS_ISA;

// out[l] = lse_k(x_k[l] + s_k[l]) for k = 0 .. count - 1, where term(k) gives the two rows
template <typename Term>
void log_sum_terms(int64_t count, int64_t L, double* out, Term term) {
  for (int64_t l = 0; l < L; l += width<double>) {
    const int lanes = lanes_left<double>(L, l);
    Vec<double> top = broadcast(-infinity<double>), sum{};
    const auto value = [&](int64_t k) {
      const auto [x, s] = term(k);
      return load(x + l) + load_first(s + l, lanes, -infinity<double>);
    };
    for (int64_t k = 0; k < count; ++k) top = max<double>(top, value(k));
    const Vec<double> base = top == -infinity<double> ? Vec<double>{} : top;
    for (int64_t k = 0; k < count; ++k) sum += exp<double>(value(k) - base);
    for (int lane = 0; lane < width<double>; ++lane) sum[lane] = std::log(sum[lane]);
    store(out + l, base + sum);
  }
}

struct Term {
  const double *row, *scores;
};

// Both tables of the forward pass.
struct Forward {
  Table into, alpha;
  Forward(const SegmentBatch& batch, const LogPrepared<double>& prepared, int64_t b)
      : into(batch.length(b), prepared.P, -infinity<double>), alpha(batch.length(b), prepared.P, -infinity<double>) {
    const int64_t T = batch.length(b), L = prepared.L, P = prepared.P;
    Block<double> work(P);
    for (int64_t t = 0; t < T; ++t) {
      if (t == 0) {
        __builtin_memcpy(into[0], prepared.start, P * sizeof(double));
      } else {
        log_multiply(alpha[t - 1], prepared.forward, prepared.forward_factors, L, P, work, into[t]);
      }
      log_sum_terms(batch.longest(t), L, alpha[t],
                    [&](int64_t k) { return Term{into[t - k], batch.scores(b, t, k)}; });
    }
  }
  double total(const LogPrepared<double>& prepared, int64_t T) const {
    Block<double> last(prepared.L);
    for (int64_t l = 0; l < prepared.L; ++l) last[l] = alpha[T - 1][l] + prepared.end[l];
    return log_sum_exp(last, prepared.L);
  }
};

// Both tables of the backward pass.
struct Backward {
  Table from, beta;
  Backward(const SegmentBatch& batch, const LogPrepared<double>& prepared, int64_t b)
      : from(batch.length(b), prepared.P, -infinity<double>), beta(batch.length(b), prepared.P, -infinity<double>) {
    const int64_t T = batch.length(b), L = prepared.L, P = prepared.P;
    Block<double> work(P);
    for (int64_t t = T - 1; t >= 0; --t) {
      if (t == T - 1) {
        __builtin_memcpy(beta[t], prepared.end, P * sizeof(double));
      } else {
        log_multiply(from[t + 1], prepared.backward, prepared.backward_factors, L, P, work, beta[t]);
      }
      const int64_t longest = batch.K < T - t ? batch.K : T - t;
      log_sum_terms(longest, L, from[t], [&](int64_t k) { return Term{beta[t + k], batch.scores(b, t + k, k)}; });
    }
  }
};

double segment_log_partition(const SegmentBatch& batch, const LogPrepared<double>& prepared, int64_t b) {
  return Forward(batch, prepared, b).total(prepared, batch.length(b));
}

// exp(log_p), at most 1: with scores so large that their sums are rounded by more than 1, log_p may lie above 0.
inline Vec<double> probability(Vec<double> log_p) { return exp<double>(min<double>(log_p, Vec<double>{})); }
inline double probability(double log_p) { return log_p < 0.0 ? std::exp(log_p) : 1.0; }

// sums[i, j] += weight * exp(alpha[t-1, i] + A[i, j] + from[t, j] - log Z) for each place t where a segment may begin
void count_steps(const LogPrepared<double>& prepared, const Forward& forward, const Backward& backward, int64_t T,
                 double total, double weight, double* sums) {
  const int64_t L = prepared.L, P = prepared.P;
  for (int64_t t = 1; t < T; ++t)
    for (int64_t i = 0; i < L; ++i) {
      const double before = forward.alpha[t - 1][i] - total;
      if (before == -infinity<double>) continue;
      for (int64_t j = 0; j < P; j += width<double>) {
        const Vec<double> log_p = before + load(prepared.forward + i * P + j) + load(backward.from[t] + j);
        store(sums + i * P + j, load(sums + i * P + j) + weight * probability(log_p));
      }
    }
}

double segment_marginals(const SegmentBatch& batch, const LogPrepared<double>& prepared, int64_t b, double weight,
                         double* gradient, const Counts& counts) {
  const int64_t T = batch.length(b), K = batch.K, L = prepared.L;
  const Forward forward(batch, prepared, b);
  const double total = forward.total(prepared, T);
  if (total == -infinity<double>) return total;
  const Backward backward(batch, prepared, b);
  for (int64_t t = 0; t < T; ++t)
    for (int64_t k = 0; k < K; ++k) {
      double* out = gradient + ((batch.offsets[b] + t) * K + k) * L;
      const double* scores = batch.scores(b, t, k);
      for (int64_t l = 0; l < L; l += width<double>) {
        const int lanes = lanes_left<double>(L, l);
        Vec<double> p{};
        if (k <= t) {
          const Vec<double> s = load_first(scores + l, lanes, -infinity<double>);
          p = weight * probability(load(forward.into[t - k] + l) + s + (load(backward.beta[t] + l) - total));
        }
        store_first(out + l, p, lanes);
      }
    }
  count_steps(prepared, forward, backward, T, total, weight, counts.transitions);
  for (int64_t l = 0; l < L; ++l) {
    counts.start[l] += weight * probability(prepared.start[l] + backward.from[0][l] - total);
    counts.end[l] += weight * probability(forward.alpha[T - 1][l] + prepared.end[l] - total);
  }
  return total;
}

// -sum_i p[i] log p[i] of p[i] = exp(x[i]) / sum exp(x); log_sum is the log of that sum
template <typename Value>
double choice_entropy(int64_t count, double log_sum, Value x) {
  double h = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const double log_p = x(i) < log_sum ? x(i) - log_sum : 0.0;  // rounding may take it above
    if (log_p > -infinity<double>) h -= std::exp(log_p) * log_p;
  }
  return h;
}

// A path is drawn from its end: the last label, then the length of each segment and the label before it. Its entropy is
// the sum of the entropies of these choices, each times the probability that it has to be made.
double segment_entropy(const SegmentBatch& batch, const LogPrepared<double>& prepared, int64_t b) {
  const int64_t T = batch.length(b), L = prepared.L, P = prepared.P;
  const Forward forward(batch, prepared, b);
  const double total = forward.total(prepared, T);
  if (total == -infinity<double>) return total;
  const Backward backward(batch, prepared, b);
  double h = choice_entropy(L, total, [&](int64_t l) { return forward.alpha[T - 1][l] + prepared.end[l]; });
  for (int64_t t = 0; t < T; ++t)
    for (int64_t l = 0; l < L; ++l) {
      const double alpha = forward.alpha[t][l], ends = alpha + backward.beta[t][l] - total;
      const auto length = [&](int64_t k) { return forward.into[t - k][l] + batch.scores(b, t, k)[l]; };
      if (ends > -infinity<double>) h += probability(ends) * choice_entropy(batch.longest(t), alpha, length);
      const double into = forward.into[t][l], begins = into + backward.from[t][l] - total;
      const auto before = [&](int64_t i) { return forward.alpha[t - 1][i] + prepared.forward[i * P + l]; };
      if (t && begins > -infinity<double>) h += probability(begins) * choice_entropy(L, into, before);
    }
  return h;
}

struct Best {
  double score = -infinity<double>;
  int64_t choice = 0;
  void offer(double other, int64_t number) {
    if (other > score) score = other, choice = number;
  }
};

// The same recursions with the maximum in place of the sum; among equals the shortest segment and the smallest label.
double segment_viterbi(const SegmentBatch& batch, const LogPrepared<double>& prepared, int64_t b, PathSegment* path,
                       int64_t* count) {
  const int64_t T = batch.length(b), L = prepared.L, P = prepared.P;
  Block<Best> into(T * L), alpha(T * L);
  for (int64_t t = 0; t < T; ++t)
    for (int64_t l = 0; l < L; ++l) {
      Best begin, end;
      if (t == 0) begin.offer(prepared.start[l], 0);
      for (int64_t i = 0; t && i < L; ++i) begin.offer(alpha[(t - 1) * L + i].score + prepared.backward[l * P + i], i);
      into[t * L + l] = begin;
      for (int64_t k = 0; k < batch.longest(t); ++k)
        end.offer(into[(t - k) * L + l].score + batch.scores(b, t, k)[l], k);
      alpha[t * L + l] = end;
    }
  Best last;
  for (int64_t l = 0; l < L; ++l) last.offer(alpha[(T - 1) * L + l].score + prepared.end[l], l);
  *count = 0;
  if (last.score == -infinity<double>) return last.score;
  for (int64_t t = T - 1, label = last.choice; t >= 0;) {
    const int64_t begin = t - alpha[t * L + label].choice;
    path[(*count)++] = {begin, t + 1, label};
    label = into[begin * L + label].choice;
    t = begin - 1;
  }
  return last.score;
}

// One of `count` choices with log weights weight(i).
template <typename Weight>
int64_t draw_one(int64_t count, double* weights, double* cumulative, Random& random, Weight weight) {
  for (int64_t i = 0; i < count; ++i) weights[i] = weight(i);
  cumulate(weights, count, cumulative);
  return draw(cumulative, count, random.uniform());
}

double segment_sample(const SegmentBatch& batch, const LogPrepared<double>& prepared, int64_t b, int64_t n,
                      uint64_t seed, PathSegment* path, int64_t* counts) {
  const int64_t T = batch.length(b), L = prepared.L, P = prepared.P, most = batch.K > L ? batch.K : L;
  const Forward forward(batch, prepared, b);
  const double total = forward.total(prepared, T);
  if (total == -infinity<double>) return total;
  Block<double> weights(most), cumulative(most);
  for (int64_t s = 0; s < n; ++s) {
    trellis::stop_if_asked();
    Random random(seed, uint64_t(b), uint64_t(s));
    const auto one_of = [&](int64_t count, auto weight) {
      return draw_one(count, weights, cumulative, random, weight);
    };
    counts[s] = 0;
    int64_t label = one_of(L, [&](int64_t l) { return forward.alpha[T - 1][l] + prepared.end[l]; });
    for (int64_t t = T - 1; t >= 0;) {
      const int64_t begin = t - one_of(batch.longest(t), [&](int64_t k) {
        return forward.into[t - k][label] + batch.scores(b, t, k)[label];
      });
      path[s * T + counts[s]++] = {begin, t + 1, label};
      if (begin == 0) break;
      const int64_t to = label;
      label = one_of(L, [&](int64_t i) { return forward.alpha[begin - 1][i] + prepared.forward[i * P + to]; });
      t = begin - 1;
    }
  }
  return total;
}

}  // namespace trellis::segments::TRELLIS_ISA

TRELLIS_KERNELS(segments, SegmentKernels, scaled_segment_log_partition, scaled_segment_marginals,
                segment_log_partition, segment_marginals, segment_entropy, segment_viterbi, segment_sample)

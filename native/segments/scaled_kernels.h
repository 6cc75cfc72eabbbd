// Forward and backward over segments in scaled probabilities, one sequence at a time: an exponential per score and
// nothing but products otherwise. With C[t] and M[t] the logarithms of what rows were divided by,
//   into[t, l]  = start[l] at t = 0, C = start_max; else sum_i alpha[t-1, i] A[i, l] / scale[t],
//                 C[t] = M[t-1] + transition_max + log scale[t]
//   E[t, k, l]  = exp(s[t, k, l] + C[t-k] - M[t])             M[t]: the largest of these sums where into is not zero
//   alpha[t, l] = sum_k into[t-k, l] E[t, k, l]
//   log Z       = M[T-1] + end_max + log z                    z = alpha[T-1] . end
//   beta[T-1, l] = end[l] / z                                 beta[t-1, i] = sum_j A[i, j] from[t, j] / scale[t]
//   from[t, l]  = sum_k E[t+k, k, l] beta[t+k, l]
// so that every product below is a probability, and no logarithm is needed on the way back:
//   P(t, k, l) = into[t-k, l] E[t, k, l] beta[t, l]           P(i at t-1, j at t) = alpha[t-1, i] A[i, j] from[t, j] / scale
//
// Why this is exact. An exponential below exp(least_log), where arithmetic may lose digits, is one of several terms of a
// sum. If the sum is above `enough`, what may be lost is less than exp(-50) of it; else the sequence is redone in log
// space, as it is if any row keeps a number below `tiny`: `tiny` times the least exponential is still a normal number.
// On the way back errors are those of probabilities: what is lost times its forward part stays below exp(-50) each. Only
// what no path reaches has no such bound: it counts for nothing, unless it is infinite, and then the sequence is redone.
#pragma once

#include "chain/logspace_kernels.h"
#include "segments/batch.h"

namespace trellis::segments::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;
using namespace chain::TRELLIS_ISA;

constexpr double least_log = Range<double>::least_log, tiny = Range<double>::tiny, enough = 1e-126, most = 1e150;

// A table by position, [T, P].
struct Table {
  int64_t P;
  Block<double> values;
  Table(int64_t T, int64_t P, double fill) : P(P), values(T * P, fill) {}
  double* operator[](int64_t t) const { return values + t * P; }
};

class ScaledSegments {
 public:
  ScaledSegments(const SegmentBatch& batch, const SegmentPrepared& prepared, int64_t b)
      : batch_(batch),
        prepared_(prepared),
        b_(b),
        T_(batch.length(b)),
        L_(prepared.chain.L),
        P_(prepared.chain.P),
        into_(T_, P_, 0.0),
        alpha_(T_, P_, 0.0),
        before_(T_),
        scale_(T_, 1.0) {}

  // log Z, with the exponentials E in tape[T, K, L] unless it is null; false if it has to be redone in log space.
  bool forward(double* tape, double* log_z) {
    if (prepared_.start_flushed) return false;
    for (int64_t t = 0; t < T_; ++t) {
      begin_at(t);
      end_at(t, tape);
      if (any<double>(lost_)) return false;
    }
    const double* last = alpha_[T_ - 1];
    for (int64_t l = 0; l < L_; ++l) z_ += last[l] * prepared_.chain.end[l];
    *log_z = z_ > 0.0 ? peak_ + prepared_.chain.end_max + std::log(z_) : -infinity<double>;
    return !(prepared_.end_flushed && z_ < enough) && !(z_ == 0.0 && prepared_.any_flushed);
  }

  // Probabilities times weight over the exponentials of the forward pass, and expected counts; false: redo. Nothing has
  // been added to the counts then.
  bool backward(double* tape, double weight, const Counts& counts) {
    Table from(T_, P_, 0.0), beta(T_, P_, 0.0);
    IntVec<double> lost{};
    for (int64_t l = 0; l < L_; ++l) beta[T_ - 1][l] = prepared_.chain.end[l] / z_;
    for (int64_t t = T_ - 1; t >= 0; --t) {
      if (t < T_ - 1) go_on_after(t, from[t + 1], beta[t]);
      go_on_from(t, beta, tape, weight, from[t], lost);
    }
    double total = 0.0;
    for (int64_t l = 0; l < L_; ++l) total += into_[0][l] * from[0][l];
    if (any<double>(lost) || !(total > 1.0 - 1e-9 && total < 1.0 + 1e-9)) return false;
    count(from, beta, weight, counts);
    return true;
  }

 private:
  void begin_at(int64_t t) {
    double* into = into_[t];
    if (t == 0) {
      __builtin_memcpy(into, prepared_.chain.start, P_ * sizeof(double));
      before_[0] = prepared_.chain.start_max;
      return;
    }
    multiply<double>(1, alpha_[t - 1], prepared_.chain.forward, L_, P_, into);
    Vec<double> top{};
    for (int64_t j = 0; j < P_; j += width<double>) {
      const Vec<double> x = load(into + j);
      top = max<double>(top, x);
      lost_ |= (load(prepared_.flushed + j) > 0.0) & (x < enough);
    }
    const double scale = horizontal_max<double>(top);
    if (scale == 0.0) {
      before_[t] = -infinity<double>;
      return;
    }
    scale_[t] = scale;
    before_[t] = peak_ + prepared_.chain.transition_max + std::log(scale);
    for (int64_t j = 0; j < P_; j += width<double>) {
      const Vec<double> x = load(into + j) / scale;
      lost_ |= (x > 0.0) & (x < tiny);
      store(into + j, x);
    }
  }

  // The score of a segment that ends at t, minus infinity where none can begin.
  Vec<double> reached(int64_t t, int64_t k, int64_t l, int lanes, Vec<double> into) const {
    const Vec<double> s = load_first(batch_.scores(b_, t, k) + l, lanes, -infinity<double>);
    return into > 0.0 ? s : broadcast(-infinity<double>);
  }

  double peak_at(int64_t t) const {
    Vec<double> top = broadcast(-infinity<double>);
    for (int64_t k = 0; k < batch_.longest(t); ++k)
      for (int64_t l = 0; l < L_; l += width<double>) {
        const Vec<double> s = reached(t, k, l, lanes_left<double>(L_, l), load(into_[t - k] + l));
        top = max<double>(top, s + before_[t - k]);
      }
    return horizontal_max<double>(top);
  }

  void end_at(int64_t t, double* tape) {
    const double peak = peak_at(t);
    peak_ = peak > -infinity<double> ? peak : 0.0;
    const int64_t longest = peak > -infinity<double> ? batch_.longest(t) : 0;
    for (int64_t l = 0; l < L_; l += width<double>) {
      const int lanes = lanes_left<double>(L_, l);
      Vec<double> sum{};
      IntVec<double> dropped{};
      for (int64_t k = 0; k < longest; ++k) {
        const Vec<double> into = load(into_[t - k] + l);
        const Vec<double> x = reached(t, k, l, lanes, into) + (before_[t - k] - peak);
        const Vec<double> e = exp<double>(x);
        dropped |= (x < least_log) & (x > -infinity<double>);
        sum += into * e;
        if (tape) store_first(tape + (t * batch_.K + k) * L_ + l, e, lanes);
      }
      for (int64_t k = longest; tape && k < batch_.K; ++k)
        store_first(tape + (t * batch_.K + k) * L_ + l, Vec<double>{}, lanes);
      lost_ |= (dropped & (sum < enough)) | ((sum > 0.0) & (sum < tiny));
      store(alpha_[t] + l, sum);
    }
  }

  // beta[t, i] = sum_j A[i, j] from[t+1, j] / scale[t+1]
  void go_on_after(int64_t t, const double* from, double* beta) const {
    multiply<double>(1, from, prepared_.chain.backward, L_, P_, beta);
    for (int64_t i = 0; i < P_; i += width<double>) store(beta + i, load(beta + i) / scale_[t + 1]);
  }

  void go_on_from(int64_t t, const Table& beta, double* tape, double weight, double* from, IntVec<double>& lost) const {
    const int64_t longest = batch_.K < T_ - t ? batch_.K : T_ - t;
    for (int64_t l = 0; l < L_; l += width<double>) {
      const int lanes = lanes_left<double>(L_, l);
      const Vec<double> begins = weight * load(into_[t] + l);
      Vec<double> sum{};
      for (int64_t k = 0; k < longest; ++k) {
        double* e = tape + ((t + k) * batch_.K + k) * L_ + l;
        const Vec<double> rest = load_first(e, lanes, 0.0) * load(beta[t + k] + l);
        sum += rest;
        store_first(e, begins * rest, lanes);
      }
      lost |= ~(sum < most);
      store(from + l, sum);
    }
  }

  // sums[i, j] += weight * alpha[t-1, i] A[i, j] from[t, j] / scale[t] for each place t where a segment may begin
  void count(const Table& from, const Table& beta, double weight, const Counts& counts) const {
    for (int64_t t = 1; t < T_; ++t)
      for (int64_t i = 0; i < L_; ++i) {
        const double before = weight * alpha_[t - 1][i] / scale_[t];
        if (before == 0.0) continue;
        for (int64_t j = 0; j < P_; j += width<double>) {
          double* sum = counts.transitions + i * P_ + j;
          store(sum, load(sum) + before * load(prepared_.chain.forward + i * P_ + j) * load(from[t] + j));
        }
      }
    for (int64_t l = 0; l < L_; ++l) {
      counts.start[l] += weight * into_[0][l] * from[0][l];
      counts.end[l] += weight * alpha_[T_ - 1][l] * beta[T_ - 1][l];
    }
  }

  const SegmentBatch& batch_;
  const SegmentPrepared& prepared_;
  int64_t b_, T_, L_, P_;
  Table into_, alpha_;
  Block<double> before_, scale_;  // [T] C, and what a row of into was divided by
  double peak_ = 0.0, z_ = 0.0;   // M of the last position
  IntVec<double> lost_{};
};

bool scaled_segment_log_partition(const SegmentBatch& batch, const SegmentPrepared& prepared, int64_t b, double* out) {
  return ScaledSegments(batch, prepared, b).forward(nullptr, out);
}

bool scaled_segment_marginals(const SegmentBatch& batch, const SegmentPrepared& prepared, int64_t b, double weight,
                              double* gradient, const Counts& counts, double* out) {
  ScaledSegments run(batch, prepared, b);
  double* tape = gradient + batch.offsets[b] * batch.K * batch.L;
  if (!run.forward(tape, out) || *out == -infinity<double>) return false;
  return run.backward(tape, weight, counts);
}

}  // namespace trellis::segments::TRELLIS_ISA

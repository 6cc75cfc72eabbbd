// The plain data that the driver and the kernels of every instruction set share. Shapes: B sequences, N tokens in
// all (flat, ragged), L labels, P labels rounded up to whole vectors.
#pragma once

#include <cstdint>

namespace trellis::chain {

// Emissions that lie on no complete path, see CompletePaths; all null and 0 if there are none.
template <typename R>
struct Pruning {
  const R* const* rows = nullptr;  // [B] pruned copies of the emissions [T, L] of a sequence, or null
  const R* from_start = nullptr;   // [heads, L] what to add to the first emissions of each sequence
  const R* to_end = nullptr;       // [tails, L] to the last, from the last one back
  int64_t heads = 0, tails = 0;
};

// A ragged batch of scores. Sequence b owns the tokens offsets[b] .. offsets[b + 1] - 1, and token n has its emissions
// in row rows[n] (row n if rows is null). Everything else by token, in or out (tags, weights, gradients), lies in
// that same row, so a padded batch with any mask is used in place.
template <typename R>
struct Batch {
  const R* emissions;       // [rows, L]
  const int64_t* rows;      // [N] or null
  const int64_t* offsets;   // [B + 1]
  const R* transitions;     // [L, L] from, to
  const R* start;           // [L]
  const R* end;             // [L]
  int64_t B, L;
  const R* edges = nullptr;  // [pairs, L, L] what the place of a transition adds to its score, or null
  const int64_t* edge_shift = nullptr;  // [B] see `edge`
  Pruning<R> pruning = {};  // emissions are read by emission.h, which knows of this

  int64_t row(int64_t token) const { return rows ? rows[token] : token; }
  // The edges [L, L] into a token that is not the first of its sequence b. They belong to the later token of the pair:
  // with tokens in the rows of a mask with holes, no other choice needs to know where the token before it lies.
  const R* edge(int64_t b, int64_t token) const { return edges + (row(token) - edge_shift[b]) * L * L; }
  int64_t length(int64_t b) const { return offsets[b + 1] - offsets[b]; }
};

// The range of scaled arithmetic; lockstep_kernels.h says why these numbers are enough.
template <typename R>
struct Range;
template <>
struct Range<float> {
  static constexpr float tiny = 1e-19f, huge = 1e28f, lowest = -3.4e38f;
  static constexpr double least_log = -41.0;   // exp(least_log) * tiny is a normal number
  static constexpr double mixing_log = -29.9;  // twice that is e^27 above exp_lowest, below which things are lost
  static constexpr float mixing_scale = 9.3e-14f;  // just below exp(mixing_log)
};
template <>
struct Range<double> {
  static constexpr double tiny = 1e-150, huge = 1e250, lowest = -1.79e308;
  static constexpr double least_log = -340.0;
  static constexpr double mixing_log = -220.0;
  static constexpr double mixing_scale = 2e-96;
};

// Scores of a batch's chain, made ready once per call.
template <typename R>
struct Prepared {
  int64_t L, P;
  R* forward;         // [L, P] exp(transitions - transition_max); pads are zero
  R* backward;        // [L, P] its transpose
  R* start;           // [P] exp(start - start_max)
  R* end;             // [P] exp(end - end_max)
  double transition_max, start_max, end_max;
  double gap;         // scores this far below the largest were flushed to zero; infinity if none was
  bool mixing;        // no transition or end score is zero: nothing that underflows can ever matter again
};

// What makes sums in log space over a matrix of transitions cheap, see log_multiply; a null pointer means that there is
// no such help. A scheme or histories may forbid most transitions: for each block of `live_columns` columns, the rows
// are listed that are not minus infinity in all of them.
constexpr int64_t live_columns = 8;
struct LogFactors {
  const double* tops;     // [P] the largest score of each column
  const double* factors;  // [L, P] exp(A[i, j] - tops[j]), or 0 if the score is minus infinity
  const int64_t* ends;    // [blocks] where the rows of each block end
  const int32_t* rows;
};

// The same in log space (double) and, for Viterbi, in R.
template <typename R>
struct LogPrepared {
  int64_t L, P;
  R* forward;   // [L, P] transitions; pads are minus infinity
  R* backward;  // [L, P] their transpose
  R* start;     // [P]
  R* end;       // [P]
  LogFactors forward_factors, backward_factors;
};

// What the forward pass leaves for the backward pass, a row for each token of a sequence, one after another.
template <typename R>
struct Tape {
  R* alpha;   // [rows, P] forward probabilities, each row summing to one
  R* factor;  // [rows, P] exp(emission - peak)
  R* scale;   // [rows] what the row of alpha was divided by
  R* steps;   // [rows, L, P] scaled transitions into the token if there are edges, else null
  const int64_t* begin;  // [B] the row of each sequence's first token

  // Numbers in memory for this many rows.
  static int64_t size(int64_t rows, int64_t L, int64_t P, bool edges) { return rows * (2 * P + 1 + (edges ? L * P : 0)); }
  static Tape in(R* memory, int64_t rows, int64_t P, bool edges, const int64_t* begin) {
    R *factor = memory + rows * P, *scale = factor + rows * P;
    return {memory, factor, scale, edges ? scale + rows : nullptr, begin};
  }
};

enum Status : uint8_t {
  exact = 0,
  underflow = 1,   // scaled arithmetic may have lost a path that matters: redo in log space
  not_finite = 2,  // an emission or edge is NaN or plus infinity
  no_path = 3,     // every label sequence is forbidden
};

// What scores hold, as bits.
enum Contents : uint8_t {
  only_finite = 0,
  some_forbidden = 1,  // minus infinity
  some_invalid = 2,    // NaN or plus infinity
};

// Sums over a set of sequences, each weighted.
struct Counts {
  double* transitions;  // [L, P] expected transitions
  double* start;        // [P] expected first labels
  double* end;          // [P] expected last labels
};

// Where results by pair of neighbouring tokens go: the matrix [L, L] of the pair whose later token is n, of sequence b,
// is number row(n) - shift[b], as that of the edges.
template <typename R>
struct Neighbours {
  R* values;             // [pairs, L, L]
  const int64_t* rows;   // [N] or null
  const int64_t* shift;  // [B]

  R* of(int64_t b, int64_t token, int64_t L) const {
    return values + ((rows ? rows[token] : token) - shift[b]) * L * L;
  }
};

}  // namespace trellis::chain

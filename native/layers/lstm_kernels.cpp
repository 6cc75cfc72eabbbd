// The kernels of kernels.h for one instruction set. Sequences go side by side, one step of all after another. The product
// with the recurrent weights is taken for a few sequences and a few vectors of columns at a time, whose sums stay in
// registers; in the forward pass these columns are the four gates of the same units, so that the step ends there.
#include "base/memory.h"
#include "base/simd.h"
#include "layers/gemm_kernels.h"
#include "layers/kernels.h"

namespace trellis::layers::TRELLIS_ISA {

using namespace ::TRELLIS_ISA;

template <typename R>
int64_t packed_size(int64_t H) {
  return 4 * H * vectors_of<R>(H) * width<R>;
}

// packed[vector of units][k][gate][unit]: what the forward pass reads, in its order
template <typename R>
void pack_forward(const R* weights, int64_t H, R* packed) {
  for (int64_t j = 0; j < H; j += width<R>) {
    const int lanes = lanes_from<R>(j, H);
    R* block = packed + 4 * H * j;
    for (int gate = 0; gate < 4; ++gate)
      for (int u = 0; u < width<R>; ++u) {
        const R* row = weights + (gate * H + j + (u < lanes ? u : 0)) * H;
        R* to = block + gate * width<R> + u;
        for (int64_t k = 0; k < H; ++k) to[k * 4 * width<R>] = u < lanes ? row[k] : R(0);
      }
  }
}

// The same for the backward pass, whose columns are those of the weights.
template <typename R>
void pack_backward(const R* weights, int64_t H, R* packed) {
  pack_columns<R>(weights, 4 * H, H, H, 1, packed);
}

template <typename R>
inline Vec<R> reciprocal(Vec<R> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(R) == 4) {
    const Vec<R> guess = (Vec<R>)_mm512_rcp14_ps((__m512)x);
    return guess + guess * (R(1) - x * guess);  // one step of Newton: exact but for the last bit
  }
#endif
  return R(1) / x;
}

// 1 / (1 + exp(x)); exp is that of simd.h, which accepts numbers up to where it would overflow.
template <typename R>
inline Vec<R> logistic_of_minus(Vec<R> x) {
  constexpr R most = -Simd<R>::exp_lowest;
  return reciprocal<R>(R(1) + exp<R>(x > most ? broadcast(most) : x));
}

template <typename R>
inline Vec<R> sigmoid(Vec<R> x) {
  return logistic_of_minus<R>(-x);
}

template <typename R>
inline Vec<R> tanh(Vec<R> x) {
  return R(1) - R(2) * logistic_of_minus<R>(R(2) * x);
}

// One step of M sequences, for the units from j on. `before` are the rows of the step before, null at the first step.
template <typename R, int M>
inline void forward_tile(const Recurrence<R>& at, int64_t j, const int64_t* now, const int64_t* before) {
  const int lanes = lanes_from<R>(j, at.H);
  Vec<R> sums[M][4] = {};
  if (before) {
    const R* rows[M];
    for (int m = 0; m < M; ++m) rows[m] = at.states + before[m] * at.state_stride;
    multiply<R, M, 4>(rows, at.weights + 4 * at.H * j, at.H, sums);
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    R* gates = at.gates + (at.gate_rows ? at.gate_rows[now[m]] : now[m]) * at.gate_stride + j;
    const auto gate = [&](int g) { return sums[m][g] + load_first<R>(gates + g * at.H, lanes, R(0)); };
    const Vec<R> input = sigmoid<R>(gate(0)), forget = sigmoid<R>(gate(1)), fresh = tanh<R>(gate(2)),
                 output = sigmoid<R>(gate(3));
    Vec<R> cell = input * fresh;
    if (before) cell += forget * load_first<R>(at.cells + before[m] * at.state_stride + j, lanes, R(0));
    store_first<R>(at.cells + now[m] * at.state_stride + j, cell, lanes);
    store_first<R>(at.states + now[m] * at.state_stride + j, output * tanh<R>(cell), lanes);
    if (at.keep) {
      store_first<R>(gates, input, lanes);
      store_first<R>(gates + at.H, forget, lanes);
      store_first<R>(gates + 2 * at.H, fresh, lanes);
      store_first<R>(gates + 3 * at.H, output, lanes);
    }
  }
}

inline int64_t row_of(const SequenceGroup& group, int64_t b, int64_t step) {
  return group.first[b] + (group.reversed ? group.lengths[b] - 1 - step : step);
}

// The rows of the sequences that are as long as a step; returns how many.
inline int64_t rows_at(const SequenceGroup& group, int64_t step, int64_t* rows) {
  int64_t n = 0;
  for (; n < group.count && group.lengths[n] > step; ++n) rows[n] = row_of(group, n, step);
  return n;
}

template <typename R>
void forward_steps(const SequenceGroup& group, const Recurrence<R>& at) {
  Block<int64_t> rows(2 * group.count);
  int64_t *now = rows, *before = rows + group.count;
  for (int64_t step = 0, n; (n = rows_at(group, step, now)) > 0; ++step) {
    for (int64_t j = 0; j < at.H; j += width<R>)
      for (int64_t b = 0; b < n; b += tile_rows)
        with_count<tile_rows>(n - b, [&](auto M) {
          forward_tile<R, M>(at, j, now + b, step ? before + b : nullptr);
        });
    int64_t* swap = now;
    now = before, before = swap;
  }
}

// The gradient of the gates of one token, and that of the cell before it.
template <typename R>
inline void backward_token(const Recurrence<R>& at, int64_t now, const int64_t* before, R* state, R* cell) {
  const int64_t H = at.H, here = now * at.state_stride;
  const R* gates = at.gates + now * at.gate_stride;
  R* to = at.gate_gradient + now * at.gate_stride;
  for (int64_t j = 0; j < H; j += width<R>) {
    const int lanes = lanes_from<R>(j, H);
    const auto read = [&](const R* p) { return load_first<R>(p + j, lanes, R(0)); };
    const auto write = [&](R* p, Vec<R> v) { store_first<R>(p + j, v, lanes); };
    const Vec<R> input = read(gates), forget = read(gates + H), fresh = read(gates + 2 * H),
                 output = read(gates + 3 * H), squashed = tanh<R>(read(at.cells + here));
    const Vec<R> of_state = read(at.gradient + here) + load(state + j);
    const Vec<R> of_cell = load(cell + j) + of_state * output * (R(1) - squashed * squashed);
    Vec<R> cell_before{}, state_before{};
    if (before) {
      cell_before = read(at.cells + *before * at.state_stride);
      state_before = read(at.states + *before * at.state_stride);
    }
    store(cell + j, of_cell * forget);
    write(to, of_cell * fresh * input * (R(1) - input));
    write(to + H, of_cell * cell_before * forget * (R(1) - forget));
    write(to + 2 * H, of_cell * input * (R(1) - fresh * fresh));
    write(to + 3 * H, of_state * squashed * output * (R(1) - output));
    write(at.previous + here, state_before);
  }
}

// The gradients of the states before M tokens, V vectors of them: those of the gates times the recurrent weights.
template <typename R, int M, int V>
inline void backward_tile(const Recurrence<R>& at, const int64_t* now, int64_t j, int64_t P, R* state) {
  const int64_t K = 4 * at.H;
  const R* rows[M];
  for (int m = 0; m < M; ++m) rows[m] = at.gate_gradient + now[m] * at.gate_stride;
  Vec<R> sums[M][V] = {};
  multiply<R, M, V>(rows, at.weights + K * j, K, sums);
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store(state + m * P + j + v * width<R>, sums[m][v]);
}

template <typename R>
inline void backward_states(const Recurrence<R>& at, const int64_t* now, int64_t n, int64_t P, R* state) {
  for (int64_t j = 0; j < P; j += tile_vectors * width<R>)
    with_count<tile_vectors>((P - j) / width<R>, [&](auto V) {
      for (int64_t b = 0; b < n; b += tile_rows)
        with_count<tile_rows>(n - b, [&](auto M) { backward_tile<R, M, V>(at, now + b, j, P, state + b * P); });
    });
}

template <typename R>
void backward_steps(const SequenceGroup& group, const Recurrence<R>& at) {
  if (!group.count) return;
  const int64_t P = vectors_of<R>(at.H) * width<R>;
  // What a step leaves for the one before it, for each sequence: gradients of its state and of its cell.
  Block<R> carried(2 * group.count * P, R(0));
  R *state = carried, *cell = carried + group.count * P;
  Block<int64_t> rows(2 * group.count);
  int64_t *now = rows, *before = rows + group.count;
  for (int64_t step = group.lengths[0] - 1; step >= 0; --step) {
    const int64_t n = rows_at(group, step, now);
    if (step) rows_at(group, step - 1, before);
    for (int64_t b = 0; b < n; ++b)
      backward_token<R>(at, now[b], step ? before + b : nullptr, state + b * P, cell + b * P);
    if (step) backward_states<R>(at, now, n, P, state);
  }
}

}  // namespace trellis::layers::TRELLIS_ISA

TRELLIS_KERNELS_BY_TYPE(layers, LstmKernels, packed_size<R>, pack_forward<R>, pack_backward<R>, forward_steps<R>,
                        backward_steps<R>)

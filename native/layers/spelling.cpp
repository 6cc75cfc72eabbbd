#include "layers/spelling.h"

#include "base/numbers.h"
#include "base/threads.h"

#include <algorithm>

namespace trellis::layers {
namespace {

constexpr int64_t words_of_task = 256;

template <typename R>
bool all_known(const Spelling<R>& in) {
  const auto known = [&](int64_t id) { return id >= 0 && id < in.characters; };
  return std::all_of(in.words, in.words + (in.offsets ? in.offsets[in.W] : in.W * in.C), known);
}

}  // namespace

template <typename R>
bool spelling_forward(const Spelling<R>& in, R* largest, int32_t* places) {
  if (!all_known(in)) return false;
  kernels_in_use<SpellingKernels<R>>().find(in, largest, places);
  return true;
}

bool spell(const Spelling<float>& in, int threads, float* largest) {
  if (!all_known(in)) return false;
  run_tasks(parts_of(in.W, words_of_task), threads, [&](int64_t task) {
    const int64_t first = task * words_of_task;
    Spelling<float> own = in;
    own.W = std::min(words_of_task, in.W - first);
    own.offsets += first;
    kernels_in_use<SpellingKernels<float>>().find(own, largest + first * in.F, nullptr);
  });
  return true;
}

template <typename R>
void spelling_backward(const Spelling<R>& in, const R* gradient, const int32_t* places) {
  kernels_in_use<SpellingKernels<R>>().add(in, gradient, places);
}

template bool spelling_forward<float>(const Spelling<float>&, float*, int32_t*);
template bool spelling_forward<double>(const Spelling<double>&, double*, int32_t*);
template void spelling_backward<float>(const Spelling<float>&, const float*, const int32_t*);
template void spelling_backward<double>(const Spelling<double>&, const double*, const int32_t*);

}  // namespace trellis::layers

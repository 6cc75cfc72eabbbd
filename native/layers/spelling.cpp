#include "layers/spelling.h"

#include <algorithm>

namespace trellis {

template <typename R>
bool spelling_forward(const Spelling<R>& in, R* largest, int32_t* places) {
  const auto known = [&](int64_t id) { return id >= 0 && id < in.characters; };
  if (!std::all_of(in.words, in.words + in.W * in.C, known)) return false;
  spelling_kernels<R>().find(in, largest, places);
  return true;
}

template <typename R>
void spelling_backward(const Spelling<R>& in, const R* gradient, const int32_t* places) {
  spelling_kernels<R>().add(in, gradient, places);
}

template bool spelling_forward<float>(const Spelling<float>&, float*, int32_t*);
template bool spelling_forward<double>(const Spelling<double>&, double*, int32_t*);
template void spelling_backward<float>(const Spelling<float>&, const float*, const int32_t*);
template void spelling_backward<double>(const Spelling<double>&, const double*, const int32_t*);

}  // namespace trellis

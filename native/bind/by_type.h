#pragma once

namespace trellis {

// One Python function out of one for float and one for double: the first argument tells whether it is double.
template <typename Result, typename... Args>
auto by_type(Result (*single_precision)(Args...), Result (*double_precision)(Args...)) {
  return [=](bool doubles, Args... args) { return (doubles ? double_precision : single_precision)(args...); };
}

}  // namespace trellis

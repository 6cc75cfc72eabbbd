// The numbered strings of a model as Python holds them.
#pragma once

#include "bind/array.h"
#include "features/dataset.h"

#include <memory>

namespace trellis {

// Arrays of saved models: of one dimension, and, with `unconverted`, never converted, since conversion takes -1 for
// 65535.
template <typename T>
using Flat = Array<T, nanobind::ndim<1>>;
inline auto unconverted() { return nanobind::arg().noconvert(); }

// Strings with numbers: growing while a corpus is compiled for training, or fixed over arrays that may lie in a file.
struct Attributes {
  std::unique_ptr<StringIndex> growing;
  IndexView fixed;
  nanobind::object arrays;

  const IndexView& view() const { return growing ? growing->view() : fixed; }
  AttributeSource source(bool grow) {
    return grow && growing ? AttributeSource(growing.get()) : AttributeSource(view());
  }
};

}  // namespace trellis

// The numbered strings of a model as Python holds them.
#pragma once

#include "bind/python.h"
#include "features/dataset.h"
#include "features/feature_memory.h"

#include <memory>
#include <mutex>
#include <vector>

namespace trellis::bind {

using namespace features;


// A table that is made when it is first asked for, by whichever thread.
struct LazyTable {
  std::once_flag once;
  IndexTable table{0};
};

// Strings with numbers: growing while a corpus is compiled for training, or fixed over arrays that may lie in a file.
struct Attributes {
  std::unique_ptr<StringIndex> growing;
  mutable IndexView fixed;
  nanobind::object arrays;
  std::unique_ptr<LazyTable> lazy{};  // if the arrays have no table
  std::unique_ptr<FeatureMemory> memory{};

  // To go from numbers to strings only.
  const IndexView& strings() const { return growing ? growing->view() : fixed; }
  // The table takes the secret hash if the strings were chosen to collide.
  const IndexView& view() const {
    if (lazy) {
      std::call_once(lazy->once, [this] {
        size_t places = 1024;
        while (fixed.count * 3 > places * 2) places *= 2;
        lazy->table = IndexTable(places);
        if (!lazy->table.fill(fixed, IndexTable::farthest)) {
          fixed.key = &process_key();
          lazy->table = IndexTable(places);
          lazy->table.fill(fixed);
        }
        fixed.marks = lazy->table.marks.data(), fixed.table = lazy->table.numbers.data();
        fixed.capacity = places;
      });
    }
    return strings();
  }
  FeatureMemory& remembered() {
    if (!memory) memory = std::make_unique<FeatureMemory>();
    memory->forget_if_large();
    return *memory;
  }
  AttributeSource source(bool grow) {
    return grow && growing ? AttributeSource(growing.get()) : AttributeSource(view());
  }
};

}  // namespace trellis::bind

// The numbered strings of a model as Python holds them.
#pragma once

#include "bind/array.h"
#include "features/dataset.h"
#include "features/value_index.h"

#include <memory>
#include <mutex>
#include <vector>

namespace trellis {

// Arrays of saved models: of one dimension, and, with `unconverted`, never converted, since conversion takes -1 for
// 65535.
template <typename T>
using Flat = Array<T, nanobind::ndim<1>>;
inline auto unconverted() { return nanobind::arg().noconvert(); }

// A table that is made when it is first asked for, by whichever thread.
struct LazyTable {
  std::once_flag once;
  IndexTable table{0};
};

// The attributes of dicts met so far, by key and by text: to find one again takes no name. Used with the interpreter
// lock held.
class FeatureMemory {
 public:
  static constexpr int32_t unknown = -2;  // not looked up yet; -1: no attribute

  // The number of a key, or -1 if there are too many: then the keys are features themselves.
  int32_t key(std::string_view name) {
    if (int64_t known = names_->view().find(name); known >= 0) return int32_t(known);
    if (keys_.size() >= most_keys) return -1;
    keys_.emplace_back();
    return int32_t(names_->add(name));
  }
  int32_t& alone(int32_t key) { return keys_[size_t(key)].alone; }
  int32_t& with(int32_t key, std::string_view text) {
    Key& own = keys_[size_t(key)];
    if (!own.texts) own.texts = std::make_unique<ValueIndex>();
    const size_t number = size_t(own.texts->add(text));
    if (number == own.attributes.size()) own.attributes.push_back(unknown), bytes_ += text.size() + 40;
    return own.attributes[number];
  }
  int users = 0;  // Python code of a value may begin a call inside another
  void forget_if_large() {
    if (bytes_ > most_bytes && !users) *this = FeatureMemory();
  }

 private:
  static constexpr size_t most_keys = 1024, most_bytes = 32 << 20;
  struct Key {
    int32_t alone = unknown;
    std::unique_ptr<ValueIndex> texts;
    std::vector<int32_t> attributes;  // by text
  };
  std::unique_ptr<StringIndex> names_ = std::make_unique<StringIndex>();
  std::vector<Key> keys_;
  size_t bytes_ = 0;
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

}  // namespace trellis

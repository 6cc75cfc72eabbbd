// The attributes of dicts met so far, by key and by text: to find one again takes no name. Any number of threads may
// read it while none changes it.
#pragma once

#include "features/strings.h"

#include <memory>
#include <vector>

namespace trellis::features {

class FeatureMemory {
 public:
  static constexpr int32_t unknown = -2;  // not looked up yet; -1: no attribute

  // A short text as a number; long_text for others.
  static constexpr uint64_t long_text = ~uint64_t(0);
  static uint64_t code_of(std::string_view text) {
    constexpr size_t longest = 7;
    return text.size() > longest ? long_text : read_bytes(text.data(), text.size()) | uint64_t(text.size()) << 56;
  }

  // The number of a key, or -1.
  int32_t find_key(std::string_view name) const { return int32_t(names_->view().find(name)); }
  // The same, with a number for a new one unless there are too many: then the keys are features themselves.
  int32_t add_key(std::string_view name) {
    if (const int32_t known = find_key(name); known >= 0 || keys_.size() >= most_keys) return known;
    keys_.emplace_back();
    return int32_t(names_->add(name));
  }
  std::string_view name(int32_t key) const { return names_->view()[uint64_t(key)]; }

  // The attribute of a key alone, with a short text by its code, and with a long one.
  int32_t find(int32_t key) const { return keys_[size_t(key)].alone; }
  int32_t find(int32_t key, uint64_t code) const {
    const Slot& slot = slots_[place(key, code)];
    return slot.key == key ? slot.attribute : unknown;
  }
  int32_t find(int32_t key, std::string_view text) const { return keys_[size_t(key)].find(text); }
  // Brings near what `find` reads.
  void fetch(int32_t key, uint64_t code) const { __builtin_prefetch(&slots_[home(key, code)]); }
  void put(int32_t key, int32_t attribute) { keys_[size_t(key)].alone = attribute; }
  void put(int32_t key, std::string_view text, int32_t attribute) {
    const uint64_t code = code_of(text);
    if (code == long_text) {
      bytes_ += keys_[size_t(key)].put(text, attribute);
      return;
    }
    if ((used_ + 1) * 4 > slots_.size() * 3) grow();
    Slot& slot = slots_[place(key, code)];
    used_ += slot.key != key;
    slot = {code, key, attribute};
  }

  int users = 0;  // Python code of a value may begin a call inside another
  void forget_if_large() {
    if (bytes_ + slots_.size() * sizeof(Slot) > most_bytes && !users) *this = FeatureMemory();
  }

 private:
  static constexpr size_t most_keys = 1024, most_bytes = 32 << 20;
  struct Key {
    int32_t alone = unknown;
    std::unique_ptr<StringIndex> texts;  // the long ones
    std::vector<int32_t> attributes;     // by text

    int32_t find(std::string_view text) const {
      const int64_t number = texts ? texts->view().find(text) : -1;
      return number < 0 ? unknown : attributes[size_t(number)];
    }
    // How many bytes more it takes.
    size_t put(std::string_view text, int32_t attribute) {
      if (!texts) texts = std::make_unique<StringIndex>();
      const size_t number = size_t(texts->add(text));
      const bool fresh = number == attributes.size();
      if (fresh) attributes.emplace_back();
      attributes[number] = attribute;
      return fresh ? text.size() + 40 : 0;
    }
  };
  // A key with a short text: open addressing, at most three quarters are used.
  struct Slot {
    uint64_t text = 0;
    int32_t key = -1, attribute = unknown;  // no key: free
  };

  // The highest bits of a sum of products with secret odd factors: see PairIndex.
  size_t home(int32_t key, uint64_t text) const {
    return size_t((text * factors_.k1 + uint64_t(key) * factors_.k0) >> shift_);
  }
  size_t place(int32_t key, uint64_t text) const {
    size_t at = home(key, text);
    while (slots_[at].key >= 0 && (slots_[at].key != key || slots_[at].text != text)) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    --shift_;
    for (const Slot& slot : old)
      if (slot.key >= 0) slots_[place(slot.key, slot.text)] = slot;
  }

  HashKey factors_{process_key().k0 | 1, process_key().k1 | 1};
  std::unique_ptr<StringIndex> names_ = std::make_unique<StringIndex>();
  std::vector<Key> keys_;
  std::vector<Slot> slots_{std::vector<Slot>(1024)};
  int shift_ = 64 - 10;
  size_t used_ = 0, bytes_ = 0;
};

}  // namespace trellis::features

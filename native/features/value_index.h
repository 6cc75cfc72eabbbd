// Strings with numbers, most of which are short: those of up to seven bytes are keys themselves, so that to find one
// takes no other memory than its bucket. Where its weights are lies beside its number: both are asked for at once.
#pragma once

#include "features/key_table.h"
#include "features/strings.h"

#include <algorithm>
#include <vector>

namespace trellis::features {

class ValueIndex {
 public:
  static constexpr size_t longest_key = 7;

  struct Value {
    int32_t number = -1;
    GramSlot slot{};
  };
  // What a string is searched by.
  struct Search {
    std::string_view text;
    uint64_t key;  // of a short one, else its hash
  };
  Search search(std::string_view text) const {
    if (text.size() > longest_key) return {text, long_.view().hash(text)};
    return {text, read_bytes(text.data(), text.size()) | uint64_t(text.size()) << 56};
  }
  int32_t add(std::string_view text) {
    const Search wanted = search(text);
    const int32_t next = count();
    if (is_short(wanted)) return short_.add(wanted.key, {next, {}}).number;
    const size_t own = size_t(long_.add(text, wanted.key));
    if (own == long_values_.size()) long_values_.push_back({next, {}});
    return long_values_[own].number;
  }
  // slots[number] goes to each value.
  void set_slots(const GramSlot* slots) {
    const auto set = [slots](Value& value) { value.slot = slots[value.number]; };
    short_.for_values(set);
    std::for_each(long_values_.begin(), long_values_.end(), set);
  }
  // Bring near what `find` reads, one after another for many searches.
  void fetch(const Search& wanted) const {
    is_short(wanted) ? short_.fetch(wanted.key) : long_.view().fetch_places(wanted.key);
  }
  void fetch_ends(const Search& wanted) const {
    if (!is_short(wanted)) long_.view().fetch_ends(wanted.key);
  }
  void fetch_string(const Search& wanted) const {
    if (!is_short(wanted)) long_.view().fetch_string(wanted.key);
  }
  // Its number is -1 if it is not there.
  Value find(const Search& wanted) const {
    if (is_short(wanted)) {
      const Value* value = short_.find(wanted.key);
      return value ? *value : Value();
    }
    const int64_t own = long_.view().find(wanted.text, wanted.key);
    return own < 0 ? Value() : long_values_[size_t(own)];
  }
  int32_t count() const { return int32_t(short_.count() + long_values_.size()); }

 private:
  static bool is_short(const Search& wanted) { return wanted.text.size() <= longest_key; }

  KeyTable<Value> short_;
  StringIndex long_;
  std::vector<Value> long_values_;
};

}  // namespace trellis::features

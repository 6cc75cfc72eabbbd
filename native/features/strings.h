// Strings with numbers, in the order of their first appearance. A string of up to seven bytes is a key of the table
// itself, so that a search reads one line of memory; of a longer one the key is a hash, and the string is compared.
#pragma once

#include "features/hash_table.h"

#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

namespace trellis::features {

// The bytes of a number at any address, the first of them lowest.
template <typename T>
inline uint64_t read_word(const char* from) {
  T word;
  std::memcpy(&word, from, sizeof word);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = sizeof(T) == 8 ? T(__builtin_bswap64(word)) : sizeof(T) == 4 ? T(__builtin_bswap32(uint32_t(word)))
                                                                      : T(__builtin_bswap16(uint16_t(word)));
#endif
  return word;
}

// Up to eight bytes as a little-endian number. Two reads that may overlap: a copy to memory that is read again at once,
// as one number, would have to wait.
inline uint64_t read_bytes(const char* from, size_t count) {
  const char* end = from + count;
  if (count == 8) return read_word<uint64_t>(from);
  if (count >= 4) return read_word<uint32_t>(from) | read_word<uint32_t>(end - 4) << 8 * (count - 4);
  if (count >= 2) return read_word<uint16_t>(from) | read_word<uint16_t>(end - 2) << 8 * (count - 2);
  return count ? uint8_t(*from) : 0;
}

// Strings one after another, UTF-8 or any bytes: string i ends at ends[i].
struct StringList {
  const char* bytes = nullptr;
  const uint64_t* ends = nullptr;
  uint64_t count = 0, start = 0;

  uint64_t begin(uint64_t i) const { return i ? ends[i - 1] : start; }
  std::string_view operator[](uint64_t i) const { return {bytes + begin(i), size_t(ends[i] - begin(i))}; }
};

// What is kept for each string: its number, and in some indexes more.
struct StringEntry {
  uint32_t number;
};

template <typename Entry = StringEntry>
class StringIndex {
 public:
  static constexpr size_t longest_key = 7;

  StringIndex() = default;
  // Of strings that lie elsewhere, all different; such an index does not grow.
  explicit StringIndex(const StringList& strings) : table_(strings.count), list_(strings) {
    for (uint64_t i = 0; i < strings.count; ++i) insert(strings[i], key_of(strings[i]), uint32_t(i));
  }
  StringIndex(StringIndex&&) = default;
  StringIndex& operator=(StringIndex&&) = default;

  // What a string is searched by.
  static uint64_t key_of(std::string_view s) {
    if (s.size() <= longest_key) return read_bytes(s.data(), s.size()) | uint64_t(s.size()) << 56;
    return as_long(hash(s));
  }
  static bool is_short(uint64_t key) { return !(key >> 63); }
  void fetch(uint64_t key) const { table_.fetch(key); }
  // Called after `fetch` has had its time: brings near the string that a long one is compared with.
  void fetch_string(std::string_view s, uint64_t key) const {
    if (s.size() <= longest_key) return;
    if (const Entry* entry = table_.find(key)) __builtin_prefetch(list_.bytes + list_.begin(entry->number));
  }
  // Null if it is not there.
  const Entry* find(std::string_view s) const { return find(s, key_of(s)); }
  const Entry* find(std::string_view s, uint64_t key) const {
    const Entry* entry = table_.find(key);
    while (entry && s.size() > longest_key && list_[entry->number] != s) entry = table_.find(key = next(key));
    return entry;
  }
  // Its number, or -1.
  int64_t number(std::string_view s) const {
    const Entry* entry = find(s);
    return entry ? int64_t(entry->number) : -1;
  }
  Entry& add(std::string_view s) { return add(s, key_of(s)); }
  Entry& add(std::string_view s, uint64_t key) {
    const auto [entry, is_new] = insert(s, key, uint32_t(list_.count));
    if (is_new) {
      bytes_.insert(bytes_.end(), s.begin(), s.end());
      ends_.push_back(bytes_.size());
      list_ = {bytes_.data(), ends_.data(), ends_.size()};
    }
    return *entry;
  }
  const StringList& list() const { return list_; }
  uint64_t count() const { return list_.count; }
  std::string_view operator[](uint64_t i) const { return list_[i]; }
  // f(entry) for all strings
  template <typename F>
  void for_entries(F f) {
    table_.for_values(f);
  }
  int64_t bytes() const {
    return int64_t(bytes_.capacity() + ends_.capacity() * sizeof(uint64_t)) + table_.bytes();
  }

 private:
  // Keys of long strings: above those of short ones, and never no_key.
  static uint64_t as_long(uint64_t hash) { return (hash | uint64_t(1) << 63) & ~(uint64_t(1) << 62); }
  // Where the next one of several strings with the same key is: nobody lives long enough to see that.
  static uint64_t next(uint64_t key) { return as_long(mix(key, process_key().k0 | 1)); }
  static uint64_t mix(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 Wide;
    const Wide product = Wide(a) * b;
    return uint64_t(product) ^ uint64_t(product >> 64);
  }
  static uint64_t hash(std::string_view s) {
    const HashKey& secret = process_key();
    uint64_t h = secret.k0 ^ s.size();
    size_t i = 0;
    for (; i + 8 <= s.size(); i += 8) h = mix(h ^ read_bytes(s.data() + i, 8), secret.k1);
    return mix(h ^ read_bytes(s.data() + i, s.size() - i), secret.k1);
  }
  // The entry of a string, with this number if it is new.
  std::pair<Entry*, bool> insert(std::string_view s, uint64_t key, uint32_t number) {
    Entry fresh{};
    fresh.number = number;
    for (;; key = next(key)) {
      Entry& entry = table_.add(key, fresh);
      if (entry.number == number) return {&entry, true};
      if (s.size() <= longest_key || list_[entry.number] == s) return {&entry, false};
    }
  }

  std::vector<char> bytes_;
  std::vector<uint64_t> ends_;
  HashTable<Entry> table_;
  StringList list_;
};

}  // namespace trellis::features

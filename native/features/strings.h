// Strings numbered in the order of their first appearance. The whole index is four flat arrays, so that a saved one is
// used in place:
//   bytes    the strings one after another, UTF-8
//   ends     [count] where string i ends (it begins where the one before ends)
//   marks    [capacity, a power of two] open addressing, linear probing: 0 if free, else 8 bits of the string's hash
//   table    [capacity] the number of the string there
// A search runs over the marks, many of which share a cache line, and looks at a string only where its mark agrees.
//
// The hash is part of the file format, so everybody knows it. An index that grows takes a secret one as soon as a
// search is longer than chance allows, that is, when somebody has chosen the strings for their hashes; what is saved
// has the known one.
#pragma once

#include "features/hashing.h"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace trellis::features {

struct IndexView {
  const char* bytes = nullptr;
  const uint64_t* ends = nullptr;
  const uint8_t* marks = nullptr;
  const uint32_t* table = nullptr;
  uint64_t count = 0, capacity = 0;
  const HashKey* key = nullptr;  // of the secret hash, or null for hash_bytes

  uint64_t hash(std::string_view s) const { return key ? keyed_hash(s, *key) : hash_bytes(s); }
  static uint8_t mark_of(uint64_t hash) { return uint8_t((hash >> 56) | 1); }
  std::string_view operator[](uint64_t i) const {
    const uint64_t begin = i ? ends[i - 1] : 0;
    return {bytes + begin, size_t(ends[i] - begin)};
  }
  // The place where the string is, or where it would go; a full index (a damaged file) gives capacity.
  uint64_t slot(std::string_view s, uint64_t hash) const {
    const uint8_t mark = mark_of(hash);
    for (uint64_t i = 0; i < capacity; ++i) {
      const uint64_t at = (hash + i) & (capacity - 1);
      if (!marks[at] || (marks[at] == mark && table[at] < count && (*this)[table[at]] == s)) return at;
    }
    return capacity;
  }
  // Searches wait for memory more than for anything else. Called one after another for a batch of strings, these bring
  // near what a search for each will read: its places, the ends of the string found there, the string.
  void fetch_places(uint64_t hash) const {
    __builtin_prefetch(marks + (hash & (capacity - 1)));
    __builtin_prefetch(table + (hash & (capacity - 1)));
  }
  void fetch_ends(uint64_t hash) const {
    const uint64_t at = hash & (capacity - 1);
    if (marks[at] == mark_of(hash)) __builtin_prefetch(ends + table[at]);
  }
  void fetch_string(uint64_t hash) const {
    const uint64_t at = hash & (capacity - 1);
    if (marks[at] == mark_of(hash) && table[at] < count) __builtin_prefetch((*this)[table[at]].data());
  }
  // Its number, or -1.
  int64_t find(std::string_view s) const { return find(s, hash(s)); }
  int64_t find(std::string_view s, uint64_t hash) const {
    const uint64_t at = slot(s, hash);
    return at == capacity || !marks[at] ? -1 : int64_t(table[at]);
  }
};

// The table of some strings, all different.
struct IndexTable {
  std::vector<uint8_t> marks;
  std::vector<uint32_t> numbers;

  // Places between where a string belongs and where it is. Two thirds full, by chance one in e^70 is farther.
  static constexpr uint64_t farthest = 1024;

  explicit IndexTable(size_t capacity) : marks(capacity, 0), numbers(capacity) {}
  // False, and not complete, if a string would be farther than `most` places away.
  bool fill(const IndexView& strings, uint64_t most = ~uint64_t(0)) {
    for (uint64_t i = 0; i < strings.count; ++i) {
      const uint64_t hash = strings.hash(strings[i]), at = first_free(hash & (marks.size() - 1));
      if (((at - hash) & (marks.size() - 1)) > most) return false;
      marks[at] = IndexView::mark_of(hash);
      numbers[at] = uint32_t(i);
    }
    return true;
  }

 private:
  uint64_t first_free(uint64_t from) const {
    const void* found = std::memchr(marks.data() + from, 0, marks.size() - from);
    if (!found) found = std::memchr(marks.data(), 0, from);
    return uint64_t(static_cast<const uint8_t*>(found) - marks.data());
  }
};

class StringIndex {
 public:
  StringIndex() : table_(1024) { look(); }
  StringIndex(const StringIndex&) = delete;
  StringIndex& operator=(const StringIndex&) = delete;

  int64_t add(std::string_view s) { return add(s, view_.hash(s)); }
  // The hash is that of `view`.
  int64_t add(std::string_view s, uint64_t hash) {
    const uint64_t at = view_.slot(s, hash);
    if (table_.marks[at]) return int64_t(table_.numbers[at]);
    bytes_.insert(bytes_.end(), s.begin(), s.end());
    ends_.push_back(bytes_.size());
    table_.marks[at] = IndexView::mark_of(hash);
    table_.numbers[at] = uint32_t(ends_.size() - 1);
    look();
    if (!view_.key && ((at - hash) & (view_.capacity - 1)) > IndexTable::farthest) return hide(), int64_t(ends_.size()) - 1;
    if (ends_.size() * 3 > table_.marks.size() * 2) fill(table_.marks.size() * 2);
    return int64_t(ends_.size()) - 1;
  }
  const IndexView& view() const { return view_; }
  // With the hash of the file format.
  IndexTable table() const {
    if (!view_.key) return table_;
    IndexTable known(table_.marks.size());
    IndexView strings = view_;
    strings.key = nullptr;
    known.fill(strings);
    return known;
  }
  int64_t bytes() const {
    return int64_t(bytes_.capacity() + ends_.capacity() * sizeof(uint64_t) + table_.marks.capacity() +
                   table_.numbers.capacity() * sizeof(uint32_t));
  }

 private:
  void look() {
    view_ = {bytes_.data(), ends_.data(), table_.marks.data(), table_.numbers.data(), ends_.size(), table_.marks.size(),
             view_.key};
  }
  void hide() {
    view_.key = &process_key();
    fill(table_.marks.size());
  }
  void fill(size_t capacity) {
    table_ = IndexTable(capacity);
    table_.fill(view_);
    look();
  }

  std::vector<char> bytes_;
  std::vector<uint64_t> ends_;
  IndexTable table_;
  IndexView view_;
};

}  // namespace trellis::features

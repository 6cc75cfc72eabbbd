// Strings numbered in the order in which they first came. The whole index is four flat arrays, so that a saved one is
// used where it lies in the file:
//   bytes    the strings one after another, UTF-8
//   ends     [count] where string i ends (it begins where the one before ends)
//   marks    [capacity, a power of two] open addressing, linear probing: 0 where free, else 8 bits of the string's hash
//   table    [capacity] the number of the string there
// A search runs over the marks, many of which share a cache line, and looks at a string only where its mark agrees.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace trellis {

// Up to eight bytes as a little-endian number.
inline uint64_t read_bytes(const char* from, size_t count) {
  uint64_t word = 0;
  std::memcpy(&word, from, count);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

// 64 bits from any bytes: multiply and fold eight bytes at a time. Part of the file format: do not change.
inline uint64_t hash_bytes(std::string_view s) {
  constexpr uint64_t k0 = 0x9e3779b97f4a7c15ull, k1 = 0xd6e8feb86659fd93ull;
  const auto fold = [](uint64_t x, uint64_t k) {
    x *= k;
    return x ^ (x >> 32);
  };
  uint64_t h = fold(s.size() + k0, k1);
  size_t i = 0;
  for (; i + 8 <= s.size(); i += 8) h = fold(h ^ read_bytes(s.data() + i, 8), k0);
  return fold(fold(h ^ read_bytes(s.data() + i, s.size() - i), k0), k1);
}

struct IndexView {
  const char* bytes = nullptr;
  const uint64_t* ends = nullptr;
  const uint8_t* marks = nullptr;
  const uint32_t* table = nullptr;
  uint64_t count = 0, capacity = 0;

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
  int64_t find(std::string_view s) const { return find(s, hash_bytes(s)); }
  int64_t find(std::string_view s, uint64_t hash) const {
    const uint64_t at = slot(s, hash);
    return at == capacity || !marks[at] ? -1 : int64_t(table[at]);
  }
};

class StringIndex {
 public:
  StringIndex() : marks_(1024, 0), table_(1024) { look(); }
  StringIndex(const StringIndex&) = delete;
  StringIndex& operator=(const StringIndex&) = delete;

  int64_t add(std::string_view s) { return add(s, hash_bytes(s)); }
  int64_t add(std::string_view s, uint64_t hash) {
    const uint64_t at = view_.slot(s, hash);
    if (marks_[at]) return int64_t(table_[at]);
    bytes_.insert(bytes_.end(), s.begin(), s.end());
    ends_.push_back(bytes_.size());
    marks_[at] = IndexView::mark_of(hash);
    table_[at] = uint32_t(ends_.size() - 1);
    look();
    if (ends_.size() * 3 > table_.size() * 2) grow();
    return int64_t(ends_.size()) - 1;
  }
  const IndexView& view() const { return view_; }
  int64_t bytes() const {
    return int64_t(bytes_.capacity() + ends_.capacity() * sizeof(uint64_t) + marks_.capacity() +
                   table_.capacity() * sizeof(uint32_t));
  }

 private:
  void look() {
    view_ = {bytes_.data(), ends_.data(), marks_.data(), table_.data(), ends_.size(), table_.size()};
  }
  void grow() {
    marks_.assign(marks_.size() * 2, 0);
    table_.resize(marks_.size());
    look();
    for (uint64_t i = 0; i < ends_.size(); ++i) {
      const uint64_t hash = hash_bytes(view_[i]);
      uint64_t at = hash & (view_.capacity - 1);
      while (marks_[at]) at = (at + 1) & (view_.capacity - 1);
      marks_[at] = IndexView::mark_of(hash);
      table_[at] = uint32_t(i);
    }
  }

  std::vector<char> bytes_;
  std::vector<uint64_t> ends_;
  std::vector<uint8_t> marks_;
  std::vector<uint32_t> table_;
  IndexView view_;
};

}  // namespace trellis

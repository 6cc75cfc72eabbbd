// The strings of a column as they were read, before they have numbers. To number them takes nothing of Python, so it
// is done while other threads have the interpreter lock.
#pragma once

#include "features/dataset.h"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace trellis::features {

class RawCells {
 public:
  void add(std::string_view text) {
    if (used_ + text.size() > bytes_.size()) bytes_.resize(2 * (used_ + text.size()));
    copy(text, bytes_.data() + used_);
    used_ += text.size();
    marks_.push_back(int64_t(text.size()));
  }
  // A string of one character.
  void add_character(uint32_t code) { marks_.push_back(~int64_t(code)); }
  // Appends them to the cells of a column.
  void number(Column& column) const {
    const char* text = bytes_.data();
    column.cells.reserve(column.cells.size() + marks_.size());
    for (const int64_t mark : marks_) {
      if (mark < 0) {
        column.cells.push_back(column.number_of(uint32_t(~mark)));
        continue;
      }
      column.cells.push_back(int32_t(column.values.add({text, size_t(mark)})));
      text += mark;
    }
  }
  // Memory is kept for the next time if it is not much.
  void clear() {
    constexpr int64_t much = 1 << 20;
    if (bytes() > much) *this = RawCells();
    used_ = 0;
    marks_.clear();
  }
  int64_t bytes() const { return int64_t(bytes_.capacity() + marks_.capacity() * sizeof(int64_t)); }

 private:
  // Most words have up to 16 bytes: two copies that may overlap take less than a call of memcpy.
  static void copy(std::string_view from, char* to) {
    const size_t size = from.size();
    if (size > 16) return void(std::memcpy(to, from.data(), size));
    if (size >= 8) return copy_ends<uint64_t>(from, to);
    if (size >= 4) return copy_ends<uint32_t>(from, to);
    if (size >= 2) return copy_ends<uint16_t>(from, to);
    if (size) *to = from[0];
  }
  template <typename Word>
  static void copy_ends(std::string_view from, char* to) {
    Word first, last;
    std::memcpy(&first, from.data(), sizeof(Word));
    std::memcpy(&last, from.data() + from.size() - sizeof(Word), sizeof(Word));
    std::memcpy(to, &first, sizeof(Word));
    std::memcpy(to + from.size() - sizeof(Word), &last, sizeof(Word));
  }

  std::vector<char> bytes_;     // of strings of several characters, one after another
  size_t used_ = 0;             // of them
  std::vector<int64_t> marks_;  // [N] the bytes of a string, or ~ its only character
};

}  // namespace trellis::features

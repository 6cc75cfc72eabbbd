#include "text/words.h"

#include <algorithm>

namespace trellis::text {
namespace {

constexpr size_t kLongestEasy = 32;  // bytes

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_mark(char c) { return c == '.' || c == ',' || c == ';' || c == ':' || c == '!' || c == '?'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; }

// Whether the three bytes of a character of U+0800 to U+FFFF are white space: U+1680, U+2000 to U+200A, U+2028,
// U+2029, U+202F, U+205F, U+3000.
bool is_wide_space(unsigned char a, unsigned char b, unsigned char c) {
  if (a == 0xE1) return b == 0x9A && c == 0x80;
  if (a == 0xE3) return b == 0x80 && c == 0x80;
  if (a != 0xE2) return false;
  return b == 0x80 ? c <= 0x8A || c == 0xA8 || c == 0xA9 || c == 0xAF : b == 0x81 && c == 0x9F;
}

// Bytes of the white space at `at`; 0 if there is none.
size_t space_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char a = byte(0);
  if (a < 0x80) return a == ' ' || (a >= 0x09 && a <= 0x0D) || (a >= 0x1C && a <= 0x1F);
  if (a == 0xC2) return byte(1) == 0x85 || byte(1) == 0xA0 ? 2 : 0;
  return a >= 0xE1 && a <= 0xE3 && is_wide_space(a, byte(1), byte(2)) ? 3 : 0;
}

}  // namespace

std::string_view next_chunk(std::string_view text, size_t from, bool quotes_apart) {
  size_t begin = from;
  while (begin < text.size()) {
    const size_t space = space_at(text, begin);
    if (!space) break;
    begin += space;
  }
  const auto is_quote = [&](size_t at) { return quotes_apart && text[at] == '"'; };
  if (begin < text.size() && is_quote(begin)) return text.substr(begin, 1);
  size_t end = begin;
  while (end < text.size() && !is_quote(end) && !space_at(text, end)) ++end;
  return text.substr(begin, end - begin);
}

bool EasyWords::excludes(std::string_view word) const {
  char small[kLongestEasy];
  std::transform(word.begin(), word.end(), small, lower);
  return excluded_.count({small, word.size()}) > 0;
}

size_t EasyWords::first_token(std::string_view chunk) const {
  if (chunk.size() > kLongestEasy || static_cast<unsigned char>(chunk[0]) >= 0x80 || excludes(chunk)) return 0;
  if (chunk.size() == 1) return 1;
  const std::string_view word = chunk.substr(0, chunk.size() - is_mark(chunk.back()));
  const auto all_are = [&](bool (*kind)(char)) { return std::all_of(word.begin(), word.end(), kind); };
  if (!all_are(is_letter) && !all_are(is_digit)) return 0;
  if (word.size() == chunk.size()) return chunk.size();
  const bool initial = word.size() == 1 && chunk.back() == '.';
  return initial || excludes(word) || excludes(chunk.substr(word.size())) ? 0 : word.size();
}

}  // namespace trellis::text

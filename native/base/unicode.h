// Characters: in UTF-8, and their properties in one version of Unicode, whatever Python builds or runs this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trellis {

const char* unicode_version();
bool is_upper(uint32_t code);  // or title case
bool is_alpha(uint32_t code);
bool is_decimal(uint32_t code);
uint32_t to_lower(uint32_t code);  // the first character of it, where there are several

// The code point that starts at `at`, which moves past it. The bytes must be UTF-8, as those of a Python string are.
inline uint32_t next_character(std::string_view s, size_t& at) {
  const uint8_t first = uint8_t(s[at++]);
  if (first < 0x80) return first;
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  uint32_t code = first & (0x3fu >> more);
  for (int i = 0; i < more && at < s.size(); ++i) code = code << 6 | (uint8_t(s[at++]) & 0x3fu);
  return code;
}

inline void append_character(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += char(code);
  } else if (code < 0x800) {
    out += char(0xc0 | code >> 6);
    out += char(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += char(0xe0 | code >> 12);
    out += char(0x80 | (code >> 6 & 0x3f));
    out += char(0x80 | (code & 0x3f));
  } else {
    out += char(0xf0 | code >> 18);
    out += char(0x80 | (code >> 12 & 0x3f));
    out += char(0x80 | (code >> 6 & 0x3f));
    out += char(0x80 | (code & 0x3f));
  }
}

inline bool is_ascii(std::string_view s) {
  for (const char c : s)
    if (uint8_t(c) >= 0x80) return false;
  return true;
}

}  // namespace trellis

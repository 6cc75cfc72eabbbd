#include "features/templates.h"

#include <algorithm>
#include <map>

namespace trellis::features {
namespace {

bool is_start(char byte) { return (uint8_t(byte) & 0xc0) != 0x80; }

std::string_view prefix(std::string_view s, int count) {
  size_t at = 0;
  for (; at < s.size(); ++at)
    if (is_start(s[at]) && count-- == 0) break;
  return s.substr(0, at);
}

std::string_view suffix(std::string_view s, int count) {
  size_t at = s.size();
  while (at > 0 && count > 0)
    if (is_start(s[--at])) --count;
  return s.substr(at);
}

// X upper case, x any other letter, d digit, everything else itself.
uint32_t shape_of(uint32_t code) {
  if (code < 0x80) {
    if (code >= 'a' && code <= 'z') return 'x';
    if (code >= 'A' && code <= 'Z') return 'X';
    return code >= '0' && code <= '9' ? 'd' : code;
  }
  if (is_upper(code)) return 'X';
  if (is_alpha(code)) return 'x';
  return is_decimal(code) ? 'd' : code;
}

// f of each character, for ASCII text
template <typename F>
void append_mapped(std::string_view s, std::string& out, F f) {
  const size_t begin = out.size();
  out.resize(begin + s.size());
  for (size_t i = 0; i < s.size(); ++i) out[begin + i] = char(f(uint8_t(s[i])));
}

uint32_t lower_of(uint32_t code) {
  return code >= 0x80 ? to_lower(code) : code >= 'A' && code <= 'Z' ? code + 32 : code;
}

void append_lower(std::string_view s, std::string& out) {
  if (is_ascii(s)) return append_mapped(s, out, [](uint8_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  for (size_t at = 0; at < s.size();) append_character(out, lower_of(next_character(s, at)));
}

void append_shape(std::string_view s, bool runs_as_one, std::string& out) {
  if (!runs_as_one && is_ascii(s)) return append_mapped(s, out, shape_of);
  uint32_t last = 0xffffffff;  // no character
  for (size_t at = 0; at < s.size();) {
    const uint32_t here = shape_of(next_character(s, at));
    if (!runs_as_one || here != last) append_character(out, here);
    last = here;
  }
}

bool is_numeral(uint32_t code) {  // 〇一二三四五六七八九十百千万亿两零
  static const uint32_t numerals[] = {0x3007, 0x4e00, 0x4e8c, 0x4e09, 0x56db, 0x4e94, 0x516d, 0x4e03, 0x516b,
                                      0x4e5d, 0x5341, 0x767e, 0x5343, 0x4e07, 0x4ebf, 0x4e24, 0x96f6};
  return std::find(std::begin(numerals), std::end(numerals), code) != std::end(numerals);
}

// d digit, n Chinese numeral, l letter of an alphabet, h ideograph or other letter, p anything else
char type_of(uint32_t code) {
  if (is_decimal(code)) return 'd';
  if (is_numeral(code)) return 'n';
  if (!is_alpha(code)) return 'p';
  return code < 0x2e80 || (code >= 0xff21 && code <= 0xff5a) ? 'l' : 'h';
}

// The type all characters share, or m if they are mixed.
void append_type(std::string_view s, std::string& out) {
  char all = 0;
  for (size_t at = 0; at < s.size();) {
    const char here = type_of(next_character(s, at));
    all = all == 0 || all == here ? here : 'm';
  }
  if (all) out += all;
}

}  // namespace

std::string edge_value(int64_t distance) {
  return "_B" + std::string(distance > 0 ? "+" : "") + std::to_string(distance);
}

void apply(Function function, int argument, std::string_view value, std::string& out) {
  switch (function) {
    case Function::value: out += value; break;
    case Function::lower: append_lower(value, out); break;
    case Function::shape: append_shape(value, false, out); break;
    case Function::short_shape: append_shape(value, true, out); break;
    case Function::prefix: out += prefix(value, argument); break;
    case Function::suffix: out += suffix(value, argument); break;
    case Function::type: append_type(value, out); break;
  }
}

TemplateSet::TemplateSet(std::vector<std::vector<Piece>> given) : templates(std::move(given)) {
  std::map<std::vector<std::pair<int, int>>, size_t> known;
  for (size_t t = 0; t < templates.size(); ++t) {
    std::vector<std::pair<int, int>> key;
    for (const Piece& piece : templates[t])
      if (piece.column >= 0) key.emplace_back(piece.row, piece.column);
    std::sort(key.begin(), key.end());
    key.erase(std::unique(key.begin(), key.end()), key.end());
    const auto [place, is_new] = known.emplace(key, groups.size());
    if (is_new) {
      groups.emplace_back();
      for (const auto& [row, column] : key) {
        groups.back().sources.push_back({row, column});
        columns = std::max(columns, column + 1);
      }
    }
    groups[place->second].templates.push_back(int(t));
  }
}

std::vector<Family> TemplateSet::families() const {
  std::map<std::vector<std::pair<int, int>>, int> known;
  std::vector<Family> found;
  for (const Group& group : groups) {
    const int row = group.sources.empty() ? 0 : group.sources[0].row;
    std::vector<std::pair<int, int>> key;
    for (const Source& source : group.sources) key.emplace_back(source.row - row, source.column);
    found.push_back({known.emplace(std::move(key), int(known.size())).first->second, row});
  }
  return found;
}

}  // namespace trellis::features

#include "features/templates.h"

#include "base/unicode.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <tuple>

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

// The place of an item among others, after which it stands if it is new.
template <typename T>
int number_of(const T& item, std::vector<T>& items) {
  const auto found = std::find(items.begin(), items.end(), item);
  const int number = int(found - items.begin());
  if (found == items.end()) items.push_back(item);
  return number;
}

}  // namespace

std::string border_value(int64_t distance) {
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

TemplateSet::TemplateSet(const std::vector<std::vector<Piece>>& lines) {
  for (const std::vector<Piece>& line : lines) {
    Form form;
    std::vector<Part> parts;  // with rows for offsets at first
    std::vector<Source> sources;
    for (const Piece& piece : line) {
      form.texts.push_back(piece.text);
      if (piece.column < 0) continue;
      form.readings.push_back(number_of({piece.column, piece.function, piece.argument}, readings));
      parts.push_back({piece.row, form.readings.back()});
      sources.push_back({piece.row, piece.column});
      reach = std::max(reach, std::abs(piece.row));
      columns = std::max(columns, piece.column + 1);
    }
    form.texts.resize(parts.size() + 1);
    Template own;
    own.form = number_of(form, forms);

    std::sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) {
      return std::tie(a.row, a.column) < std::tie(b.row, b.column);
    });
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.sources == sources; });
    if (group == groups.end()) group = groups.insert(groups.end(), {sources, {}});
    group->templates.push_back(int(templates.size()));

    const int first = sources.empty() ? 0 : sources[0].row;
    for (Part& part : parts) own.rows.push_back(part.offset), part.offset -= first;
    std::vector<Part> sorted(parts);
    std::sort(sorted.begin(), sorted.end(), [](const Part& a, const Part& b) {
      return std::tie(a.offset, a.reading) < std::tie(b.offset, b.reading);
    });
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    for (const Part& part : parts)
      own.parts.push_back(int(std::find(sorted.begin(), sorted.end(), part) - sorted.begin()));
    auto shape = std::find_if(shapes.begin(), shapes.end(), [&](const Shape& s) { return s.parts == sorted; });
    if (shape == shapes.end()) shape = shapes.insert(shapes.end(), {sorted, {}});
    own.shape = int(shape - shapes.begin());
    own.entry = int(shape->first_rows.size());
    shape->first_rows.push_back(first);
    templates.push_back(std::move(own));
  }
}

int TemplateSet::shape_alone(int reading) const {
  for (size_t s = 0; s < shapes.size(); ++s)
    if (shapes[s].parts.size() == 1 && shapes[s].parts[0].reading == reading) return int(s);
  return -1;
}

std::vector<std::vector<int>> TemplateSet::windows() const {
  std::map<std::vector<std::pair<int, int>>, int> families;  // by cells, counted from the first one
  std::vector<std::array<int, 3>> order;                     // family, -row, group
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<Source>& sources = groups[g].sources;
    const int row = sources.empty() ? 0 : sources[0].row;
    std::vector<std::pair<int, int>> cells;
    for (const Source& source : sources) cells.emplace_back(source.row - row, source.column);
    order.push_back({families.emplace(std::move(cells), int(families.size())).first->second, -row, int(g)});
  }
  std::sort(order.begin(), order.end());
  std::vector<std::vector<int>> found;
  for (size_t i = 0; i < order.size(); ++i) {
    if (!i || order[i][0] != order[i - 1][0] || order[i][1] != order[i - 1][1] + 1) found.emplace_back();
    found.back().push_back(order[i][2]);
  }
  return found;
}

}  // namespace trellis::features

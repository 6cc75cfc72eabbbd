#include "text/token_lists.h"

#include "base/unicode.h"

#include <algorithm>

namespace trellis {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// What stands for itself in a JSON string, by byte.
struct Plain {
  bool is[256] = {};
  constexpr Plain() {
    for (int c = 0x20; c < 0x80; ++c) is[c] = c != '"' && c != '\\';
  }
};
constexpr Plain plain;

// A place in a JSON text. Its functions go past what they are named for; false if something else is there.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  bool is_at_end() const { return at_ == text_.size(); }
  bool is_next(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool take(char c) {
    if (!is_next(c)) return false;
    ++at_;
    return true;
  }
  // A string; its text is appended to `out`.
  bool string(std::string& out) {
    if (!take('"')) return false;
    for (;;) {
      const size_t begin = at_;
      while (at_ < text_.size() && plain.is[uint8_t(text_[at_])]) ++at_;
      out.append(text_.data() + begin, at_ - begin);
      if (take('"')) return true;
      if (!(is_next('\\') ? escape(out) : wide(out))) return false;
    }
  }
  // A string without escapes, as it is written.
  bool name(std::string_view& out) {
    if (!take('"')) return false;
    const size_t end = text_.find_first_of("\"\\", at_);
    if (end == std::string_view::npos || text_[end] == '\\') return false;
    out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }
  // A value of any kind, if it is one.
  bool skip_value() {
    if (is_next('"')) return skip_string();
    if (!is_next('[') && !is_next('{')) return skip_word();
    int64_t depth = 0;
    while (at_ < text_.size()) {
      if (is_next('"')) {
        if (!skip_string()) return false;
        continue;
      }
      const char c = text_[at_++];
      depth += (c == '[' || c == '{') - (c == ']' || c == '}');
      if (depth == 0) return true;
    }
    return false;
  }

 private:
  bool skip_string() {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') return ++at_, true;
      at_ += text_[at_] == '\\';
    }
    return at_ = text_.size(), false;
  }
  bool skip_word() {
    const size_t begin = at_;
    while (at_ < text_.size() && !is_space(text_[at_]) && std::string_view(",:]}[{\"").find(text_[at_]) == std::string_view::npos)
      ++at_;
    return at_ > begin;
  }
  bool escape(std::string& out) {
    ++at_;
    if (at_ == text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    const size_t found = letters.find(c);
    if (found != std::string_view::npos) return out += meanings[found], true;
    uint32_t code = 0, low = 0;
    if (c != 'u' || !hex(code)) return false;
    if (code >= 0xdc00 && code < 0xe000) return false;  // the second half of a pair without the first
    if (code >= 0xd800 && code < 0xdc00) {
      if (!take('\\') || !take('u') || !hex(low) || low < 0xdc00 || low >= 0xe000) return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    return append_character(out, code), true;
  }
  bool hex(uint32_t& code) {
    if (text_.size() - at_ < 4) return false;
    for (int i = 0; i < 4; ++i) {
      const char c = text_[at_++], small = char(c | 0x20);
      const int digit = c >= '0' && c <= '9' ? c - '0' : small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
      if (digit < 0) return false;
      code = code << 4 | uint32_t(digit);
    }
    return true;
  }
  // One character beyond ASCII, in the shortest form that it has, and no half of a pair.
  bool wide(std::string& out) {
    if (at_ == text_.size()) return false;
    const uint8_t first = uint8_t(text_[at_]);
    const size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || text_.size() - at_ <= more) return false;
    for (size_t i = 1; i <= more; ++i)
      if ((uint8_t(text_[at_ + i]) & 0xc0) != 0x80) return false;
    const uint8_t second = uint8_t(text_[at_ + 1]);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0)) return false;
    if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90)) return false;
    out.append(text_, at_, more + 1);
    at_ += more + 1;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// '[' item, item ... ']', with white space anywhere between.
template <typename F>
bool read_list(Cursor& cursor, F item) {
  if (!cursor.take('[')) return false;
  cursor.spaces();
  if (cursor.take(']')) return true;
  for (;;) {
    if (!item()) return false;
    cursor.spaces();
    if (cursor.take(']')) return true;
    if (!cursor.take(',')) return false;
    cursor.spaces();
  }
}

bool read_lists(Cursor& cursor, TokenLists& lists) {
  const auto token = [&] {
    const size_t before = lists.bytes.size();
    if (!cursor.string(lists.bytes) || lists.bytes.size() == before) return false;
    lists.ends.push_back(int64_t(lists.bytes.size()));
    return true;
  };
  return read_list(cursor, [&] {
    if (!read_list(cursor, token)) return false;
    lists.offsets.push_back(int64_t(lists.ends.size()));
    return true;
  });
}

}  // namespace

void TokenLists::add(const TokenLists& other, int64_t first, int64_t last) {
  const int64_t from = other.offsets[size_t(first)], to = other.offsets[size_t(last)];
  const int64_t begin = other.begin(from), end = other.begin(to), tokens = offsets.back();
  const int64_t shift = int64_t(bytes.size()) - begin;
  bytes.append(other.bytes, size_t(begin), size_t(end - begin));
  const auto append = [](std::vector<int64_t>& to, const int64_t* first, const int64_t* last, int64_t shift) {
    const size_t before = to.size();
    to.resize(before + size_t(last - first));
    std::transform(first, last, to.data() + before, [shift](int64_t n) { return n + shift; });
  };
  append(ends, other.ends.data() + from, other.ends.data() + to, shift);
  append(offsets, other.offsets.data() + first + 1, other.offsets.data() + last + 1, tokens - from);
}

bool read_token_lists(std::string_view json, std::string_view field, TokenLists& lists, Extent& value) {
  Cursor cursor(json);
  bool found = false;
  cursor.spaces();
  if (!cursor.take('{')) return false;
  for (bool more = true; more;) {
    std::string_view name;
    cursor.spaces();
    if (!cursor.name(name)) return false;
    cursor.spaces();
    if (!cursor.take(':')) return false;
    cursor.spaces();
    if (name == field) {
      if (found) return false;
      found = true;
      value.first = cursor.at();
      lists.bytes.reserve(json.size() - cursor.at());
      lists.ends.reserve((json.size() - cursor.at()) / 8);
      if (!read_lists(cursor, lists)) return false;
      value.last = cursor.at();
    } else if (!cursor.skip_value()) {
      return false;
    }
    cursor.spaces();
    more = cursor.take(',');
  }
  if (!cursor.take('}')) return false;
  cursor.spaces();
  return found && cursor.is_at_end();
}

bool NameWriter::write(const int64_t* ids, const int64_t* lengths, int64_t sentences, std::string& out) const {
  size_t size = size_t(sentences) * (opening.size() + closing.size() + 1), tokens = 0;
  for (int64_t b = 0; b < sentences; ++b) tokens += size_t(lengths[b]);
  for (size_t i = 0; i < tokens; ++i) {
    if (ids[i] < 0 || ids[i] >= int64_t(names.size())) return false;
    size += names[size_t(ids[i])].size() + 1;
  }
  const size_t before = out.size();
  out.resize(before + size);
  char* at = out.data() + before;
  const auto put = [&at](std::string_view text) { at = std::copy(text.begin(), text.end(), at); };
  for (int64_t b = 0; b < sentences; ++b) {
    if (b) *at++ = ',';
    put(opening);
    for (const int64_t* end = ids + lengths[b]; ids < end; ++ids) {
      put(names[size_t(*ids)]);
      if (ids + 1 < end) *at++ = ',';
    }
    put(closing);
  }
  out.resize(size_t(at - out.data()));
  return true;
}

}  // namespace trellis

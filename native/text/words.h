// Words of running text that need no rules: most chunks between white space are one run of letters, perhaps with a
// mark behind it.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_set>

namespace trellis::text {

// The next stretch without white space (that of Python's str.split) at or after `from`, in UTF-8; empty at the end.
// With `quotes_apart` each double quote is one by itself.
std::string_view next_chunk(std::string_view text, size_t from, bool quotes_apart);

class EasyWords {
 public:
  // Lower-case strings that rules are needed for, though they look easy.
  void exclude(std::string_view word) {
    excluded_.insert(kept_.emplace_back(word));
    quotes_apart_ &= word.find('"') == std::string_view::npos;
  }
  // No rule joins a double quote to anything, and none looks across one; only words that are excluded may.
  bool quotes_apart() const { return quotes_apart_; }
  // How many bytes of the chunk are its first token: the chunk itself or all but a mark; 0 if it needs the rules.
  size_t first_token(std::string_view chunk) const;

 private:
  bool excludes(std::string_view word) const;

  std::deque<std::string> kept_;
  std::unordered_set<std::string_view> excluded_;
  bool quotes_apart_ = true;
};

}  // namespace trellis::text

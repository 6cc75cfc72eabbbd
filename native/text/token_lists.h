// Sentences as lists of tokens, all in one piece, and the way to them from JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trellis {

struct TokenLists {
  std::string bytes;                // the tokens one after another, UTF-8
  std::vector<int64_t> ends;        // [N] where each token ends (it begins where the one before ends)
  std::vector<int64_t> offsets{0};  // [B + 1] tokens of each sentence

  int64_t sentences() const { return int64_t(offsets.size()) - 1; }
  int64_t begin(int64_t token) const { return token ? ends[size_t(token) - 1] : 0; }
  std::string_view operator[](int64_t token) const {
    return std::string_view(bytes).substr(size_t(begin(token)), size_t(ends[size_t(token)] - begin(token)));
  }
  // Append the sentences first .. last - 1 of another.
  void add(const TokenLists& other, int64_t first, int64_t last);
};

// Bytes first .. last - 1 of a text.
struct Extent {
  size_t first = 0, last = 0;
};

// The field of a JSON object whose value is a list of lists of strings, none of them empty, and where that value is.
//
// False where there is no such field or another value, where it comes twice or the name of a field is written with
// escapes, and where the value is not JSON: the caller reads the text in the ordinary way, and finds the words for what
// is wrong. The rest of the text is skipped, not checked: the caller must parse it with something else in the place of
// the value.
bool read_token_lists(std::string_view json, std::string_view field, TokenLists& lists, Extent& value);

// For each sentence `opening`, the names of its labels separated by commas, and `closing`; sentences are separated by
// commas too. False if a label has no name.
struct NameWriter {
  const std::vector<std::string_view>& names;
  std::string_view opening, closing;

  bool write(const int64_t* ids, const int64_t* lengths, int64_t sentences, std::string& out) const;
};

}  // namespace trellis

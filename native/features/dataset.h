// A corpus as numbers. Token n carries `groups` bundles of features, a bundle is a list of attributes with values, and
// an attribute has a weight for each label it was seen with:
//
//   emission[n, l] = sum over bundles u of n, attributes (a, v) of u:  v * weight[a, l]
//
// so scores flow attribute -> bundle -> token, and gradients flow back token -> bundle -> attribute.
#pragma once

#include "base/numbers.h"
#include "base/unicode.h"
#include "features/strings.h"
#include "features/templates.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trellis::features {

// Groups of templates that look at the same cells, each from one row before the one that it follows (the character
// before, this one, the next one). What they say wherever these cells hold the same strings is one unit: a bundle for
// each of them, about as many tokens in a row. Place q of a sentence of T tokens, q = 0 .. T + width - 2, has a unit,
// whose bundle i is that of token q - (width - 1) + i.
struct Window {
  std::vector<int32_t> groups;   // [width]
  std::vector<int32_t> places;   // [N + (width - 1) B] the unit at each place, sentence by sentence
  std::vector<int32_t> bundles;  // [units, width], or -1 if no token has it

  int64_t width() const { return int64_t(groups.size()); }
};

struct Dataset {
  std::vector<int64_t> offsets{0};       // [B + 1] tokens of each sentence
  int64_t groups = 1;
  std::vector<Window> windows;           // all groups, or none if they are not those of templates
  std::vector<int32_t> token_bundles;    // [N, groups]; empty if token n is bundle n
  std::vector<int64_t> bundle_ends;      // [U] where the attributes of a bundle end
  std::vector<int32_t> attributes;       // [E]
  std::vector<double> values;            // [E], or empty if all are 1
  std::vector<int16_t> kinds;            // of attributes by number: the key of the dicts that it was made of, or -1

  int64_t sentences() const { return int64_t(offsets.size()) - 1; }
  int64_t tokens() const { return offsets.back(); }
  int64_t bundles() const { return int64_t(bundle_ends.size()); }
  int64_t bundle_begin(int64_t u) const { return u ? bundle_ends[size_t(u) - 1] : 0; }
  double value(int64_t e) const { return values.empty() ? 1.0 : values[size_t(e)]; }
  int64_t bundle(int64_t token, int64_t group) const {
    return token_bundles.empty() ? token : token_bundles[size_t(token * groups + group)];
  }
  // Throws std::length_error if there is too much to number.
  void check_counts() const {
    checked_count(tokens() * groups, "groups of features of tokens");
    checked_count(bundles(), "bundles of features");
    checked_count(int64_t(attributes.size()), "features of bundles");
  }
  // Only sentences and tokens can be counted after that.
  void forget_features() {
    release(windows), release(token_bundles), release(bundle_ends), release(attributes), release(values), release(kinds);
  }
  // f(attribute, value) for each attribute of a token
  template <typename F>
  void for_attributes(int64_t token, F f) const {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t u = bundle(token, g);
      for (int64_t e = bundle_begin(u); e < bundle_ends[size_t(u)]; ++e) f(attributes[size_t(e)], value(e));
    }
  }
};

// Features that came as dicts go into groups by their kinds, whose bundles tokens share; false, and nothing is changed, if
// they have no kinds, or if that would not make them much fewer.
bool share_bundles(Dataset& data);

// String cells, numbered: cells[n] is the value of token n in this column.
struct Column {
  StringIndex<> values;
  std::vector<int32_t> cells;       // [N]
  std::vector<int32_t> characters;  // by code point: the number of the string of this one character, or -1

  void add(std::string_view text) { cells.push_back(int32_t(values.add(text).number)); }
  // A string of one character, which takes no search: texts of characters have few others.
  void add_character(uint32_t code) {
    if (code >= characters.size()) characters.resize(code + 1, -1);
    if (characters[code] < 0) {
      std::string text;
      append_character(text, code);
      characters[code] = int32_t(values.add(text).number);
    }
    cells.push_back(characters[code]);
  }
  int64_t bytes() const {
    return values.bytes() + int64_t((cells.capacity() + characters.capacity()) * sizeof(int32_t));
  }
};
using Columns = std::vector<Column>;

// The strings of a column as they were read, before they have numbers. To number them takes nothing of Python, so it
// is done while other threads have the interpreter lock.
class TokenBuffer {
 public:
  void add(std::string_view text) {
    if (used_ + text.size() > bytes_.size()) bytes_.resize(2 * (used_ + text.size()));
    copy(text, bytes_.data() + used_);
    used_ += text.size();
    sizes_.push_back(int64_t(text.size()));
  }
  // A string of one character.
  void add_character(uint32_t code) { sizes_.push_back(~int64_t(code)); }
  // Appends them to the cells of a column.
  void number(Column& column) const {
    const char* text = bytes_.data();
    column.cells.reserve(column.cells.size() + sizes_.size());
    for (const int64_t size : sizes_) {
      if (size < 0) {
        column.add_character(uint32_t(~size));
      } else {
        column.add({text, size_t(size)});
        text += size;
      }
    }
  }
  // Memory is kept for the next time if it is not much.
  void clear() {
    constexpr int64_t much = 1 << 20;
    if (bytes() > much) *this = TokenBuffer();
    used_ = 0;
    sizes_.clear();
  }
  int64_t bytes() const { return int64_t(bytes_.capacity() + sizes_.capacity() * sizeof(int64_t)); }

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

  std::vector<char> bytes_;
  size_t used_ = 0;             // of them
  std::vector<int64_t> sizes_;  // [N] bytes of a string, or ~ its only character
};

class AttributeIndex;

// The templates evaluated on sentences with the given offsets: each group of templates gives a token one bundle of
// attributes, made once for all tokens whose sources hold the same strings. With `grow`, new attributes get a number,
// else they are left out.
Dataset compile_templates(const std::shared_ptr<const TemplateSet>& set, const Columns& columns,
                          std::vector<int64_t> offsets, AttributeIndex& attributes, bool grow);

// The names of one token's attributes, template by template.
std::vector<std::string> attribute_names(const TemplateSet& set, const Columns& columns,
                                         const std::vector<int64_t>& offsets, int64_t sentence, int64_t position);

}  // namespace trellis::features

// A corpus as numbers. Token n carries `groups` bundles of features, a bundle is a list of attributes with values, and
// an attribute has a weight for each label it was seen with:
//
//   emission[n, l] = sum over bundles u of n, attributes (a, v) of u:  v * weight[a, l]
//
// so scores flow attribute -> bundle -> token, and gradients flow back token -> bundle -> attribute.
#pragma once

#include "base/numbers.h"
#include "base/release.h"
#include "features/templates.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trellis::features {

struct Dataset {
  std::vector<int64_t> offsets{0};       // [B + 1] tokens of each sentence
  int64_t groups = 1;
  std::vector<Family> families;          // [groups], or empty if the groups are not those of templates
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
    release(token_bundles), release(bundle_ends), release(attributes), release(values), release(kinds);
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

// The numbers of values of one character, by code point: texts of characters are read without a search.
class CharacterNumbers {
 public:
  // -1 if it has none yet.
  int32_t find(uint32_t code) const {
    const size_t page = code >> page_bits;
    return page < pages_.size() && pages_[page] ? pages_[page][code % page_size] : -1;
  }
  void add(uint32_t code, int32_t number) {
    const size_t page = code >> page_bits;
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (!pages_[page]) {
      pages_[page] = std::make_unique<int32_t[]>(page_size);
      std::fill_n(pages_[page].get(), page_size, -1);
      ++used_;
    }
    pages_[page][code % page_size] = number;
  }
  int64_t bytes() const {
    return int64_t(pages_.capacity() * sizeof(pages_[0]) + used_ * page_size * sizeof(int32_t));
  }

 private:
  static constexpr int page_bits = 8;
  static constexpr size_t page_size = 1 << page_bits;
  std::vector<std::unique_ptr<int32_t[]>> pages_;
  size_t used_ = 0;
};

// String cells, numbered: cells[n] is the value of token n in this column.
struct Column {
  StringIndex values;
  std::vector<int32_t> cells;  // [N]
  CharacterNumbers characters;

  // The number of the string of this one character.
  int32_t number_of(uint32_t character) {
    int32_t number = characters.find(character);
    if (number < 0) {
      std::string text;
      append_character(text, character);
      number = int32_t(values.add(text));
      characters.add(character, number);
    }
    return number;
  }
  int64_t bytes() const {
    return values.bytes() + characters.bytes() + int64_t(cells.capacity() * sizeof(int32_t));
  }
};

// Where the attributes of new bundles come from: a growing index takes every string, a fixed one only those it knows.
class AttributeSource {
 public:
  explicit AttributeSource(StringIndex* growing) : growing_(growing) {}
  explicit AttributeSource(const IndexView& fixed) : growing_(nullptr), fixed_(fixed) {}
  int64_t number(std::string_view name) { return growing_ ? growing_->add(name) : fixed_.find(name); }
  // The hash is that of hash_bytes; a growing index may have changed to a secret one.
  int64_t number(std::string_view name, uint64_t hash) {
    return view().key ? number(name) : growing_ ? growing_->add(name, hash) : fixed_.find(name, hash);
  }
  const IndexView& view() const { return growing_ ? growing_->view() : fixed_; }

 private:
  StringIndex* growing_;
  IndexView fixed_;
};

// Where each attribute is used first: a group of templates, and in it a sentence; -1 if it is not used. In this order the
// attributes of a corpus are numbered.
struct FirstUses {
  std::vector<int64_t> groups, sentences;  // [A]

  FirstUses(const Dataset& data, int64_t attributes);
};

// Evaluates the templates on sentences with the given offsets.
Dataset expand(const TemplateSet& set, const std::vector<std::unique_ptr<Column>>& columns,
               std::vector<int64_t> offsets, AttributeSource attributes);

// The feature strings of one token, template by template; for inspection.
std::vector<std::string> expand_token(const TemplateSet& set, const std::vector<std::unique_ptr<Column>>& columns,
                                      const std::vector<int64_t>& offsets, int64_t sentence, int64_t position);

}  // namespace trellis::features

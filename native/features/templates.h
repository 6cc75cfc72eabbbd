// Feature templates: each line becomes, at each token, one string made of fixed text and values of nearby cells.
//
// The values of a template depend on a few cells only, its sources. Templates with the same sources form a group, and
// what a group says is the same wherever its sources hold the same strings: such a bundle of features is made once and
// shared by all its tokens. Few bundles are distinct, so a corpus is compiled, scored and differentiated by bundle.
#pragma once

#include "base/unicode.h"
#include "features/strings.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trellis::features {

enum class Function : int { value, lower, shape, short_shape, prefix, suffix, type };

// Fixed text followed by one function of one cell; `column` is -1 if only text is left.
struct Piece {
  std::string text;
  Function function;
  int argument;  // characters of a prefix or suffix
  int row, column;
};

struct Source {
  int row, column;
  bool operator==(const Source& other) const { return row == other.row && column == other.column; }
};

struct Group {
  std::vector<Source> sources;  // in rising order
  std::vector<int> templates;
};

// Groups of one family look at the same cells from different places: what one says about a token depends on the same
// cells as what another says about a token `row` places away.
struct Family {
  int number, row;
};

struct TemplateSet {
  static constexpr int farthest = 100;  // rows a template may look away
  std::vector<std::vector<Piece>> templates;
  std::vector<Group> groups;
  int columns = 0;  // how many the templates look at
  explicit TemplateSet(std::vector<std::vector<Piece>> templates);
  // Of each group.
  std::vector<Family> families() const;
};

// A cell beyond the edge of the sentence: -k before its first token, +k after its last; the value is `_B-k`, `_B+k`.
std::string edge_value(int64_t distance);
// Appends function(value) to out.
void apply(Function function, int argument, std::string_view value, std::string& out);

}  // namespace trellis::features

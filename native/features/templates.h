// Feature templates: each line becomes, at each token, one feature made of fixed text and values of nearby cells.
//
// What a template reads of a cell is a reading (%lower of column 0). A feature is a form, the line with gaps for values,
// and the values in them; its name is the text of both. Two lines with the same text and the same readings, wherever
// they look, have one form and share features.
//
// Two more ways to put templates together say what is computed once:
// - Templates that look at the same cells, their sources, form a group. What a group says is the same wherever its sources
//   hold the same strings: such a bundle of features is made once and shared by all its tokens.
// - Templates that read the same things at the same distances have one shape, and differ in how far from the token it
//   begins. Each of them is an entry of the shape:
//
//   U10:%x[-2,0]/%x[-1,0]   U11:%x[-1,0]/%x[0,0]      one shape, (x at 0, x at 1), that begins at -2 and at -1
#pragma once

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

struct Reading {
  int column;
  Function function;
  int argument;
  bool operator==(const Reading& o) const {
    return column == o.column && function == o.function && argument == o.argument;
  }
};

// texts[0] value 0 texts[1] value 1 ... texts[k]
struct Form {
  std::vector<std::string> texts;
  std::vector<int> readings;  // of each value
  bool operator==(const Form& o) const { return texts == o.texts && readings == o.readings; }
};

struct Source {
  int row, column;
  bool operator==(const Source& o) const { return row == o.row && column == o.column; }
};

struct Group {
  std::vector<Source> sources;  // in rising order
  std::vector<int> templates;
};

struct Part {
  int offset, reading;  // rows from the first one
  bool operator==(const Part& o) const { return offset == o.offset && reading == o.reading; }
};

struct Shape {
  std::vector<Part> parts;      // in rising order
  std::vector<int> first_rows;  // of its entries
};

struct Template {
  int form, shape, entry;
  std::vector<int> rows;   // of each value: how many tokens away its cell is
  std::vector<int> parts;  // of each value: the part of the shape; several values may be the same part
};

struct TemplateSet {
  static constexpr int farthest = 100;  // rows a template may look away
  std::vector<Template> templates;
  std::vector<Reading> readings;
  std::vector<Form> forms;
  std::vector<Group> groups;
  std::vector<Shape> shapes;
  int columns = 0;  // how many the templates look at
  int reach = 0;    // how many rows away they look at most

  explicit TemplateSet(const std::vector<std::vector<Piece>>& lines);
  // The groups of each window: they look at the same cells, each from one row before the one that it follows. What they
  // say about several tokens in a row depends on the same strings.
  std::vector<std::vector<int>> windows() const;
  // The shape that is this reading and nothing else, or -1.
  int shape_alone(int reading) const;
};

// A cell beyond the border of the sentence: -k before its first token, +k after its last; the value is `_B-k`, `_B+k`.
std::string border_value(int64_t distance);
// Appends function(value) to out.
void apply(Function function, int argument, std::string_view value, std::string& out);

}  // namespace trellis::features

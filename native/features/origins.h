// From the name of an attribute back to the values that templates have put into it: a model's file has names, and
// whoever tags text has values. What a template reads of a cell is a reading (%lower of column 0); templates that read
// the same things at the same distances have one shape, and differ in how far from the token it begins:
//
//   U10:%x[-2,0]/%x[-1,0]   U11:%x[-1,0]/%x[0,0]      one shape, (x at 0, x at 1), that begins at -2 and at -1
#pragma once

#include "features/templates.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trellis::features {

struct Reading {
  int column;
  Function function;
  int argument;
  bool operator==(const Reading& other) const {
    return column == other.column && function == other.function && argument == other.argument;
  }
};

struct Part {
  int offset, reading;  // rows from the first one
  bool operator==(const Part& other) const { return offset == other.offset && reading == other.reading; }
};

struct Shape {
  std::vector<Part> parts;
  std::vector<int> first_rows;  // of its entries, which are templates
};

// A template as texts around values: texts[0] value 0 texts[1] value 1 ... texts[k].
struct Form {
  std::vector<std::string> texts;
  std::vector<int> parts;  // of its shape, by value; several values may be the same part
  int shape = 0, entry = 0;
};

class Origins {
 public:
  explicit Origins(const TemplateSet& set);
  Origins(const Origins&) = delete;
  Origins& operator=(const Origins&) = delete;

  // Whether all names can be read: between two values there must be a text that parts them.
  bool readable() const { return readable_; }
  const std::vector<Reading>& readings() const { return readings_; }
  const std::vector<Shape>& shapes() const { return shapes_; }
  // The shape that is this reading and nothing else, or -1.
  int shape_alone(int reading) const {
    for (size_t s = 0; s < shapes_.size(); ++s)
      if (shapes_[s].parts.size() == 1 && shapes_[s].parts[0].reading == reading) return int(s);
    return -1;
  }
  int reach() const { return reach_; }  // how many rows away templates look at most

  // f(form, values) for each way in which a template makes this name. False if there are too many to try: names that
  // consist of what parts values. `values` is memory to use.
  template <typename F>
  bool for_origins(std::string_view name, std::vector<std::string_view>& values, F f) {
    int steps = 0;
    for (auto& [length, heads] : by_length_) {
      if (name.size() < length) break;
      const std::string_view head = name.substr(0, length);
      if (!heads.last || heads.last_text != head) {  // names of one template come together
        const auto found = heads.forms.find(head);
        if (found == heads.forms.end()) continue;
        heads.last_text = found->first, heads.last = &found->second;
      }
      for (const int i : *heads.last) {
        const Form& form = forms_[size_t(i)];
        values.resize(form.parts.size());
        if (!split(form, 0, name.substr(length), values, steps, f)) return false;
      }
    }
    return true;
  }

 private:
  static constexpr int most_steps = 1000;

  // The values from number i on, of what is left of a name.
  template <typename F>
  static bool split(const Form& form, size_t i, std::string_view rest, std::vector<std::string_view>& values,
                    int& steps, F& f) {
    if (++steps > most_steps) return false;
    const std::string_view next = form.texts.size() > i + 1 ? std::string_view(form.texts[i + 1]) : std::string_view();
    if (i == values.size()) {
      if (rest.empty()) f(form, values);
      return true;
    }
    if (i + 1 == values.size()) {
      if (rest.size() < next.size() || rest.substr(rest.size() - next.size()) != next) return true;
      values[i] = rest.substr(0, rest.size() - next.size());
      f(form, values);
      return true;
    }
    for (size_t at = rest.find(next); at != rest.npos; at = rest.find(next, at + 1)) {
      values[i] = rest.substr(0, at);
      if (!split(form, i + 1, rest.substr(at + next.size()), values, steps, f)) return false;
    }
    return true;
  }

  int reading_of(const Piece& piece);
  int shape_of(const std::vector<Part>& parts);

  bool readable_ = true;
  int reach_ = 0;
  std::vector<Reading> readings_;
  std::vector<Shape> shapes_;
  std::vector<Form> forms_;
  // Forms by their first text, and the text that was looked for last.
  struct Heads {
    std::unordered_map<std::string_view, std::vector<int>> forms;
    std::string_view last_text;
    const std::vector<int>* last = nullptr;
  };
  std::map<size_t, Heads> by_length_;
};

}  // namespace trellis::features

// The templates evaluated on sentences.
#include "features/attribute_index.h"
#include "features/dataset.h"

#include <algorithm>

namespace trellis::features {
namespace {

constexpr int64_t borders = 2 * TemplateSet::farthest;  // codes of cells beyond the borders of a sentence

// What stands at a position of a sentence of `length` tokens that begins at token `first`, as a code: those of the borders
// -1, +1, -2, +2 ... come first, then those of the strings of the column.
struct Cells {
  const Columns& columns;
  int64_t first, length;

  int64_t code(const Source& source, int64_t t) const {
    const int64_t position = t + source.row;
    if (position < 0) return -2 * (position + 1);
    if (position >= length) return 2 * (position - length) + 1;
    return borders + columns[size_t(source.column)].cells[size_t(first + position)];
  }
};

// Appends what is read of a cell; a border reads the same to all functions.
void append_value(const Columns& columns, const Reading& reading, int64_t code, std::string& out) {
  if (code < borders) {
    out += border_value(code % 2 ? code / 2 + 1 : -(code / 2 + 1));
  } else {
    apply(reading.function, reading.argument, columns[size_t(reading.column)].values[uint64_t(code - borders)], out);
  }
}

class TemplateCompiler {
 public:
  TemplateCompiler(const TemplateSet& set, const Columns& columns, Dataset& data, AttributeIndex& attributes, bool grow)
      : set_(set), columns_(columns), data_(data), attributes_(attributes), grow_(grow), keys_(attributes.key_index()),
        values_(set.readings.size()) {}

  // The units of a window, numbered in the order of their first places.
  void number_units(Window& window) {
    const std::vector<Source>& sources = set_.groups[size_t(window.groups[0])].sources;
    const int64_t before = window.width() - 1;
    // The first two codes become one number, that and the third another, and so on.
    std::vector<HashTable<int32_t>> chain;
    for (size_t i = 1; i < sources.size(); ++i) chain.emplace_back(std::min<uint64_t>(uint64_t(data_.tokens()), 1 << 18));
    std::vector<int32_t> unit_of;  // by the last number, or -1
    int32_t units = 0;
    window.places.reserve(size_t(data_.tokens() + before * data_.sentences()));
    for_sentences([&](const Cells& cells) {
      if (!cells.length) return window.places.resize(window.places.size() + size_t(before), 0);
      for (int64_t t = -before; t < cells.length; ++t) {
        constexpr int64_t ahead = 6;
        if (!chain.empty() && t + ahead < cells.length)
          chain[0].fetch(pair_key(cells.code(sources[0], t + ahead), cells.code(sources[1], t + ahead)));
        int64_t key = sources.empty() ? 0 : cells.code(sources[0], t);
        for (size_t i = 1; i < sources.size(); ++i)
          key = chain[i - 1].add(pair_key(key, cells.code(sources[i], t)), int32_t(chain[i - 1].count()));
        if (size_t(key) >= unit_of.size()) unit_of.resize(std::max(size_t(key) + 1, unit_of.size() * 2), -1);
        if (unit_of[size_t(key)] < 0) unit_of[size_t(key)] = units++;
        window.places.push_back(unit_of[size_t(key)]);
      }
    });
    window.bundles.assign(size_t(units * window.width()), -1);
  }

  // The bundles of the group at a row of a window.
  void make_bundles(Window& window, int64_t row) {
    const int32_t g = window.groups[size_t(row)];
    const int32_t* place = window.places.data() + window.width() - 1 - row;
    for_sentences([&](const Cells& cells) {
      for (int64_t t = 0; t < cells.length; ++t) {
        int32_t& bundle = window.bundles[size_t(place[t] * window.width() + row)];
        if (bundle < 0) bundle = make_bundle(set_.groups[size_t(g)], cells, t);
        data_.token_bundles[size_t((cells.first + t) * data_.groups + g)] = bundle;
      }
      place += cells.length + window.width() - 1;
    });
    look_up();
  }

 private:
  template <typename F>
  void for_sentences(F f) const {
    for (int64_t b = 0; b < data_.sentences(); ++b)
      f(Cells{columns_, data_.offsets[size_t(b)], data_.offsets[size_t(b) + 1] - data_.offsets[size_t(b)]});
  }

  // The number of the value that a reading has of a cell, or -1 if the attributes do not know it.
  int32_t value_of(int reading, int64_t code) {
    constexpr int32_t not_read = -2;
    std::vector<int32_t>& numbers = values_[size_t(reading)];
    const Reading& own = set_.readings[size_t(reading)];
    if (numbers.empty()) numbers.assign(size_t(borders) + columns_[size_t(own.column)].values.count(), not_read);
    int32_t& number = numbers[size_t(code)];
    if (number != not_read) return number;
    text_.clear();
    append_value(columns_, own, code, text_);
    StringIndex<>& values = attributes_.value_index(size_t(reading));
    number = grow_ ? int32_t(values.add(text_).number) : int32_t(values.number(text_));
    if (number >= int64_t(FormKey::most_values)) throw std::length_error("too many different values for one template");
    return number;
  }

  // A new bundle: its keys are made now and looked up some bundles later, many at a time.
  int32_t make_bundle(const Group& group, const Cells& cells, int64_t t) {
    for (const int i : group.templates) {
      const Template& own = set_.templates[size_t(i)];
      const std::vector<int>& readings = set_.forms[size_t(own.form)].readings;
      const size_t begin = bytes_.size();
      int32_t known = 0;
      FormKey::append(uint64_t(own.form), FormKey::form_bytes(set_), bytes_);
      for (size_t v = 0; v < readings.size(); ++v) {
        const Source source{own.rows[v], set_.readings[size_t(readings[v])].column};
        const int32_t number = value_of(readings[v], cells.code(source, t));
        known |= number;
        FormKey::append(uint64_t(number), FormKey::value_bytes, bytes_);
      }
      if (known < 0) {
        bytes_.resize(begin);
        continue;
      }
      const uint64_t key = StringIndex<>::key_of(std::string_view(bytes_).substr(begin));
      keys_.fetch(key);
      waiting_.push_back({bytes_.size(), key});
    }
    waiting_bundles_.push_back(waiting_.size());
    if (waiting_.size() >= 64) look_up();
    return next_bundle_++;
  }

  void look_up() {
    size_t i = 0, begin = 0;
    for (const size_t bundle_end : waiting_bundles_) {
      for (; i < bundle_end; begin = waiting_[i++].end) {
        const auto bytes = std::string_view(bytes_).substr(begin, waiting_[i].end - begin);
        if (grow_) {
          data_.attributes.push_back(int32_t(keys_.add(bytes, waiting_[i].key).number));
        } else if (const StringEntry* known = keys_.find(bytes, waiting_[i].key)) {
          data_.attributes.push_back(int32_t(known->number));
        }
      }
      data_.bundle_ends.push_back(int64_t(data_.attributes.size()));
    }
    bytes_.clear(), waiting_.clear(), waiting_bundles_.clear();
  }

  const TemplateSet& set_;
  const Columns& columns_;
  Dataset& data_;
  AttributeIndex& attributes_;
  bool grow_;
  StringIndex<>& keys_;
  std::vector<std::vector<int32_t>> values_;  // [readings][codes]
  struct Waiting {
    size_t end;  // of its bytes
    uint64_t key;
  };
  std::string bytes_, text_;
  std::vector<Waiting> waiting_;
  std::vector<size_t> waiting_bundles_;  // where those of each bundle end
  int32_t next_bundle_ = 0;
};

}  // namespace

Dataset compile_templates(const std::shared_ptr<const TemplateSet>& set, const Columns& columns,
                          std::vector<int64_t> offsets, AttributeIndex& attributes, bool grow) {
  attributes.use(set);
  Dataset data;
  data.offsets = std::move(offsets);
  data.groups = int64_t(set->groups.size());
  data.token_bundles.resize(size_t(data.tokens() * data.groups));
  TemplateCompiler compiler(*set, columns, data, attributes, grow && attributes.grows());
  for (const std::vector<int>& groups : set->windows()) {
    data.windows.push_back({{groups.begin(), groups.end()}, {}, {}});
    compiler.number_units(data.windows.back());
  }
  // Group by group, since attributes have the order of their first use there.
  for (int32_t g = 0; g < data.groups; ++g)
    for (Window& window : data.windows)
      for (int64_t row = 0; row < window.width(); ++row)
        if (window.groups[size_t(row)] == g) compiler.make_bundles(window, row);
  return data;
}

std::vector<std::string> attribute_names(const TemplateSet& set, const Columns& columns,
                                         const std::vector<int64_t>& offsets, int64_t sentence, int64_t position) {
  const int64_t first = offsets[size_t(sentence)];
  const Cells cells{columns, first, offsets[size_t(sentence) + 1] - first};
  std::vector<std::string> names;
  for (const Template& own : set.templates) {
    const Form& form = set.forms[size_t(own.form)];
    std::string& name = names.emplace_back(form.texts[0]);
    for (size_t v = 0; v < form.readings.size(); ++v) {
      const Reading& reading = set.readings[size_t(form.readings[v])];
      append_value(columns, reading, cells.code({own.rows[v], reading.column}, position), name);
      name += form.texts[v + 1];
    }
  }
  return names;
}

}  // namespace trellis::features

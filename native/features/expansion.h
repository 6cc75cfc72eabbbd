// The templates evaluated on sentences: each group of templates gives a token one bundle of features, made once for all
// tokens whose sources hold the same strings.
#pragma once

#include "features/dataset.h"
#include "features/numbering.h"

#include <algorithm>

namespace trellis::features {

// What stands at a position of a sentence of `length` tokens that begins at token `first`.
struct Cells {
  const std::vector<std::unique_ptr<Column>>& columns;
  int64_t first, length;

  // Beyond the edges: see edge_value.
  int64_t distance(int64_t position) const { return position < 0 ? position : position - length + 1; }
  bool inside(int64_t position) const { return position >= 0 && position < length; }
  const Column& column(const Source& source) const { return *columns[size_t(source.column)]; }

  // A number for the value: -1, +1, -2, +2 ... from the edges first, then those of the column.
  int64_t code(const Source& source, int64_t t) const {
    const int64_t position = t + source.row;
    if (inside(position)) return 2 * TemplateSet::farthest + column(source).cells[size_t(first + position)];
    const int64_t d = distance(position);
    return d < 0 ? -2 * (d + 1) : 2 * (d - 1) + 1;
  }
  void append(const Piece& piece, int64_t t, std::string& out) const {
    out += piece.text;
    if (piece.column < 0) return;
    const Source source{piece.row, piece.column};
    const int64_t position = t + piece.row;
    if (!inside(position)) {
      out += edge_value(distance(position));
    } else {
      const Column& own = column(source);
      apply(piece.function, piece.argument, own.values.view()[uint64_t(own.cells[size_t(first + position)])], out);
    }
  }
};

class Expansion {
 public:
  // The sentences of `data` begin at cell `first_cell` of the columns; new bundles are numbered from `first_bundle`.
  Expansion(const TemplateSet& set, const std::vector<std::unique_ptr<Column>>& columns, Dataset& data,
            AttributeSource attributes, int64_t first_cell = 0, int64_t first_bundle = 0)
      : set_(set), columns_(columns), data_(data), attributes_(attributes), first_cell_(first_cell),
        next_bundle_(int32_t(first_bundle)) {}

  // The bundles of one group of templates, as group `slot` of the data.
  void group(const Group& group, size_t slot, GroupNumbers& numbers) {
    std::vector<int32_t>& bundle_of = numbers.bundle_of;
    for (int64_t b = 0; b < data_.sentences(); ++b) {
      const int64_t first = data_.offsets[size_t(b)];
      const Cells cells{columns_, first_cell_ + first, data_.offsets[size_t(b) + 1] - first};
      for (int64_t t = 0; t < cells.length; ++t) {
        const size_t key = size_t(key_of(group, cells, t, numbers.chain));
        if (key >= bundle_of.size()) bundle_of.resize(std::max(key + 1, bundle_of.size() * 2), -1);
        if (bundle_of[key] < 0) bundle_of[key] = make(group, cells, t);
        data_.token_bundles[size_t((first + t) * data_.groups) + slot] = bundle_of[key];
      }
    }
    look_up();
  }

 private:
  static int64_t key_of(const Group& group, const Cells& cells, int64_t t, std::vector<PairIndex>& chain) {
    if (group.sources.empty()) return 0;
    constexpr int64_t ahead = 6;
    if (!chain.empty() && t + ahead < cells.length)
      chain[0].fetch(cells.code(group.sources[0], t + ahead), cells.code(group.sources[1], t + ahead));
    int64_t key = cells.code(group.sources[0], t);
    for (size_t i = 1; i < group.sources.size(); ++i)
      key = chain[i - 1].add(key, cells.code(group.sources[i], t));
    return key;
  }

  // A new bundle: its strings are made now and looked up some bundles later, many at a time.
  int32_t make(const Group& group, const Cells& cells, int64_t t) {
    for (const int i : group.templates) {
      const size_t begin = texts_.size();
      for (const Piece& piece : set_.templates[size_t(i)]) cells.append(piece, t, texts_);
      const uint64_t hash = hash_bytes(std::string_view(texts_).substr(begin));
      attributes_.view().fetch_places(hash);
      waiting_.push_back({texts_.size(), hash});
    }
    waiting_bundles_.push_back(waiting_.size());
    if (waiting_.size() >= 64) look_up();
    return next_bundle_++;
  }

  void look_up() {
    for (const auto& [end, hash] : waiting_) attributes_.view().fetch_ends(hash);
    for (const auto& [end, hash] : waiting_) attributes_.view().fetch_string(hash);
    size_t i = 0, begin = 0;
    for (const size_t bundle_end : waiting_bundles_) {
      for (; i < bundle_end; begin = waiting_[i++].end) {
        const auto name = std::string_view(texts_).substr(begin, waiting_[i].end - begin);
        const int64_t number = attributes_.number(name, waiting_[i].hash);
        if (number >= 0) data_.attributes.push_back(int32_t(number));
      }
      data_.bundle_ends.push_back(int64_t(data_.attributes.size()));
    }
    texts_.clear(), waiting_.clear(), waiting_bundles_.clear();
  }

  const TemplateSet& set_;
  const std::vector<std::unique_ptr<Column>>& columns_;
  Dataset& data_;
  AttributeSource attributes_;
  int64_t first_cell_;
  struct Waiting {
    size_t end;  // of its string in texts_
    uint64_t hash;
  };
  std::string texts_;
  std::vector<Waiting> waiting_;
  std::vector<size_t> waiting_bundles_;  // where those of each bundle end
  int32_t next_bundle_;
};

}  // namespace trellis::features

#include "scorer.h"

#include <algorithm>

namespace trellis {
namespace {

// Pairs of numbers, numbered in the order in which they first came.
class PairIndex {
 public:
  // With room for about so many pairs.
  explicit PairIndex(int64_t expected) {
    size_t places = 64;
    while (places < size_t(2 * expected) && places < (size_t(1) << 20)) places *= 2;
    keys_.assign(places, empty);
    numbers_.resize(places);
  }

  void fetch(int64_t left, int64_t right) const {
    const uint64_t at = home(key_of(left, right));
    __builtin_prefetch(&keys_[at]);
    __builtin_prefetch(&numbers_[at]);
  }
  int32_t add(int64_t left, int64_t right) {
    const uint64_t key = key_of(left, right);
    uint64_t at = place(key);
    if (keys_[at] == key) return numbers_[at];
    if (uint64_t(count_) * 2 > keys_.size()) {
      grow();
      at = place(key);
    }
    keys_[at] = key;
    return numbers_[at] = count_++;
  }

 private:
  static constexpr uint64_t empty = ~uint64_t(0);
  static uint64_t key_of(int64_t left, int64_t right) { return uint64_t(left) << 32 | uint64_t(right); }
  uint64_t home(uint64_t key) const {
    const uint64_t h = key * 0x9e3779b97f4a7c15ull;
    return (h ^ (h >> 32)) & (keys_.size() - 1);
  }
  uint64_t place(uint64_t key) const {
    uint64_t at = home(key);
    while (keys_[at] != empty && keys_[at] != key) at = (at + 1) & (keys_.size() - 1);
    return at;
  }
  void grow() {
    std::vector<uint64_t> keys(keys_.size() * 2, empty);
    std::vector<int32_t> numbers(keys.size());
    keys.swap(keys_);
    numbers.swap(numbers_);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == empty) continue;
      const uint64_t at = place(keys[i]);
      keys_[at] = keys[i];
      numbers_[at] = numbers[i];
    }
  }
  std::vector<uint64_t> keys_;
  std::vector<int32_t> numbers_;
  int32_t count_ = 0;
};

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
  Expansion(const TemplateSet& set, const std::vector<std::unique_ptr<Column>>& columns, Dataset& data,
            AttributeSource attributes)
      : set_(set), columns_(columns), data_(data), attributes_(attributes), next_bundle_(int32_t(data.bundles())) {}

  // The bundles of one group of templates, as group `slot` of the data. `bundle_of` is by the code of the source, or by
  // the number of the sources' codes taken together.
  void group(const Group& group, size_t slot, std::vector<int32_t>& bundle_of) {
    std::vector<PairIndex> chain(group.sources.size() > 1 ? group.sources.size() - 1 : 0, PairIndex(data_.tokens()));
    for (int64_t b = 0; b < data_.sentences(); ++b) {
      const int64_t first = data_.offsets[size_t(b)];
      const Cells cells{columns_, first, data_.offsets[size_t(b) + 1] - first};
      for (int64_t t = 0; t < cells.length; ++t) {
        const size_t key = size_t(key_of(group, cells, t, chain));
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
  struct Waiting {
    size_t end;  // of its string in texts_
    uint64_t hash;
  };
  std::string texts_;
  std::vector<Waiting> waiting_;
  std::vector<size_t> waiting_bundles_;  // where those of each bundle end
  int32_t next_bundle_;
};

}  // namespace

Dataset expand(const TemplateSet& set, const std::vector<std::unique_ptr<Column>>& columns,
               std::vector<int64_t> offsets, AttributeSource attributes) {
  Dataset data;
  data.offsets = std::move(offsets);
  data.groups = int64_t(set.groups.size());
  data.token_bundles.resize(size_t(data.tokens() * data.groups));
  Expansion expansion(set, columns, data, attributes);
  for (size_t g = 0; g < set.groups.size(); ++g) {
    std::vector<int32_t> bundle_of;
    expansion.group(set.groups[g], g, bundle_of);
  }
  return data;
}

Scorer::Scorer(const TemplateSet& set, const IndexView& attributes, const WeightTable<double>& weights)
    : set_(set), attributes_(attributes), weights_(weights) {
  for (int c = 0; c < set.columns || c == 0; ++c) columns_.push_back(std::make_unique<Column>());
  for (const Group& group : set.groups) (group.sources.size() < 2 ? single_ : several_).push_back(&group);
  forget();
}

void Scorer::forget() {
  known_ = Dataset();
  known_.groups = int64_t(single_.size());
  bundle_of_.assign(single_.size(), {});
  rows_.clear();
}

void Scorer::begin() {
  constexpr size_t most_values = 1 << 20, most_numbers = 4 << 20;
  bool full = rows_.size() > most_numbers;
  for (const auto& column : columns_) full |= column->values.view().count > most_values;
  if (full) {
    forget();
    for (auto& column : columns_) column = std::make_unique<Column>();
  }
  for (auto& column : columns_) column->cells.clear();
}

void Scorer::score(const std::vector<int64_t>& offsets, double* emissions) {
  const int64_t L = weights_.labels(), before = known_.bundles();
  known_.offsets = offsets;
  known_.token_bundles.resize(size_t(known_.tokens() * known_.groups));
  Expansion known(set_, columns_, known_, AttributeSource(attributes_));
  for (size_t g = 0; g < single_.size(); ++g) known.group(*single_[g], g, bundle_of_[g]);
  rows_.resize(size_t(known_.bundles() * L));
  for (int64_t u = before; u < known_.bundles(); ++u) add_bundle(known_, weights_, u, rows_.data() + u * L);

  Dataset fresh;
  fresh.offsets = offsets;
  fresh.groups = int64_t(several_.size());
  fresh.token_bundles.resize(size_t(fresh.tokens() * fresh.groups));
  Expansion expansion(set_, columns_, fresh, AttributeSource(attributes_));
  for (size_t g = 0; g < several_.size(); ++g) {
    std::vector<int32_t> bundle_of;
    expansion.group(*several_[g], g, bundle_of);
  }
  in_chunks(known_.tokens(), [&](int64_t n) {
    double* emission = emissions + n * L;
    std::fill_n(emission, L, 0.0);
    for (int64_t g = 0; g < known_.groups; ++g)
      add_row(emission, rows_.data() + known_.token_bundles[size_t(n * known_.groups + g)] * L, 1.0, L);
    for (int64_t g = 0; g < fresh.groups; ++g)
      add_bundle(fresh, weights_, fresh.token_bundles[size_t(n * fresh.groups + g)], emission);
  });
}

std::vector<std::string> expand_token(const TemplateSet& set, const std::vector<std::unique_ptr<Column>>& columns,
                                      const std::vector<int64_t>& offsets, int64_t sentence, int64_t position) {
  const int64_t first = offsets[size_t(sentence)];
  const Cells cells{columns, first, offsets[size_t(sentence) + 1] - first};
  std::vector<std::string> names(set.templates.size());
  for (size_t i = 0; i < names.size(); ++i)
    for (const Piece& piece : set.templates[i]) cells.append(piece, position, names[i]);
  return names;
}

}  // namespace trellis

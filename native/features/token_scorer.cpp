#include "features/token_scorer.h"

#include "base/unicode.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace trellis::features {
template <typename R>
void ShapeWeights<R>::set_radices(const std::vector<uint64_t>& values) {
  constexpr uint64_t most_direct = 4096;  // keys of a table that has a place for each
  radices_ = values;
  bool fits = true;
  for (const uint64_t count : values) {
    fits = fits && (!count || possible_ <= (no_key - 1) / count);
    if (fits) possible_ *= count;
  }
  // More than 64 bits: keys are hashes, of which two out of a million are the same once in 10^7 models.
  if (!fits) std::fill(radices_.begin(), radices_.end(), 0x9e3779b97f4a7c15ull);
  direct_ = values.size() < 2 || (fits && possible_ <= most_direct);
}

template <typename R>
int64_t ShapeWeights<R>::find(const KeyPlace* places, int64_t count, BlockPlace* found) const {
  if (!direct_) return block_kernels<R>().find(table_.view(), places, count, found);
  int64_t n = 0;
  for (int64_t i = 0; i < count; ++i) {
    found[n] = {places[i].place, slots_[places[i].key]};
    n += found[n].slot.count != 0;
  }
  return n;
}

// The weights of each key, in full or as a list. Blocks are numbered by their keys or, if those are many, in the order of
// their first appearance: the table holds the numbers until it is known where the blocks are.
template <typename R>
void ShapeWeights<R>::make(const TemplateSet& set, int shape, const FormAttributes& attributes, const Pairs& pairs,
                           const R* weights) {
  first_rows_.assign(set.shapes[size_t(shape)].first_rows.begin(), set.shapes[size_t(shape)].first_rows.end());
  L_ = pairs.labels_in_all;
  std::vector<const Template*> templates;
  size_t uses = 0;
  for (const Template& own : set.templates) {
    if (own.shape != shape) continue;
    templates.push_back(&own);
    uses += attributes.count(own.form);
  }
  checked_count(int64_t(uses), "uses of features");
  if (!direct_) table_ = HashTable<WeightSlot>(2 * uses / (first_rows_.size() + 1));
  std::vector<uint32_t> blocks, counts(direct_ ? possible_ : 0, 0);  // of each use, or -1; of weights by block
  blocks.reserve(uses), counts.reserve(uses / first_rows_.size());
  std::vector<int32_t> parts(radices_.size());
  for (const Template* own : templates) {
    constexpr size_t chunk = 64;  // keys that are searched for together
    uint64_t keys[chunk];
    for (size_t first = 0; first < attributes.count(own->form); first += chunk) {
      const int32_t* items = attributes.of(own->form) + first;
      const size_t count = std::min(chunk, attributes.count(own->form) - first);
      for (size_t i = 0; i < count; ++i) {
        keys[i] = key_of(*own, FormKey(set, attributes.keys[uint64_t(items[i])]), parts);
        if (!direct_) table_.fetch(keys[i]);
      }
      for (size_t i = 0; i < count; ++i) {
        blocks.push_back(keys[i] == no_key ? uint32_t(-1)
                         : direct_         ? uint32_t(keys[i])
                                           : table_.add(keys[i], {uint32_t(table_.count()), 0}).begin);
        if (keys[i] == no_key) continue;
        if (blocks.back() == counts.size()) counts.push_back(0);
        counts[blocks.back()] += uint32_t(pairs.ends[items[i]] - pairs.begin(items[i]));
      }
    }
  }
  std::vector<WeightSlot> slots(counts.size());
  int64_t full = 0, listed = 0;
  for (size_t b = 0; b < slots.size(); ++b) {
    const bool dense = is_dense(counts[b], width(), 16);
    slots[b] = {uint32_t(dense ? full++ : listed), dense ? full_block : int32_t(counts[b])};
    listed += dense ? 0 : counts[b];
    counts[b] = slots[b].begin;  // from here on the next place in the list
  }
  checked_count(full, "blocks of weights"), checked_count(listed, "weights in lists");
  full_ = Block<R>(full * width(), R(0));
  listed_.resize(size_t(listed));
  const uint32_t* block = blocks.data();
  for (const Template* own : templates) {
    for (size_t i = 0; i < attributes.count(own->form); ++i, ++block) {
      if (*block == uint32_t(-1)) continue;
      const int32_t attribute = attributes.of(own->form)[i];
      const WeightSlot& slot = slots[*block];
      for (int64_t p = pairs.begin(attribute); p < pairs.ends[attribute]; ++p) {
        if (slot.count == full_block) {
          full_[int64_t(slot.begin) * width() + own->entry * L_ + pairs.labels[p]] += weights[p];
        } else {
          listed_[counts[*block]++] = {pairs.labels[p], uint16_t(own->entry), weights[p]};
        }
      }
    }
  }
  if (direct_) {
    slots_ = std::move(slots);
  } else {
    table_.for_values([&](WeightSlot& slot) { slot = slots[slot.begin]; });
  }
}

// Those of each form one after another, as the shape of its templates needs them: a shape reads no others.
FormAttributes::FormAttributes(const TemplateSet& set, const AttributeIndex& attributes, const Pairs& pairs)
    : keys(attributes.keys()), ends_(set.forms.size() + 1, 0) {
  const auto for_known = [&](auto f) {
    for (int64_t a = 0; a < pairs.attributes; ++a)
      if (pairs.begin(a) < pairs.ends[a]) f(a, size_t(FormKey(set, keys[uint64_t(a)]).form));
  };
  for_known([&](int64_t, size_t form) { ++ends_[form + 1]; });
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  std::vector<size_t> next(ends_);
  items_.resize(ends_.back());
  for_known([&](int64_t a, size_t form) { items_[next[form]++] = int32_t(a); });
}

template <typename R>
TemplateWeights<R>::TemplateWeights(const AttributeIndex& attributes, const Pairs& pairs, const R* weights)
    : templates(attributes.templates()), set(*templates), values(set.readings.size()), shapes(set.shapes.size()),
      L(pairs.labels_in_all) {
  for (size_t r = 0; r < values.size(); ++r) {
    const StringList& strings = attributes.values(r);
    for (uint64_t i = 0; i < strings.count; ++i)
      if (values[r].add(strings[i]).number != i)
        throw std::invalid_argument("the values of a reading must all differ, and number " + std::to_string(i) + " of reading " +
                                    std::to_string(r) + " is there twice");
  }
  for (size_t s = 0; s < shapes.size(); ++s) {
    std::vector<uint64_t> counts;
    for (const Part& part : set.shapes[s].parts) counts.push_back(values[size_t(part.reading)].count());
    shapes[s].set_radices(counts);
  }
  const FormAttributes of_forms(set, attributes, pairs);
  run_tasks(int64_t(shapes.size()), num_threads(), [&](int64_t s) {
    shapes[size_t(s)].make(set, int(s), of_forms, pairs, weights);
  });
  for (size_t r = 0; r < values.size(); ++r) {
    const int shape = set.shape_alone(int(r));
    if (shape < 0) continue;
    const WeightSlot* slots = shapes[size_t(shape)].slots();
    values[r].for_entries([slots](Value& value) { value.slot = slots[value.number]; });
    shapes[size_t(shape)].forget_slots();
  }
}

namespace {

// f(first, last) for runs of sentences with about this many tokens.
template <typename F>
void by_tokens(const std::vector<int64_t>& offsets, int64_t begin, int64_t end, int64_t tokens, F f) {
  for (int64_t first = begin, last; first < end; first = last) {
    last = first + 1;
    while (last < end && offsets[size_t(last) + 1] - offsets[size_t(first)] <= tokens) ++last;
    f(first, last);
  }
}

}  // namespace

template <typename R>
ScorerIn<R>::ScorerIn(std::shared_ptr<const TemplateWeights<R>> weights, std::shared_ptr<const Folding> folding)
    : Scorer(weights->set.columns), model_(std::move(weights)), folding_(std::move(folding)), states_(columns_.size()) {
  for (size_t c = 0; c < states_.size(); ++c) list_column(c);
  const std::vector<Shape>& shapes = model_->set.shapes;
  for (size_t s = 0; s < shapes.size(); ++s)
    if (shapes[s].parts.size() > 1) large_shapes_.push_back(s);
  forget();
}

template <typename R>
void ScorerIn<R>::list_column(size_t c) {
  ColumnState& own = states_[c];
  const auto& shapes = model_->set.shapes;
  const auto row = [&](int at) {
    const auto found = std::find(own.rows.begin(), own.rows.end(), at);
    if (found != own.rows.end()) return int(found - own.rows.begin());
    own.rows.push_back(at);
    return int(own.rows.size()) - 1;
  };
  if (c == 0) {
    row(0);  // where templates without cells go
    for (size_t s = 0; s < shapes.size(); ++s)
      if (shapes[s].parts.empty()) own.always.push_back({int(s), std::vector<int32_t>(shapes[s].first_rows.size(), 0)});
  }
  for (size_t r = 0; r < model_->set.readings.size(); ++r) {
    if (size_t(model_->set.readings[r].column) != c) continue;
    own.readings.push_back(int(r));
    Alone& alone = own.alone.emplace_back();
    alone.shape = model_->set.shape_alone(int(r));
    if (alone.shape >= 0)
      for (const int first : shapes[size_t(alone.shape)].first_rows) alone.rows.push_back(row(first));
    bool kept = false;
    for (const Shape& shape : shapes)
      for (const Part& part : shape.parts) kept |= part.reading == int(r) && shape.parts.size() > 1;
    own.kept.push_back(kept ? int(own.width++) : -1);
  }
}

template <typename R>
void ScorerIn<R>::GrowingRows::reserve(int64_t used, int64_t count) {
  if (count <= room) return;
  constexpr int64_t least = 1 << 15;
  room = std::max(2 * count, least);
  Block<double> more(room);
  std::copy_n(static_cast<const double*>(numbers), used, static_cast<double*>(more));
  numbers = std::move(more);
}

template <typename R>
void ScorerIn<R>::forget() {
  for (ColumnState& own : states_) release(own.row_of), release(own.numbers);
  rows_ = GrowingRows();
  used_rows_ = 0;
  see_borders();
}

template <typename R>
int64_t ScorerIn<R>::row_bytes() const {
  size_t bytes = size_t(used_rows_ * model_->L) * sizeof(double);
  for (const ColumnState& own : states_) bytes += (own.row_of.capacity() + own.numbers.capacity()) * sizeof(int32_t);
  return int64_t(bytes);
}

template <typename R>
void ScorerIn<R>::see_borders() {
  std::vector<int64_t> borders(size_t(2 * reach()));
  std::iota(borders.begin(), borders.end(), 0);
  for (size_t c = 0; c < states_.size(); ++c) {
    states_[c].row_of.assign(borders.size(), -1);
    states_[c].numbers.assign(borders.size() * size_t(states_[c].width), -1);
    see(c, borders.data(), borders.size());
  }
}

// The tokens with the cells from .. to - 1, those of them that are new some at a time.
template <typename R>
void ScorerIn<R>::see_block(int64_t from, int64_t to) {
  constexpr size_t batch = 16;
  for (size_t c = 0; c < states_.size(); ++c) {
    ColumnState& own = states_[c];
    const size_t tokens = size_t(2 * reach()) + size_t(columns_[c].values.count());
    own.row_of.resize(tokens, -1);
    own.numbers.resize(tokens * size_t(own.width), -1);
    int64_t fresh[batch];
    size_t count = 0;
    for (int64_t n = from; n < to; ++n) {
      const int64_t token = 2 * reach() + columns_[c].cells[size_t(n)];
      if (own.row_of[size_t(token)] >= 0) continue;
      own.row_of[size_t(token)] = 0;  // once in a batch
      fresh[count++] = token;
      if (count == batch) see(c, fresh, std::exchange(count, 0));
    }
    see(c, fresh, count);
  }
}

template <typename R>
std::string_view ScorerIn<R>::folded(size_t c, std::string_view text) {
  if (c != 0 || !folding_ || is_ascii(text)) return text;
  folded_.clear();
  for (size_t at = 0; at < text.size();) {
    const uint32_t character = next_character(text, at);
    const auto found = folding_->find(character);
    append_character(folded_, found == folding_->end() ? character : found->second);
  }
  return folded_;
}

// What templates read of a token; of a border they all read the same.
template <typename R>
void ScorerIn<R>::read(size_t c, int64_t token) {
  const bool inside = token >= 2 * reach();
  const std::string beyond = inside ? std::string() : border_value(token % 2 ? token / 2 + 1 : -(token / 2 + 1));
  const std::string_view text =
      inside ? folded(c, columns_[c].values[uint64_t(token - 2 * reach())]) : std::string_view(beyond);
  for (const int r : states_[c].readings) {
    const Reading& reading = model_->set.readings[size_t(r)];
    apply(inside ? reading.function : Function::value, reading.argument, text, texts_);
    ends_.push_back(texts_.size());
  }
}

// The numbers of all that was read. What searches wait for in memory is fetched for all of them.
template <typename R>
void ScorerIn<R>::look_up(size_t c) {
  const std::vector<int>& readings = states_[c].readings;
  // f(what is wanted, the values to find it among, its reading)
  const auto for_wanted = [&](auto f) {
    for (size_t i = 0, r = 0; i < wanted_.size(); ++i, r = r + 1 < readings.size() ? r + 1 : 0)
      f(wanted_[i], model_->values[size_t(readings[r])], r);
  };
  wanted_.resize(ends_.size());
  size_t begin = 0, next = 0;
  for_wanted([&](Wanted& wanted, const auto& values, size_t) {
    wanted.text = std::string_view(texts_).substr(begin, ends_[next] - begin);
    wanted.key = values.key_of(wanted.text);
    values.fetch(wanted.key);
    begin = ends_[next++];
  });
  for_wanted([](Wanted& wanted, const auto& values, size_t) { values.fetch_string(wanted.text, wanted.key); });
  for_wanted([&](Wanted& wanted, const auto& values, size_t r) {
    const auto* value = values.find(wanted.text, wanted.key);
    wanted.number = value ? int32_t(value->number) : -1;
    wanted.slot = value ? value->slot : WeightSlot();
    const int shape = states_[c].alone[r].shape;
    if (value && shape >= 0) model_->shapes[size_t(shape)].fetch_weights(value->slot);
  });
}

// rows[r, l] = sum over what templates read of a token alone, r rows away
template <typename R>
void ScorerIn<R>::see(size_t c, const int64_t* tokens, size_t count) {
  ColumnState& own = states_[c];
  const int64_t L = model_->L, width = int64_t(own.rows.size());
  texts_.clear(), ends_.clear();
  for (size_t i = 0; i < count; ++i) read(c, tokens[i]);
  look_up(c);
  rows_.reserve(used_rows_ * L, (used_rows_ + int64_t(count) * width) * L + rows_padding);
  for (size_t i = 0; i < count; ++i, used_rows_ += width) {
    double* rows = rows_.numbers + used_rows_ * L;
    std::fill_n(rows, width * L, 0.0);
    const auto add = [&](const Alone& alone, const WeightSlot& slot) {
      block_kernels<R>().add_block(model_->shapes[size_t(alone.shape)].table(), slot, alone.rows.data(), rows);
    };
    for (const Alone& alone : own.always) add(alone, model_->shapes[size_t(alone.shape)].slots()[0]);
    for (size_t r = 0; r < own.readings.size(); ++r) {
      const auto& [text, key, number, slot] = wanted_[i * own.readings.size() + r];
      if (own.kept[r] >= 0) own.numbers[size_t(tokens[i] * own.width + own.kept[r])] = number;
      if (number >= 0 && own.alone[r].shape >= 0) add(own.alone[r], slot);
    }
    own.row_of[size_t(tokens[i])] = int32_t(used_rows_);
  }
}

// Rows may be forgotten between blocks; strings are needed until the last one.
template <typename R>
void ScorerIn<R>::score_sentences(const std::vector<int64_t>& offsets, double* emissions) {
  constexpr int64_t block = 16384, strip = 2048;  // tokens
  by_tokens(offsets, 0, int64_t(offsets.size()) - 1, block, [&](int64_t first, int64_t last) {
    if (row_bytes() > most_) forget();
    see_block(offsets[size_t(first)], offsets[size_t(last)]);
    std::vector<std::array<int64_t, 2>> strips;
    by_tokens(offsets, first, last, strip, [&](int64_t from, int64_t to) { strips.push_back({from, to}); });
    run_tasks(int64_t(strips.size()), num_threads(), [&](int64_t i) {
      const auto [from, to] = strips[size_t(i)];
      score_strip(lay_out(offsets, from, to), emissions + offsets[size_t(from)] * model_->L);
    });
  });
}

template <typename R>
auto ScorerIn<R>::lay_out(const std::vector<int64_t>& offsets, int64_t first, int64_t last) const -> Strip {
  Strip strip;
  const int64_t start = offsets[size_t(first)], tokens = offsets[size_t(last)] - start;
  strip.places = tokens + (last - first) * 2 * reach();
  strip.token_of.assign(size_t(strip.places + 2 * reach()), -1);
  strip.first.resize(size_t(tokens));
  strip.cells.assign(states_.size(), std::vector<int32_t>(size_t(strip.places)));
  int64_t place = 0;
  for (int64_t b = first; b < last; ++b) {
    const int64_t begin = offsets[size_t(b)], length = offsets[size_t(b) + 1] - begin;
    for (int64_t t = 0; t < length; ++t) {
      strip.first[size_t(begin - start + t)] = place + reach() + t;
      strip.token_of[size_t(place + 2 * reach() + t)] = int32_t(begin - start + t);
    }
    for (size_t c = 0; c < states_.size(); ++c) {
      int32_t* cells = strip.cells[c].data() + place;
      for (int64_t d = 1; d <= reach(); ++d) {
        cells[reach() - d] = int32_t(border(-d));
        cells[reach() + length + d - 1] = int32_t(border(d));
      }
      for (int64_t t = 0; t < length; ++t) cells[reach() + t] = int32_t(2 * reach() + columns_[c].cells[size_t(begin + t)]);
    }
    place += length + 2 * reach();
  }
  strip.numbers.resize(model_->set.readings.size());
  for (size_t c = 0; c < states_.size(); ++c) {
    for (size_t i = 0; i < states_[c].readings.size(); ++i) {
      if (states_[c].kept[i] < 0) continue;
      std::vector<int32_t>& numbers = strip.numbers[size_t(states_[c].readings[i])];
      numbers.resize(size_t(strip.places));
      const int32_t* from = states_[c].numbers.data() + states_[c].kept[i];
      for (size_t p = 0; p < numbers.size(); ++p) numbers[p] = from[strip.cells[c][p] * states_[c].width];
    }
  }
  return strip;
}

template <typename R>
void ScorerIn<R>::score_strip(const Strip& strip, double* emissions) const {
  add_rows(strip, emissions);
  for (const size_t shape : large_shapes_) add_shape(strip, shape, emissions);
}

// emissions[n, l] = sum over the rows r that templates look at alone of rows[token r rows away, r, l]
template <typename R>
void ScorerIn<R>::add_rows(const Strip& strip, double* emissions) const {
  const int64_t tokens = int64_t(strip.first.size());
  std::vector<int32_t> items;
  std::vector<uint32_t> ends(strip.first.size());
  for (int64_t n = 0; n < tokens; ++n) {
    for (size_t c = 0; c < states_.size(); ++c)
      for (size_t r = 0; r < states_[c].rows.size(); ++r) {
        const int32_t cell = strip.cells[c][size_t(strip.first[size_t(n)] + states_[c].rows[r])];
        items.push_back(states_[c].row_of[size_t(cell)] + int32_t(r));
      }
    ends[size_t(n)] = uint32_t(items.size());
  }
  items.insert(items.end(), rows_ahead, 0);
  row_kernels<double>().add(rows_.numbers, model_->L, {ends.data(), items.data(), nullptr}, 0, tokens, emissions);
}

// Places are looked up some at a time: what the first of them wait for in memory, they wait for together.
template <typename R>
void ScorerIn<R>::add_shape(const Strip& strip, size_t shape, double* emissions) const {
  constexpr int64_t chunk = 128;
  const std::vector<Part>& parts = model_->set.shapes[shape].parts;
  const ShapeWeights<R>& weights = model_->shapes[shape];
  const int64_t end = strip.places - parts.back().offset;
  KeyPlace places[chunk];
  BlockPlace found[chunk];
  for (int64_t first = 0; first < end; first += chunk) {
    int64_t count = key_places(strip, parts, weights.radices(), first, std::min(first + chunk, end), places);
    count = weights.find(places, count, found);
    for (int64_t i = 0; i < count; ++i) weights.fetch_weights(found[i].slot);
    block_kernels<R>().add_blocks(weights.table(), found, count, strip.token_of.data() + reach(), emissions);
  }
}

// The places first .. last - 1 whose values are all known, with their keys; how many.
template <typename R>
int64_t ScorerIn<R>::key_places(const Strip& strip, const std::vector<Part>& parts,
                                   const std::vector<uint64_t>& radices, int64_t first, int64_t last,
                                   KeyPlace* places) {
  const auto numbers = [&](size_t part) {
    return strip.numbers[size_t(parts[part].reading)].data() + parts[part].offset;
  };
  int64_t found = 0;
  if (parts.size() == 2) {  // most are
    const int32_t *one = numbers(0), *two = numbers(1);
    for (int64_t p = first; p < last; ++p) {
      places[found] = {p, uint64_t(int64_t(two[p])) * radices[0] + uint64_t(int64_t(one[p]))};
      found += (one[p] | two[p]) >= 0;
    }
    return found;
  }
  for (int64_t p = first; p < last; ++p) {
    uint64_t key = 0;
    int32_t signs = 0;
    for (size_t part = parts.size(); part-- > 0;) {
      const int32_t number = numbers(part)[p];
      signs |= number;
      key = key * radices[part] + uint64_t(int64_t(number));
    }
    places[found] = {p, key};
    found += signs >= 0;
  }
  return found;
}

template class ShapeWeights<float>;
template class ShapeWeights<double>;
template struct TemplateWeights<float>;
template struct TemplateWeights<double>;
template class ScorerIn<float>;
template class ScorerIn<double>;

}  // namespace trellis::features

// Emissions from tokens, for a model that is used many times, by one thread at a time. What the templates that look at
// one cell say about a token is kept from call to call as rows of scores, with the numbers of what other templates read
// of it.
#pragma once

#include "base/numbers.h"
#include "features/attribute_index.h"
#include "features/dataset.h"
#include "features/scoring.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

namespace trellis::features {

// The attributes of a model that have weights, by form.
class FormAttributes {
 public:
  FormAttributes(const TemplateSet& set, const AttributeIndex& attributes, const Pairs& pairs);
  size_t count(int form) const { return ends_[size_t(form) + 1] - ends_[size_t(form)]; }
  const int32_t* of(int form) const { return items_.data() + ends_[size_t(form)]; }

  const StringList& keys;  // of all attributes

 private:
  std::vector<size_t> ends_;  // [1 + forms]
  std::vector<int32_t> items_;
};

// The weights of a shape by the keys of its values: value 0 + radix 0 * (value 1 + radix 1 * ...).
template <typename R>
class ShapeWeights {
 public:
  // What the keys of values are: values[part] are known of each part.
  void set_radices(const std::vector<uint64_t>& values);
  void make(const TemplateSet& set, int shape, const FormAttributes& attributes, const Pairs& pairs, const R* weights);

  const std::vector<uint64_t>& radices() const { return radices_; }
  // The places whose key has a block; how many.
  int64_t find(const KeyPlace* places, int64_t count, BlockPlace* found) const;
  // Of a shape with one part or none: by value. With one part, they are needed until the values have them.
  const WeightSlot* slots() const { return slots_.data(); }
  void forget_slots() { release(slots_); }
  void fetch_weights(const WeightSlot& slot) const {
    if (slot.count != full_block) return __builtin_prefetch(listed_.data() + slot.begin);
    const R* block = full_ + slot.begin * width();
    for (int64_t i = 0; i < width(); i += 64 / int64_t(sizeof(R))) __builtin_prefetch(block + i);
  }
  BlockTable<R> table() const {
    return {full_, listed_.data(), first_rows_.data(), int64_t(first_rows_.size()), L_};
  }

 private:
  int64_t width() const { return int64_t(first_rows_.size()) * L_; }
  // The key of the values of a template's feature, or no_key: one cell cannot read as two values. `parts` is memory.
  uint64_t key_of(const Template& own, const FormKey& values, std::vector<int32_t>& parts) const {
    std::fill(parts.begin(), parts.end(), -1);
    for (size_t v = 0; v < own.parts.size(); ++v) {
      int32_t& part = parts[size_t(own.parts[v])];
      if (part >= 0 && part != values.value(v)) return no_key;
      part = values.value(v);
    }
    uint64_t key = 0;
    for (size_t part = radices_.size(); part-- > 0;) key = key * radices_[part] + uint64_t(parts[part]);
    return key;
  }

  std::vector<uint64_t> radices_;
  std::vector<int32_t> first_rows_;
  int64_t L_ = 0;
  uint64_t possible_ = 1;  // keys
  bool direct_ = false;    // slots_ is by key
  HashTable<WeightSlot> table_;
  std::vector<WeightSlot> slots_;
  Block<R> full_{0};
  std::vector<ListedWeight<R>> listed_;
};

// A model's weights by the values that templates read: to score a text takes no names. Only read once it is made, by any
// number of threads.
template <typename R>
struct TemplateWeights {
  // A value of a reading: its number, and where the weights of the shape that is this reading alone are.
  struct Value {
    uint32_t number;
    WeightSlot slot{};
  };
  std::shared_ptr<const TemplateSet> templates;
  const TemplateSet& set;
  std::vector<StringIndex<Value>> values;  // of each reading
  std::vector<ShapeWeights<R>> shapes;
  int64_t L;

  // The attributes are those of templates.
  TemplateWeights(const AttributeIndex& attributes, const Pairs& pairs, const R* weights);
};

// What is kept from call to call has its limit: beyond it, a scorer is of no more use after a call.
class Scorer {
 public:
  // All that is kept, strings and rows and their numbers, takes at most this many bytes.
  static constexpr int64_t most_bytes = 96 << 20;

  explicit Scorer(int columns) : buffers_(size_t(std::max(columns, 1))), columns_(buffers_.size()) {}
  virtual ~Scorer() = default;

  // What the columns of the next sentences are read into, empty before.
  std::vector<TokenBuffer>& buffers() { return buffers_; }
  void number() {
    whole_ = false;
    for (size_t c = 0; c < buffers_.size(); ++c) buffers_[c].number(columns_[c]);
    whole_ = true;
  }
  // emissions[N, L] of the sentences whose cells have numbers
  void score(const std::vector<int64_t>& offsets, double* emissions) {
    whole_ = false;
    score_sentences(offsets, emissions);
    whole_ = true;
  }
  virtual int64_t labels() const = 0;
  int64_t bytes() const {
    int64_t bytes = row_bytes();
    for (const Column& column : columns_) bytes += column.bytes();
    for (const TokenBuffer& cells : buffers_) bytes += cells.bytes();
    return bytes;
  }
  // After the last of these: whether it may be used again, with `most` bytes to keep. It may not if it has become too
  // large, or if an error kept it from numbering or scoring to the end. Allocates nothing, for destructors.
  bool finish(int64_t most) noexcept {
    most_ = most;
    for (Column& column : columns_) column.cells.clear();
    for (TokenBuffer& cells : buffers_) cells.clear();
    return whole_ && bytes() <= most;
  }

 protected:
  virtual void score_sentences(const std::vector<int64_t>& offsets, double* emissions) = 0;
  virtual int64_t row_bytes() const = 0;

  std::vector<TokenBuffer> buffers_;
  Columns columns_;
  int64_t most_ = most_bytes;

 private:
  bool whole_ = true;
};

// Characters and what they are read as, from code point to code point.
using Folding = std::unordered_map<uint32_t, uint32_t>;

template <typename R>
class ScorerIn final : public Scorer {
 public:
  // Tokens, which are column 0, are folded before anything is read of them.
  ScorerIn(std::shared_ptr<const TemplateWeights<R>> weights, std::shared_ptr<const Folding> folding);

  int64_t labels() const override { return model_->L; }
  // Of rows: what they may still grow by takes memory too.
  int64_t reserved_bytes() const { return rows_.room * int64_t(sizeof(double)); }

 private:
  // A shape with one part or none: its values are looked up once for each token.
  struct Alone {
    int shape = -1;             // or there is none
    std::vector<int32_t> rows;  // of each entry, among those of the column
  };
  struct ColumnState {
    std::vector<int> rows;  // at which templates look at its cells alone
    std::vector<int> readings;
    std::vector<Alone> alone;   // [readings]
    std::vector<Alone> always;  // shapes without parts
    std::vector<int> kept;      // [readings] their places in `numbers`, or -1
    int64_t width = 0;          // of `numbers`
    // By token; the borders of sentences come first: -1, +1, -2, +2 ...
    std::vector<int32_t> row_of;   // the first of its rows, or -1 if there are none yet
    std::vector<int32_t> numbers;  // [tokens, width] of its values, or -1 if the model does not know them
  };
  // Numbers that grow.
  struct GrowingRows {
    Block<double> numbers{0};
    int64_t room = 0;
    void reserve(int64_t used, int64_t count);
  };
  // A reading of a token on its way from a text to a number and to weights.
  struct Wanted {
    std::string_view text;
    uint64_t key;
    int32_t number;
    WeightSlot slot;
  };
  // Some sentences one after another, each with its borders on both sides.
  struct Strip {
    int64_t places = 0;
    std::vector<int32_t> token_of;              // [places and what templates reach on both sides] or -1
    std::vector<std::vector<int32_t>> cells;    // [columns][places]
    std::vector<std::vector<int32_t>> numbers;  // [readings][places] if they are kept
    std::vector<int64_t> first;                 // the place of each token
  };

  void score_sentences(const std::vector<int64_t>& offsets, double* emissions) override;
  void list_column(size_t c);
  int64_t reach() const { return model_->set.reach; }
  int64_t border(int64_t distance) const { return distance < 0 ? -2 * (distance + 1) : 2 * (distance - 1) + 1; }
  void forget();
  int64_t row_bytes() const override;
  void see_borders();
  void see_block(int64_t from, int64_t to);
  void see(size_t c, const int64_t* tokens, size_t count);
  void read(size_t c, int64_t token);
  void look_up(size_t c);
  std::string_view folded(size_t c, std::string_view text);
  Strip lay_out(const std::vector<int64_t>& offsets, int64_t first, int64_t last) const;
  void score_strip(const Strip& strip, double* emissions) const;
  void add_rows(const Strip& strip, double* emissions) const;
  void add_shape(const Strip& strip, size_t shape, double* emissions) const;
  static int64_t key_places(const Strip& strip, const std::vector<Part>& parts, const std::vector<uint64_t>& radices,
                            int64_t first, int64_t last, KeyPlace* places);

  std::shared_ptr<const TemplateWeights<R>> model_;
  std::shared_ptr<const Folding> folding_;
  std::vector<ColumnState> states_;
  std::vector<size_t> large_shapes_;  // those with several parts
  GrowingRows rows_;                  // [rows, L], and rows_padding more
  int64_t used_rows_ = 0;
  std::string texts_, folded_;
  std::vector<size_t> ends_;  // of the texts
  std::vector<Wanted> wanted_;
};

}  // namespace trellis::features

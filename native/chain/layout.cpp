#include "chain/layout.h"

#include <stdexcept>

namespace trellis::chain {

Layout layout_of_lengths(const int64_t* lengths, int64_t B, int64_t tokens) {
  Layout layout;
  layout.offsets.resize(size_t(B) + 1);
  int64_t left = tokens;
  for (int64_t b = 0; b < B; ++b) {
    const int64_t length = lengths[b];
    if (length < 0 || length > left) throw std::invalid_argument("lengths do not add up to the number of tokens");
    left -= length;
    layout.offsets[size_t(b) + 1] = tokens - left;
  }
  if (left) throw std::invalid_argument("lengths do not add up to the number of tokens");
  return layout;
}

Layout layout_of_mask(const uint8_t* mask, const int64_t* tags, int64_t ignored, int64_t B, int64_t T,
                      int64_t stride_b, int64_t stride_t) {
  Layout layout;
  layout.edge_first = stride_t;  // (B, T - 1) if the batch comes first, else (T - 1, B)
  layout.edge_step = stride_t == 1 ? 1 : 0;
  layout.offsets.resize(size_t(B) + 1);
  layout.rows.resize(size_t(B * T));
  int64_t tokens = 0;
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t t = 0; t < T; ++t) {
      const int64_t row = b * stride_b + t * stride_t;
      layout.rows[size_t(tokens)] = row;
      tokens += (!mask || mask[row]) && (!tags || tags[row] != ignored);
    }
    layout.offsets[size_t(b) + 1] = tokens;
  }
  layout.rows.resize(size_t(tokens));
  return layout;
}

std::vector<int64_t> Layout::pair_shift() const {
  std::vector<int64_t> shift(offsets.size() - 1);
  int64_t begun = 0;  // sequences that are not empty, each with a first token that ends no pair
  for (size_t b = 0; b < shift.size(); ++b) shift[b] = begun += offsets[b + 1] > offsets[b];
  return shift;
}

int64_t Layout::pairs() const { return sequences() ? tokens() - pair_shift().back() : 0; }

std::vector<int64_t> Layout::edge_shift() const {
  if (edge_first == 0) return pair_shift();
  std::vector<int64_t> shift(offsets.size() - 1);
  for (size_t b = 0; b < shift.size(); ++b) shift[b] = edge_first + int64_t(b) * edge_step;
  return shift;
}

std::vector<int64_t> Layout::edge_rows() const {
  const std::vector<int64_t> shift = edge_shift();
  std::vector<int64_t> found;
  for (size_t b = 0; b < shift.size(); ++b)
    for (int64_t n = offsets[b] + 1; n < offsets[b + 1]; ++n)
      found.push_back((rows.empty() ? n : rows[size_t(n)]) - shift[b]);
  return found;
}

}  // namespace trellis::chain

// Where the tokens of a batch and the pairs of neighbouring tokens lie in the arrays of the caller.
#pragma once

#include <cstdint>
#include <vector>

namespace trellis::chain {

// Where the tokens of a batch lie: see Batch. Either all lengths one after another, or the true cells of a mask.
struct Layout {
  std::vector<int64_t> offsets, rows;  // rows is empty if token n is row n
  // Place (b, t) of a padded batch has its edges, those into it, at row(b, t) - (edge_first + b * edge_step). Those of
  // tokens one after another lie one after another, none for the first of a sequence.
  int64_t edge_first = 0, edge_step = 0;
  int64_t sequences() const { return int64_t(offsets.size()) - 1; }
  int64_t tokens() const { return offsets.back(); }
  int64_t pairs() const;  // of neighbouring tokens
  // What is to be taken from a token's number (from its row, for edges) to get that of the pair it is the later of.
  std::vector<int64_t> pair_shift() const;
  std::vector<int64_t> edge_shift() const;
  // The matrix that holds the edges of each pair, in order.
  std::vector<int64_t> edge_rows() const;
};

// Throws std::invalid_argument if the lengths do not add up to `tokens`: offsets must never leave the arrays.
Layout layout_of_lengths(const int64_t* lengths, int64_t B, int64_t tokens);
// Place (b, t) is row b * stride_b + t * stride_t; it holds a token if the mask is not 0 and the tag is not `ignored`.
// Either array may be null.
Layout layout_of_mask(const uint8_t* mask, const int64_t* tags, int64_t ignored, int64_t B, int64_t T,
                      int64_t stride_b, int64_t stride_t);

}  // namespace trellis::chain

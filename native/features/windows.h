// A plan of few rows for few labels. Groups of templates that look at the same cells from tokens one after another
// (a family: the character before, this one, the next one) say something about several tokens wherever these cells
// hold the same strings. What they say is one unit: `width` rows one after another, and place q of a sentence of T
// tokens, q = 0 .. T + width - 2, has a unit that adds its row i to the emissions of token q - (width - 1) + i.
//
//   emissions[n] = sum over windows w, i < width of w:  row[place[w, n + width - 1 - i] + i]
//   row of a unit = the sum of the weights of its attributes
//
// A place is stored once for all tokens that it reaches, and so are its uses on the way back, where derivatives of a
// unit's rows are sums over its places of as many tokens' rows, which lie side by side. Rows of zeros between sentences
// stand for tokens beyond their edges.
#pragma once

#include "features/plan_data.h"

namespace trellis::features {

// Whether there are so few labels, and features that templates made.
bool has_windows(const Dataset& data, const Pairs& pairs);

PlanArrays<Vector> plan_windows(const Dataset& data, const Pairs& pairs);

}  // namespace trellis::features

// Bundles for features that came as dicts, where each token has a list of its own. The values of some keys go together,
// as those that describe one word do: such keys become a group, whose bundles tokens share as they share those of
// templates.
#pragma once

#include "features/dataset.h"

namespace trellis::features {

// Puts the features into groups by their kinds; false, and nothing is changed, if they have none, or if that would not
// make them much fewer.
bool share_bundles(Dataset& data);

}  // namespace trellis::features

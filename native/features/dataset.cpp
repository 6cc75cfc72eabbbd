#include "features/dataset.h"

#include "features/expansion.h"

namespace trellis::features {

FirstUses::FirstUses(const Dataset& data, int64_t attributes)
    : groups(size_t(attributes), -1), sentences(size_t(attributes), -1) {
  std::vector<bool> seen(size_t(data.bundles()), false);
  for (int64_t g = 0; g < data.groups; ++g) {
    for (int64_t b = 0; b < data.sentences(); ++b) {
      for (int64_t n = data.offsets[size_t(b)]; n < data.offsets[size_t(b) + 1]; ++n) {
        const int64_t u = data.bundle(n, g);
        if (seen[size_t(u)]) continue;
        seen[size_t(u)] = true;
        for (int64_t e = data.bundle_begin(u); e < data.bundle_ends[size_t(u)]; ++e) {
          const size_t a = size_t(data.attributes[size_t(e)]);
          if (groups[a] < 0) groups[a] = g, sentences[a] = b;
        }
      }
    }
  }
}

Dataset expand(const TemplateSet& set, const std::vector<std::unique_ptr<Column>>& columns,
               std::vector<int64_t> offsets, AttributeSource attributes) {
  Dataset data;
  data.offsets = std::move(offsets);
  data.groups = int64_t(set.groups.size());
  data.families = set.families();
  data.token_bundles.resize(size_t(data.tokens() * data.groups));
  Expansion expansion(set, columns, data, attributes);
  for (size_t g = 0; g < set.groups.size(); ++g) {
    GroupNumbers numbers(set.groups[g].sources.size(), data.tokens());
    expansion.group(set.groups[g], g, numbers);
  }
  return data;
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

}  // namespace trellis::features

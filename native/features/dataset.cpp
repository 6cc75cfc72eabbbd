#include "features/dataset.h"

#include "features/expansion.h"

namespace trellis {
Dataset expand(const TemplateSet& set, const std::vector<std::unique_ptr<Column>>& columns,
               std::vector<int64_t> offsets, AttributeSource attributes) {
  Dataset data;
  data.offsets = std::move(offsets);
  data.groups = int64_t(set.groups.size());
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

}  // namespace trellis

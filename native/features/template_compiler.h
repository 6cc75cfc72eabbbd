// The templates evaluated on sentences. Each group of templates gives a token one bundle of attributes, made once for all
// tokens whose sources hold the same strings.
#pragma once

#include "features/attribute_index.h"
#include "features/dataset.h"

namespace trellis::features {

// Sentences with the given offsets as attributes; with `grow`, new ones get a number, else they are left out.
Dataset compile_templates(const std::shared_ptr<const TemplateSet>& set, const Columns& columns,
                          std::vector<int64_t> offsets, AttributeIndex& attributes, bool grow);

// The names of one token's attributes, template by template.
std::vector<std::string> attribute_names(const TemplateSet& set, const Columns& columns,
                                         const std::vector<int64_t>& offsets, int64_t sentence, int64_t position);

}  // namespace trellis::features

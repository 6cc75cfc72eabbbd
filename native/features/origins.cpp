#include "features/origins.h"

#include <algorithm>
#include <cstdlib>

namespace trellis::features {

Origins::Origins(const TemplateSet& set) {
  for (const std::vector<Piece>& pieces : set.templates) {
    Form form;
    std::vector<Part> parts;  // with rows for offsets at first
    for (const Piece& piece : pieces) {
      form.texts.push_back(piece.text);
      if (piece.column < 0) continue;
      readable_ &= parts.empty() || !piece.text.empty();
      parts.push_back({piece.row, reading_of(piece)});
      reach_ = std::max(reach_, std::abs(piece.row));
    }
    form.texts.resize(parts.size() + 1);
    int first = parts.empty() ? 0 : parts[0].offset;
    for (const Part& part : parts) first = std::min(first, part.offset);
    for (Part& part : parts) part.offset -= first;
    std::vector<Part> sorted(parts);
    std::sort(sorted.begin(), sorted.end(), [](const Part& a, const Part& b) {
      return a.offset != b.offset ? a.offset < b.offset : a.reading < b.reading;
    });
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    for (const Part& part : parts)
      form.parts.push_back(int(std::find(sorted.begin(), sorted.end(), part) - sorted.begin()));
    form.shape = shape_of(sorted);
    Shape& shape = shapes_[size_t(form.shape)];
    form.entry = int(shape.first_rows.size());
    shape.first_rows.push_back(first);
    forms_.push_back(std::move(form));
  }
  for (size_t i = 0; i < forms_.size(); ++i)
    by_length_[forms_[i].texts[0].size()].forms[forms_[i].texts[0]].push_back(int(i));
}

int Origins::reading_of(const Piece& piece) {
  const Reading reading{piece.column, piece.function, piece.argument};
  const auto found = std::find(readings_.begin(), readings_.end(), reading);
  if (found != readings_.end()) return int(found - readings_.begin());
  readings_.push_back(reading);
  return int(readings_.size()) - 1;
}

int Origins::shape_of(const std::vector<Part>& parts) {
  const auto same = [&](const Shape& shape) { return shape.parts == parts; };
  const auto found = std::find_if(shapes_.begin(), shapes_.end(), same);
  if (found != shapes_.end()) return int(found - shapes_.begin());
  shapes_.push_back({parts, {}});
  return int(shapes_.size()) - 1;
}

}  // namespace trellis::features

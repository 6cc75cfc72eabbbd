#include "features/attribute_index.h"

#include "base/numbers.h"

#include <numeric>
#include <random>
#include <stdexcept>

namespace trellis::features {

const HashKey& process_key() {
  const auto random_word = [] {
    std::random_device source;
    return uint64_t(source()) << 32 | source();
  };
  static const HashKey key{random_word(), random_word()};
  return key;
}

AttributeIndex::AttributeIndex(const StringList& keys, std::shared_ptr<const TemplateSet> set,
                               std::vector<StringList> values)
    : set_(std::move(set)), stored_(true), stored_keys_(keys), stored_values_(std::move(values)) {
  if (!set_) return;
  if (stored_values_.size() != set_->readings.size()) throw std::invalid_argument("must have values for each reading");
  const size_t form_bytes = FormKey::form_bytes(*set_);
  for (uint64_t a = 0; a < keys.count; ++a) {
    const std::string_view bytes = keys[a];
    bool fits = bytes.size() >= form_bytes;
    const FormKey key(*set_, fits ? bytes : std::string_view("\0\0", 2));
    fits = fits && size_t(key.form) < set_->forms.size();
    if (fits) {
      const std::vector<int>& readings = set_->forms[size_t(key.form)].readings;
      fits = bytes.size() == form_bytes + FormKey::value_bytes * readings.size();
      for (size_t v = 0; fits && v < readings.size(); ++v)
        fits = uint64_t(key.value(v)) < stored_values_[size_t(readings[v])].count;
    }
    if (!fits) throw std::invalid_argument("must be attributes of its templates, and number " + std::to_string(a) + " is none");
  }
}

std::string AttributeIndex::name(uint64_t i) const {
  if (!set_) return std::string(keys()[i]);
  const FormKey key(*set_, keys()[i]);
  const Form& form = set_->forms[size_t(key.form)];
  std::string name = form.texts[0];
  for (size_t v = 0; v < form.readings.size(); ++v) {
    name += values(size_t(form.readings[v]))[uint64_t(key.value(v))];
    name += form.texts[v + 1];
  }
  return name;
}

void AttributeIndex::use(const std::shared_ptr<const TemplateSet>& set) {
  if (set_ == set) return;
  const bool same = set_ && set_->forms == set->forms && set_->readings == set->readings;
  if (!same && keys().count) throw std::invalid_argument("these attributes are those of other templates");
  if (!same) values_ = std::vector<StringIndex<>>(set->readings.size());
  set_ = set;
}

void AttributeIndex::make_tables() {
  if (!stored_) return;
  std::call_once(tables_made_, [this] {
    keys_ = StringIndex<>(stored_keys_);
    for (const StringList& values : stored_values_) values_.emplace_back(values);
  });
}

int64_t AttributeIndex::take(const AttributeIndex& other, uint64_t i, Renumbering& values) {
  if (!other.set_) return keys_.add(other.keys()[i]).number;
  if (!set_) use(other.set_);
  const FormKey key(*set_, other.keys()[i]);
  std::string own;
  FormKey::append(uint64_t(key.form), FormKey::form_bytes(*set_), own);
  values.resize(set_->readings.size());
  const std::vector<int>& readings = set_->forms[size_t(key.form)].readings;
  for (size_t v = 0; v < readings.size(); ++v) {
    const size_t r = size_t(readings[v]);
    if (values[r].empty()) values[r].assign(other.values(r).count, -1);
    int32_t& number = values[r][size_t(key.value(v))];
    if (number < 0) number = int32_t(values_[r].add(other.values(r)[uint64_t(key.value(v))]).number);
    FormKey::append(uint64_t(number), FormKey::value_bytes, own);
  }
  return keys_.add(own).number;
}

std::unique_ptr<AttributeIndex> AttributeIndex::select(const int64_t* numbers, size_t count) const {
  auto chosen = std::make_unique<AttributeIndex>();
  if (set_) chosen->use(set_);
  Renumbering values;
  for (size_t i = 0; i < count; ++i) chosen->take(*this, uint64_t(numbers[i]), values);
  return chosen;
}

}  // namespace trellis::features

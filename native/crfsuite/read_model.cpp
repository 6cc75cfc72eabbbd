#include "crfsuite/model_file.h"
#include "crfsuite/string_table.h"

#include <cmath>
#include <cstring>

namespace trellis::crfsuite {
namespace {

constexpr uint32_t most_labels = 16384;  // tables of transitions between more would take gigabytes

std::string text(uint64_t number) { return std::to_string(number); }

// Bytes of the file, by a name for messages.
class Bytes {
 public:
  Bytes(const uint8_t* data, uint64_t size, std::string name) : data_(data), size_(size), name_(std::move(name)) {}

  uint64_t size() const { return size_; }
  const uint8_t* data() const { return data_; }
  uint32_t word(uint64_t at) const {
    return data_[at] | uint32_t(data_[at + 1]) << 8 | uint32_t(data_[at + 2]) << 16 | uint32_t(data_[at + 3]) << 24;
  }
  double number(uint64_t at) const {
    const uint64_t bits = word(at) | uint64_t(word(at + 4)) << 32;
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  // Refuses a range that is not inside.
  void need(uint64_t begin, uint64_t count, const std::string& what) const {
    if (begin > size_ || count > size_ - begin) {
      refuse(what + " would take " + text(count) + " bytes from byte " + text(begin) + ", and there are " + text(size_));
    }
  }
  Bytes from(uint64_t begin, const std::string& name) const {
    need(begin, 0, name);
    return {data_ + begin, size_ - begin, name};
  }
  void need_name(const char* name) const {
    need(0, 4, "the name '" + std::string(name) + "'");
    if (std::memcmp(data_, name, 4) != 0) refuse("must begin with '" + std::string(name) + "'");
  }
  [[noreturn]] void refuse(const std::string& problem) const { throw FormatError(name_ + ": " + problem); }

 private:
  const uint8_t* data_;
  uint64_t size_;
  std::string name_;
};

// The strings with the ids 0 .. count - 1; `item` is what one of them names.
Strings read_strings(const Bytes& rest, uint32_t count, const std::string& item) {
  rest.need_name("CQDB");
  rest.need(0, records_begin, "its header");
  const uint64_t size = rest.word(4), ids = rest.word(16), offsets = rest.word(20);
  if (size < records_begin) rest.refuse("says that it has " + text(size) + " bytes, and its header alone has more");
  rest.need(0, size, "the whole of it");
  const Bytes own(rest.data(), size, "the table of " + item + "s");
  if (own.word(12) != byte_order) own.refuse("was written in another byte order");
  for (uint64_t t = 0; t < tables; ++t) {
    const uint64_t begin = own.word(table_header_bytes + 8 * t), slots = own.word(table_header_bytes + 8 * t + 4);
    if (!begin) continue;
    own.need(begin, 8 * slots, "hash table " + text(t));
    for (uint64_t at = begin + 4; at < begin + 8 * slots; at += 8) {
      const uint64_t record = own.word(at);
      if (record && (record < records_begin || record > size - 8))
        own.refuse("hash table " + text(t) + " points to byte " + text(record) + ", where no record is");
    }
  }
  if (ids < count) own.refuse("has " + text(ids) + " ids, and the header of the file says " + text(count));
  own.need(offsets, 4 * ids, "the offsets by id");

  Strings strings;
  strings.lengths.reserve(count);
  strings.bytes.reserve(size);
  for (uint32_t id = 0; id < count; ++id) {
    const uint64_t record = own.word(offsets + 4 * id);
    const auto named = [&] { return item + " " + text(id); };
    if (!record) own.refuse(named() + " has no name");
    if (record > size - 8) own.refuse("the name of " + named() + " would begin at byte " + text(record) + " of " + text(size));
    const uint64_t length = own.word(record + 4);
    if (own.word(record) != id) own.refuse("the record for " + named() + " is that of " + text(own.word(record)));
    if (!length || length > size - 8 - record) own.refuse("the name of " + named() + " ends outside of the table");
    const uint8_t* name = own.data() + record + 8;
    if (std::memchr(name, 0, length) != name + length - 1) own.refuse("the name of " + named() + " must end with its only NUL");
    if (strings.bytes.size() + length > size) own.refuse("names overlap");
    strings.bytes.insert(strings.bytes.end(), name, name + length - 1);
    strings.lengths.push_back(uint32_t(length - 1));
  }
  return strings;
}

struct Feature {
  uint32_t label;
  double weight;
};

class Features {
 public:
  Features(const Bytes& rest, uint32_t labels) : own_(rest), labels_(labels) {
    own_.need_name("FEAT");
    own_.need(0, chunk_bytes, "its header");
    count_ = own_.word(8);
    own_.need(chunk_bytes, feature_bytes * count_, text(count_) + " features");
  }
  uint64_t count() const { return count_; }
  // The feature with this number, which a list names as one of this type and source.
  Feature get(uint32_t number, uint32_t type, uint32_t source) const {
    const uint64_t at = chunk_bytes + feature_bytes * uint64_t(number);
    if (own_.word(at) != type || own_.word(at + 4) != source) {
      own_.refuse("feature " + text(number) + " has type " + text(own_.word(at)) + " and source " + text(own_.word(at + 4)) +
                  ", and a list has it with type " + text(type) + " and source " + text(source));
    }
    const Feature feature{own_.word(at + 8), own_.number(at + 12)};
    if (feature.label >= labels_)
      own_.refuse("feature " + text(number) + " is for label " + text(feature.label) + " of " + text(labels_));
    if (!std::isfinite(feature.weight)) own_.refuse("the weight of feature " + text(number) + " is not finite");
    return feature;
  }

 private:
  Bytes own_;
  uint32_t labels_;
  uint64_t count_;
};

// add(source, feature) for the lists of the sources 0 .. sources - 1, no label twice for one source
template <typename F, typename Begin>
void read_lists(const Bytes& file, uint64_t offset, const char* chunk, const std::string& name, uint32_t sources,
                uint32_t type, const Features& features, uint32_t labels, Begin begin, F add) {
  const Bytes own = file.from(offset, name);
  own.need_name(chunk);
  own.need(0, chunk_bytes, "its header");
  const uint64_t lists = own.word(8);
  if (lists < sources) own.refuse("has " + text(lists) + " lists, and " + text(sources) + " are needed");
  own.need(chunk_bytes, 4 * lists, "the offsets of " + text(lists) + " lists");
  std::vector<uint32_t> seen(labels, UINT32_MAX);  // the last source that had this label
  for (uint32_t source = 0; source < sources; ++source) {
    const uint64_t list = own.word(chunk_bytes + 4 * uint64_t(source));
    const bool begins = list + 4 <= file.size();
    const uint64_t count = begins ? file.word(list) : 0;
    if (!begins || 4 * count > file.size() - 4 - list)
      own.refuse("list " + text(source) + " from byte " + text(list) + " ends outside of the file");
    begin(count);
    for (uint64_t i = 0; i < count; ++i) {
      const uint32_t number = file.word(list + 4 + 4 * i);
      if (number >= features.count())
        own.refuse("list " + text(source) + " has feature " + text(number) + " of " + text(features.count()));
      const Feature feature = features.get(number, type, source);
      if (seen[feature.label] == source)
        own.refuse("list " + text(source) + " has two features for label " + text(feature.label));
      seen[feature.label] = source;
      add(source, feature);
    }
  }
}

}  // namespace

Model read_model(const uint8_t* data, uint64_t size) {
  const Bytes file(data, size, "the file");
  file.need_name("lCRF");
  file.need(0, header_bytes, "its header");
  if (file.word(4) != size) file.refuse("has " + text(size) + " bytes, and its header says " + text(file.word(4)));
  if (std::memcmp(data + 8, "FOMC", 4) != 0) file.refuse("is not of the type 'FOMC'");
  if (file.word(12) != version) file.refuse("has version " + text(file.word(12)) + ", and only 100 is known");
  const uint32_t labels = file.word(20), attributes = file.word(24);
  if (labels > most_labels) file.refuse("has " + text(labels) + " labels, and at most " + text(most_labels) + " are possible");

  Model model;
  const Features features(file.from(file.word(28), "the features"), labels);
  model.labels = read_strings(file.from(file.word(32), "the table of labels"), labels, "label");
  model.attributes = read_strings(file.from(file.word(36), "the table of attributes"), attributes, "attribute");
  read_lists(file, file.word(40), "LFRF", "the transitions", labels, 1, features, labels, [](uint64_t) {},
             [&](uint32_t from, const Feature& f) { model.transitions.push_back({from, f.label, f.weight}); });
  model.pair_counts.reserve(attributes);
  model.pair_labels.reserve(features.count());
  model.pair_weights.reserve(features.count());
  read_lists(
      file, file.word(44), "AFRF", "the attributes", attributes, 0, features, labels,
      [&](uint64_t count) { model.pair_counts.push_back(uint32_t(count)); },
      [&](uint32_t, const Feature& f) {
        model.pair_labels.push_back(uint16_t(f.label));
        model.pair_weights.push_back(f.weight);
      });
  return model;
}

}  // namespace trellis::crfsuite

#include "crfsuite/model_file.h"
#include "crfsuite/string_table.h"

#include <algorithm>
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
class StringTable {
 public:
  StringTable(const Bytes& rest, uint32_t count, std::string item)
      : own_(whole_table(rest, item)), size_(own_.size()), offsets_(own_.word(20)), item_(std::move(item)) {
    if (own_.word(12) != byte_order) own_.refuse("was written in another byte order");
    const uint64_t ids = own_.word(16);
    if (ids < count) own_.refuse("has " + text(ids) + " ids, and the header of the file says " + text(count));
    own_.need(offsets_, 4 * ids, "the offsets by id");
    for (uint64_t t = 0; t < tables; ++t) own_.need(table(t), 8 * slots(t), "hash table " + text(t));
  }
  uint64_t size() const { return size_; }

  std::string_view name(uint32_t id) const {
    const uint64_t record = own_.word(offsets_ + 4 * uint64_t(id));
    const auto named = [&] { return item_ + " " + text(id); };
    if (!record) own_.refuse(named() + " has no name");
    if (record > size_ - 8) own_.refuse("the name of " + named() + " would begin at byte " + text(record) + " of " + text(size_));
    const uint64_t length = own_.word(record + 4);
    if (own_.word(record) != id) own_.refuse("the record for " + named() + " is that of " + text(own_.word(record)));
    if (!length || length > size_ - 8 - record) own_.refuse("the name of " + named() + " ends outside of the table");
    const uint8_t* name = own_.data() + record + 8;
    if (std::memchr(name, 0, length) != name + length - 1) own_.refuse("the name of " + named() + " must end with its only NUL");
    return {reinterpret_cast<const char*>(name), length - 1};
  }

  // Bring near the slot, and then the record, where a search begins.
  void fetch_slot(uint32_t hash) const { __builtin_prefetch(own_.data() + first_slot(hash)); }
  void fetch_record(uint32_t hash) const {
    if (!slots(hash % tables)) return;
    const uint64_t record = own_.word(first_slot(hash) + 4);
    if (record < size_) __builtin_prefetch(own_.data() + record);
  }
  // The id of the string with this hash, or -1.
  int64_t find(std::string_view name, uint32_t hash) const {
    const uint64_t count = slots(hash % tables), begin = table(hash % tables);
    for (uint64_t probe = 0, i = count ? (hash >> 8) % count : 0; probe < count; ++probe, i = i + 1 == count ? 0 : i + 1) {
      const uint64_t record = own_.word(begin + 8 * i + 4);
      if (!record) return -1;
      if (own_.word(begin + 8 * i) != hash) continue;
      check_record(hash % tables, record);
      const uint64_t length = own_.word(record + 4);
      if (length != name.size() + 1 || length > size_ - 8 - record) continue;
      if (std::memcmp(own_.data() + record + 8, name.data(), name.size()) == 0) return own_.word(record);
    }
    return -1;
  }

  void check_slots() const {
    for (uint64_t t = 0; t < tables; ++t)
      for (uint64_t at = table(t) + 4; at < table(t) + 8 * slots(t); at += 8)
        if (own_.word(at)) check_record(t, own_.word(at));
  }

 private:
  static Bytes whole_table(const Bytes& rest, const std::string& item) {
    rest.need_name("CQDB");
    rest.need(0, records_begin, "its header");
    const uint64_t size = rest.word(4);
    if (size < records_begin) rest.refuse("says that it has " + text(size) + " bytes, and its header alone has more");
    rest.need(0, size, "the whole of it");
    return {rest.data(), size, "the table of " + item + "s"};
  }
  uint64_t table(uint64_t t) const { return own_.word(table_header_bytes + 8 * t); }
  uint64_t slots(uint64_t t) const { return table(t) ? own_.word(table_header_bytes + 8 * t + 4) : 0; }
  uint64_t first_slot(uint32_t hash) const {
    const uint64_t count = slots(hash % tables);
    return count ? table(hash % tables) + 8 * ((hash >> 8) % count) : 0;
  }
  void check_record(uint64_t t, uint64_t record) const {
    if (record < records_begin || record > size_ - 8)
      own_.refuse("hash table " + text(t) + " points to byte " + text(record) + ", where no record is");
  }

  Bytes own_;
  uint64_t size_, offsets_;
  std::string item_;
};

Strings read_strings(const StringTable& table, uint32_t count) {
  Strings strings;
  strings.lengths.reserve(count);
  strings.bytes.reserve(table.size());
  for (uint32_t id = 0; id < count; ++id) {
    const std::string_view name = table.name(id);
    if (strings.bytes.size() + name.size() > table.size()) throw FormatError("the table of strings: names overlap");
    strings.bytes.insert(strings.bytes.end(), name.begin(), name.end());
    strings.lengths.push_back(uint32_t(name.size()));
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
  void fetch(uint32_t number) const {
    if (number < count_) __builtin_prefetch(own_.data() + chunk_bytes + feature_bytes * uint64_t(number));
  }
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

// By source, the features that have it.
class Lists {
 public:
  Lists(const Bytes& file, uint64_t offset, const char* chunk, const std::string& name, uint32_t sources, uint32_t type)
      : file_(file), own_(file.from(offset, name)), sources_(sources), type_(type) {
    own_.need_name(chunk);
    own_.need(0, chunk_bytes, "its header");
    const uint64_t lists = own_.word(8);
    if (lists < sources) own_.refuse("has " + text(lists) + " lists, and " + text(sources) + " are needed");
    own_.need(chunk_bytes, 4 * lists, "the offsets of " + text(lists) + " lists");
  }
  uint32_t sources() const { return sources_; }

  void fetch(uint32_t source, const Features& features, int step) const {
    const uint64_t at = chunk_bytes + 4 * uint64_t(source);
    if (step == 0) return __builtin_prefetch(own_.data() + at);
    const uint64_t list = own_.word(at);
    if (list + 8 > file_.size()) return;
    if (step == 1) return __builtin_prefetch(file_.data() + list);
    features.fetch(file_.word(list + 4));
  }
  // add(feature) for those of one source, begin(count) before.
  template <typename Begin, typename F>
  void read(uint32_t source, const Features& features, Begin begin, F add) const {
    const uint64_t list = own_.word(chunk_bytes + 4 * uint64_t(source));
    const bool begins = list + 4 <= file_.size();
    const uint64_t count = begins ? file_.word(list) : 0;
    if (!begins || 4 * count > file_.size() - 4 - list)
      own_.refuse("list " + text(source) + " from byte " + text(list) + " ends outside of the file");
    begin(count);
    for (uint64_t i = 0; i < count; ++i) {
      const uint32_t number = file_.word(list + 4 + 4 * i);
      if (number >= features.count())
        own_.refuse("list " + text(source) + " has feature " + text(number) + " of " + text(features.count()));
      add(features.get(number, type_, source));
    }
  }
  // add(source, feature) for all sources, no label twice for one source
  template <typename Begin, typename F>
  void read_all(const Features& features, uint32_t labels, Begin begin, F add) const {
    std::vector<uint32_t> seen(labels, UINT32_MAX);  // the last source that had this label
    for (uint32_t source = 0; source < sources_; ++source) {
      read(source, features, begin, [&](const Feature& feature) {
        if (seen[feature.label] == source)
          own_.refuse("list " + text(source) + " has two features for label " + text(feature.label));
        seen[feature.label] = source;
        add(source, feature);
      });
    }
  }

 private:
  Bytes file_, own_;
  uint32_t sources_, type_;
};

}  // namespace

struct OpenModel::Chunks {
  Bytes file;
  uint32_t num_labels, num_attributes;
  Features features;
  StringTable label_table, attribute_table;
  Lists steps, lists;
  Strings labels;
  std::vector<Transition> transitions;

  explicit Chunks(const Bytes& checked)
      : file(checked), num_labels(file.word(20)), num_attributes(file.word(24)),
        features(file.from(file.word(28), "the features"), num_labels),
        label_table(file.from(file.word(32), "the table of labels"), num_labels, "label"),
        attribute_table(file.from(file.word(36), "the table of attributes"), num_attributes, "attribute"),
        steps(file, file.word(40), "LFRF", "the transitions", num_labels, 1),
        lists(file, file.word(44), "AFRF", "the attributes", num_attributes, 0),
        labels(read_strings(label_table, num_labels)) {
    steps.read_all(features, num_labels, [](uint64_t) {},
                   [&](uint32_t from, const Feature& f) { transitions.push_back({from, f.label, f.weight}); });
  }
};

namespace {

Bytes checked_file(const uint8_t* data, uint64_t size) {
  const Bytes file(data, size, "the file");
  file.need_name("lCRF");
  file.need(0, header_bytes, "its header");
  if (file.word(4) != size) file.refuse("has " + text(size) + " bytes, and its header says " + text(file.word(4)));
  if (std::memcmp(data + 8, "FOMC", 4) != 0) file.refuse("is not of the type 'FOMC'");
  if (file.word(12) != version) file.refuse("has version " + text(file.word(12)) + ", and only 100 is known");
  const uint32_t labels = file.word(20);
  if (labels > most_labels) file.refuse("has " + text(labels) + " labels, and at most " + text(most_labels) + " are possible");
  return file;
}

}  // namespace

OpenModel::OpenModel(const uint8_t* data, uint64_t size)
    : chunks_(std::make_unique<const Chunks>(checked_file(data, size))) {}
OpenModel::~OpenModel() = default;

const Strings& OpenModel::labels() const { return chunks_->labels; }
const std::vector<Transition>& OpenModel::transitions() const { return chunks_->transitions; }

void OpenModel::find(const std::string_view* names, size_t count, int64_t* numbers) const {
  constexpr size_t most = 32;
  uint32_t hashes[most];
  const StringTable& table = chunks_->attribute_table;
  for (size_t first = 0; first < count; first += most, names += most, numbers += most) {
    const size_t these = std::min(most, count - first);
    for (size_t i = 0; i < these; ++i) table.fetch_slot(hashes[i] = hash_with_nul(names[i]));
    for (size_t i = 0; i < these; ++i) table.fetch_record(hashes[i]);
    for (size_t i = 0; i < these; ++i) {
      numbers[i] = table.find(names[i], hashes[i]);
      if (numbers[i] >= int64_t(chunks_->num_attributes))
        throw FormatError("the table of attributes: has attribute " + text(uint64_t(numbers[i])) + " of " +
                          text(chunks_->num_attributes));
    }
  }
}

void OpenModel::fetch(uint32_t attribute, int step) const { chunks_->lists.fetch(attribute, chunks_->features, step); }

void OpenModel::add_weights(uint32_t attribute, double value, double* scores) const {
  chunks_->lists.read(attribute, chunks_->features, [](uint64_t) {},
                      [&](const Feature& f) { scores[f.label] += value * f.weight; });
}

Model read_model(const uint8_t* data, uint64_t size) {
  const OpenModel::Chunks chunks(checked_file(data, size));
  chunks.label_table.check_slots();
  chunks.attribute_table.check_slots();
  Model model{chunks.labels, read_strings(chunks.attribute_table, chunks.num_attributes), {}, {}, {}, chunks.transitions};
  model.pair_counts.reserve(chunks.num_attributes);
  model.pair_labels.reserve(chunks.features.count());
  model.pair_weights.reserve(chunks.features.count());
  chunks.lists.read_all(
      chunks.features, chunks.num_labels, [&](uint64_t count) { model.pair_counts.push_back(uint32_t(count)); },
      [&](uint32_t, const Feature& f) {
        model.pair_labels.push_back(uint16_t(f.label));
        model.pair_weights.push_back(f.weight);
      });
  return model;
}

}  // namespace trellis::crfsuite

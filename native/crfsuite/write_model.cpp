#include "crfsuite/model_file.h"
#include "crfsuite/string_table.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace trellis::crfsuite {
namespace {

class Output {
 public:
  explicit Output(uint64_t size) { bytes.reserve(size); }

  uint32_t position() const { return uint32_t(bytes.size()); }
  void word(uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(uint8_t(value >> shift));
  }
  void number(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    word(uint32_t(bits));
    word(uint32_t(bits >> 32));
  }
  void name(const char* four) { bytes.insert(bytes.end(), four, four + 4); }
  void zeros(uint64_t count) { bytes.resize(bytes.size() + count); }
  // Changes a word that was written before.
  void put(uint64_t at, uint32_t value) {
    for (int i = 0; i < 4; ++i) bytes[at + uint64_t(i)] = uint8_t(value >> 8 * i);
  }

  std::vector<uint8_t> bytes;
};

struct Slot {
  uint32_t hash, record;
};

void write_strings(Output& out, const Strings& strings) {
  const uint32_t begin = out.position(), count = uint32_t(strings.lengths.size());
  out.name("CQDB");
  for (const uint32_t word : {0u, 0u, byte_order, count, 0u}) out.word(word);
  out.zeros(8 * tables);
  std::vector<std::vector<Slot>> by_table(tables);
  std::vector<uint32_t> records(count);
  const uint8_t* string = strings.bytes.data();
  for (uint32_t id = 0; id < count; string += strings.lengths[id++]) {
    const uint32_t length = strings.lengths[id];
    if (length && std::memchr(string, 0, length)) throw FormatError("a name with a NUL cannot be written");
    records[id] = out.position() - begin;
    out.word(id);
    out.word(length + 1);
    out.bytes.insert(out.bytes.end(), string, string + length);
    out.bytes.push_back(0);
    const uint32_t hash = hash_with_nul({reinterpret_cast<const char*>(string), length});
    by_table[hash % tables].push_back({hash, records[id]});
  }
  std::vector<Slot> slots;
  for (uint64_t t = 0; t < tables; ++t) {
    if (by_table[t].empty()) continue;
    slots.assign(2 * by_table[t].size(), Slot{});
    for (const Slot& slot : by_table[t]) {
      uint64_t at = (slot.hash >> 8) % slots.size();
      while (slots[at].record) at = (at + 1) % slots.size();
      slots[at] = slot;
    }
    out.put(begin + table_header_bytes + 8 * t, out.position() - begin);
    out.put(begin + table_header_bytes + 8 * t + 4, uint32_t(slots.size()));
    for (const Slot& slot : slots) out.word(slot.hash), out.word(slot.record);
  }
  if (count) out.put(begin + 20, out.position() - begin);
  for (const uint32_t record : records) out.word(record);
  out.put(begin + 4, out.position() - begin);
}

// A list per source of the features that have it, which are numbered from `next` on; its offset.
uint32_t write_lists(Output& out, const char* chunk, const std::vector<uint32_t>& counts, uint32_t unused, uint32_t next) {
  out.zeros((4 - out.position() % 4) % 4);
  const uint32_t begin = out.position(), lists = uint32_t(counts.size()) + unused;
  out.name(chunk);
  out.word(0);
  out.word(lists);
  out.zeros(4 * uint64_t(lists));
  for (uint64_t source = 0; source < counts.size(); ++source) {
    out.put(begin + chunk_bytes + 4 * source, out.position());
    out.word(counts[source]);
    for (uint32_t i = 0; i < counts[source]; ++i) out.word(next++);
  }
  out.put(begin + 4, out.position() - begin);
  return begin;
}

uint64_t bytes_of(const Strings& strings) {
  // a record, two slots of a hash table and an offset for each string
  return records_begin + strings.bytes.size() + strings.lengths.size() * (9 + 16 + 4);
}

}  // namespace

std::vector<uint8_t> write_model(const Model& model) {
  const uint64_t pairs = model.pair_labels.size(), features = pairs + model.transitions.size();
  const uint64_t labels = model.labels.lengths.size(), attributes = model.attributes.lengths.size();
  const uint64_t size = header_bytes + chunk_bytes + features * (feature_bytes + 4) + bytes_of(model.labels) +
                        bytes_of(model.attributes) + 2 * chunk_bytes + 8 * (labels + attributes + unused_lists);
  if (size > UINT32_MAX)
    throw FormatError("would take " + std::to_string(size) + " bytes, and its offsets of 32 bits allow for 4294967295");

  Output out(size);
  std::array<uint32_t, 5> offsets{};
  out.zeros(header_bytes);
  offsets[0] = out.position();
  out.name("FEAT");
  out.word(uint32_t(chunk_bytes + feature_bytes * features));
  out.word(uint32_t(features));
  const auto write_feature = [&](uint32_t type, uint32_t source, uint32_t label, double weight) {
    for (const uint32_t word : {type, source, label}) out.word(word);
    out.number(weight);
  };
  uint64_t pair = 0;
  for (uint32_t attribute = 0; attribute < attributes; ++attribute)
    for (uint32_t i = 0; i < model.pair_counts[attribute]; ++i, ++pair)
      write_feature(0, attribute, model.pair_labels[pair], model.pair_weights[pair]);
  std::vector<uint32_t> steps(labels);
  for (const Transition& step : model.transitions) {
    write_feature(1, step.from, step.to, step.weight);
    ++steps[step.from];
  }
  offsets[1] = out.position();
  write_strings(out, model.labels);
  offsets[2] = out.position();
  write_strings(out, model.attributes);
  offsets[3] = write_lists(out, "LFRF", steps, unused_lists, uint32_t(pairs));
  offsets[4] = write_lists(out, "AFRF", model.pair_counts, 0, 0);

  std::memcpy(out.bytes.data(), "lCRF", 4);
  std::memcpy(out.bytes.data() + 8, "FOMC", 4);
  out.put(4, out.position());
  out.put(12, version);
  out.put(20, uint32_t(labels));
  out.put(24, uint32_t(attributes));
  for (uint64_t i = 0; i < offsets.size(); ++i) out.put(28 + 4 * i, offsets[i]);
  return std::move(out.bytes);
}

}  // namespace trellis::crfsuite

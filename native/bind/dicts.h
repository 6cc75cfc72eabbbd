// Dicts of features whose values are texts, numbers and bools, as nearly all are. Reading them runs no Python code and
// changes nothing in the memory of Python: while one thread holds the interpreter lock, others may help it.
#pragma once

#include "bind/texts.h"
#include "features/dataset.h"
#include "features/feature_memory.h"

#include <vector>

namespace trellis {

// An entry of a dict, with its key and its value: its name is that of the key, or `key:text` if the value is a text. What it points to is borrowed.
struct DictEntry {
  DictEntry() = default;
  DictEntry(PyObject* key, PyObject* value, size_t place) : key(key), value(value), place(uint16_t(place)) {}

  PyObject *key, *value;
  uint64_t code;   // of a text
  double size;     // 1 for a text
  int32_t number;  // of the key in the memory, or -1
  uint16_t place;  // in its dict, or a multiple of 65536 less
  bool has_text;
};

// The features of some dicts. Those that the memory does not know are in their places, to be settled one after another.
struct DictFeatures {
  struct Fresh {
    size_t at;
    DictEntry entry;
  };
  std::vector<size_t> ends;         // [dicts]
  std::vector<int32_t> attributes;  // [features], those of the fresh ones as far as they have one
  std::vector<double> values;       // [features], or none if all are 1
  std::vector<Fresh> fresh;
};

class DictReader {
 public:
  // With `grow`, what has no attribute is fresh, too.
  DictReader(const FeatureMemory& memory, const IndexView& attributes, bool grow)
      : memory_(memory), attributes_(attributes), grow_(grow) {}

  // Up to the first object that is no such dict.
  void read(PyObject* const* dicts, size_t count, DictFeatures& out);

  // Fills in what an entry with this key, value and place is; false if the value is neither text nor number nor bool.
  bool look(DictEntry& entry);
  // Its attribute in the memory.
  int32_t find(const DictEntry& entry) {
    if (entry.number < 0) return FeatureMemory::unknown;
    const int32_t found = !entry.has_text                            ? memory_.find(entry.number)
                          : entry.code != FeatureMemory::long_text ? memory_.find(entry.number, entry.code)
                                                                     : find_long(entry);
    return found < 0 && grow_ ? FeatureMemory::unknown : found;
  }
  // To be called when Python code has run: objects may have gone, and others have their addresses.
  void forget_objects();

 private:
  struct Guess {
    PyObject* object = nullptr;
    int32_t number = -1;
  };
  // By place the keys of the dict read last, since those of the next one are mostly the same, and by address.
  static constexpr size_t places = 64, addresses = 256;

  bool gather(PyObject* dict);
  Guess& guess_at(PyObject* key) {
    const auto address = reinterpret_cast<uintptr_t>(key);
    return guesses_[places + (address >> 4 ^ address >> 12) % addresses];
  }
  int32_t number_elsewhere(PyObject* key, size_t place);
  int32_t find_long(const DictEntry& entry);
  bool is_fresh(const DictEntry& entry, int32_t& attribute);
  void put(const DictEntry* first, const DictEntry* last, DictFeatures& out);
  int32_t named(const DictEntry& entry);

  const FeatureMemory& memory_;
  const IndexView& attributes_;
  const bool grow_;
  Guess guesses_[places + addresses];
  std::vector<DictEntry> entries_;  // of some dicts
  std::string name_, spare_;
};

}  // namespace trellis

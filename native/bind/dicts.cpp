#include "bind/dicts.h"

#include <algorithm>
#include <cmath>

namespace trellis {
namespace {

// Brings near an object that is read once: its type, and its text, which often lies in the next cache line.
void fetch_object(const PyObject* object) {
  __builtin_prefetch(object, 0, 0);
  __builtin_prefetch(reinterpret_cast<const char*>(object) + 48, 0, 0);
}

// Brings near what PyDict_Next reads of a dict, which itself is near.
void fetch_items([[maybe_unused]] PyObject* dict) {
#if !defined(Py_LIMITED_API)
  if (!PyDict_Check(dict)) return;
  const auto* own = reinterpret_cast<const PyDictObject*>(dict);
  const char* keys = reinterpret_cast<const char*>(own->ma_keys);
  const Py_ssize_t bytes = 64 + 18 * own->ma_used;  // about: 16 for each item and some for the table of places
  for (Py_ssize_t at = 0; at < std::min<Py_ssize_t>(bytes, 1024); at += 64) __builtin_prefetch(keys + at, 0, 0);
#endif
}

}  // namespace

void DictReader::forget_objects() {
  for (Guess& guess : guesses_) guess.object = nullptr;
}

int32_t DictReader::number_elsewhere(PyObject* key, size_t place) {
  Guess &guess = guess_at(key), &here = guesses_[place % places];
  if (guess.object != key) {
    const std::string_view name = read_text(key, spare_);
    const bool same = here.number >= 0 && memory_.name(here.number) == name;  // the same text in another object
    guess.number = same ? here.number : memory_.find_key(name);
    guess.object = guess.number < 0 ? nullptr : key;  // it may get a number later
  }
  here = guess;
  return guess.number;
}

bool DictReader::look(DictEntry& entry) {
  PyObject* value = entry.value;
  entry.has_text = false;
  if (value == Py_True || value == Py_False) {
    entry.size = value == Py_True;
  } else if (is_plain(value)) {
    entry.has_text = true;
    entry.size = 1.0;
    entry.code = FeatureMemory::code_of(plain_text(value));
  } else if (is_text(value)) {
    if (!is_readable(value)) return false;
    entry.has_text = true;
    entry.size = 1.0;
    entry.code = FeatureMemory::code_of(read_text(value, spare_));
  } else if (PyFloat_CheckExact(value)) {
    entry.size = PyFloat_AsDouble(value);
  } else if (PyLong_CheckExact(value)) {
    int overflow = 0;
    entry.size = double(PyLong_AsLongLongAndOverflow(value, &overflow));
    if (overflow) return false;
  } else {
    return false;
  }
  const Guess& guess = guesses_[entry.place % places];
  if (guess.object != entry.key) {
    if (!is_text(entry.key) || !is_readable(entry.key)) return false;
    entry.number = number_elsewhere(entry.key, entry.place);
  } else {
    entry.number = guess.number;
  }
  return std::isfinite(entry.size);
}

int32_t DictReader::find_long(const DictEntry& entry) {
  return memory_.find(entry.number, read_text(entry.value, spare_));
}

int32_t DictReader::named(const DictEntry& entry) {
  name_ = read_text(entry.key, spare_);
  if (entry.has_text) {
    name_ += ':';
    name_ += read_text(entry.value, spare_);
  }
  return int32_t(attributes_.find(name_));
}

// Whether it is new, and then what attribute it has. A feature of value 0 changes no score: with `grow` it gets a number,
// and that is all.
bool DictReader::is_fresh(const DictEntry& entry, int32_t& attribute) {
  if (attribute != FeatureMemory::unknown || (!grow_ && entry.size == 0.0)) return false;
  if (!grow_ || entry.number < 0) attribute = named(entry);
  return true;
}

// Without a branch for features that have no attribute: which ones these are cannot be guessed.
void DictReader::put(const DictEntry* first, const DictEntry* last, DictFeatures& out) {
  size_t at = out.attributes.size();
  out.attributes.resize(at + size_t(last - first));
  for (const DictEntry* entry = first; entry != last; ++entry) {
    int32_t attribute = find(*entry);
    bool kept = (attribute >= 0) & (entry->size != 0.0);
    if (is_fresh(*entry, attribute)) {
      out.fresh.push_back({at, *entry});
      kept = true;
    }
    if (kept & ((entry->size != 1.0) | !out.values.empty())) {
      out.values.resize(at, 1.0);
      out.values.push_back(entry->size);
    }
    out.attributes[at] = attribute;
    at += kept;
  }
  out.attributes.resize(at);
}

bool DictReader::gather(PyObject* dict) {
  if (!PyDict_Check(dict)) return false;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  for (size_t place = 0; PyDict_Next(dict, &position, &key, &value); ++place) {
    const bool is_known = guesses_[place % places].object == key;
    if (is_known && value == Py_False && !grow_) continue;  // nothing comes of it
    if (!is_known) fetch_object(key);
    fetch_object(value);
    entries_.emplace_back(key, value, place);
  }
  return true;
}

// Some dicts at a time: what reading waits for in memory, it waits for together.
void DictReader::read(PyObject* const* dicts, size_t count, DictFeatures& out) {
  constexpr size_t batch = 16;
  size_t ends[batch];
  out.ends.reserve(count);
  out.attributes.reserve(count * batch);
  for (size_t first = 0; first < count; first += batch) {
    entries_.clear();
    const size_t most = std::min(batch, count - first);
    size_t read = 0;
    for (size_t d = first + batch; d < std::min(first + 2 * batch, count); ++d) fetch_items(dicts[d]);
    for (size_t d = first + 2 * batch; d < std::min(first + 3 * batch, count); ++d) __builtin_prefetch(dicts[d], 0, 0);
    for (; read < most && gather(dicts[first + read]); ++read) ends[read] = entries_.size();
    size_t at = 0;
    for (size_t d = 0; d < read; ++d) {
      for (; at < ends[d]; ++at) {
        DictEntry& entry = entries_[at];
        if (!look(entry)) {
          read = d;
          break;
        }
        if (entry.number >= 0 && entry.has_text) memory_.fetch(entry.number, entry.code);
      }
    }
    at = 0;
    for (size_t d = 0; d < read; ++d) {
      put(entries_.data() + at, entries_.data() + ends[d], out);
      at = ends[d];
      out.ends.push_back(out.attributes.size());
    }
    if (read < most) return;
  }
}

}  // namespace trellis

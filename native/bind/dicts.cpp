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

bool DictReader::look(DictEntry& entry, size_t place) {
  PyObject* value = entry.value;
  entry.has_text = false;
  if (value == Py_True || value == Py_False) {
    entry.size = value == Py_True;
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
  if (!std::isfinite(entry.size) || !is_text(entry.key) || !is_readable(entry.key)) return false;
  entry.number = number_of(entry.key, place);
  return true;
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

// A feature of value 0 changes no score: with `grow` it gets a number, and that is all.
void DictReader::put(const DictEntry& entry, DictFeatures& out) {
  int32_t attribute = find(entry);
  if (attribute == FeatureMemory::unknown && (grow_ || entry.size != 0.0)) {
    if (!grow_ || entry.number < 0) attribute = named(entry);
    out.fresh.push_back({out.attributes.size(), entry});
  } else if (attribute < 0 || entry.size == 0.0) {
    return;
  }
  if (entry.size != 1.0 && out.values.empty()) out.values.assign(out.attributes.size(), 1.0);
  if (entry.size != 1.0 || !out.values.empty()) out.values.push_back(entry.size);
  out.attributes.push_back(attribute);
}

bool DictReader::gather(PyObject* dict) {
  if (!PyDict_Check(dict)) return false;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  for (size_t place = 0; PyDict_Next(dict, &position, &key, &value); ++place) {
    if (guesses_[place % places].object != key) fetch_object(key);
    fetch_object(value);
    entries_.emplace_back(key, value);
  }
  return true;
}

// Some dicts at a time: what reading waits for in memory, it waits for together.
void DictReader::read(PyObject* const* dicts, size_t count, DictFeatures& out) {
  constexpr size_t batch = 16;
  size_t ends[batch];
  for (size_t first = 0; first < count; first += batch) {
    entries_.clear();
    const size_t most = std::min(batch, count - first);
    size_t read = 0;
    for (size_t d = first + batch; d < std::min(first + 2 * batch, count); ++d) fetch_items(dicts[d]);
    for (size_t d = first + 2 * batch; d < std::min(first + 3 * batch, count); ++d) __builtin_prefetch(dicts[d], 0, 0);
    for (; read < most && gather(dicts[first + read]); ++read) ends[read] = entries_.size();
    size_t at = 0;
    for (size_t d = 0; d < read; ++d) {
      for (const size_t begin = at; at < ends[d]; ++at) {
        DictEntry& entry = entries_[at];
        if (!look(entry, at - begin)) {
          read = d;
          break;
        }
        if (entry.number >= 0 && entry.has_text) memory_.fetch(entry.number, entry.code);
      }
    }
    at = 0;
    for (size_t d = 0; d < read; ++d) {
      for (; at < ends[d]; ++at) put(entries_[at], out);
      out.ends.push_back(out.attributes.size());
    }
    if (read < most) return;
  }
}

}  // namespace trellis

#include "bind/reading.h"

#include "bind/python.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace trellis::bind {
namespace {

// Dicts in dicts: more than this is a mistake, a dict that holds itself among them.
constexpr int kDeepest = 100;
constexpr size_t kLongestShown = 120;

std::string quoted(const std::string& name) {
  return name.size() <= kLongestShown ? "'" + name + "'" : "'" + name.substr(0, kLongestShown) + "...'";
}

// An entry of a dict whose value is a text, a number or a bool, as nearly all are. Its name is that of the key, or
// `key:text` if the value is a text. What it points to is borrowed: to read it runs no Python code.
struct DictEntry {
  PyObject *key, *value;
  uint64_t code;   // of a text: what it is searched by
  double size;     // 1 for a text
  int32_t number;  // of the key in the memory, or -1
  uint16_t place;  // in its dict, or a multiple of 65536 less
  bool has_text;
};

// The numbers of keys met last: by place the keys of the dict read last, since those of the next one are mostly the same,
// and by address.
class KeyGuesses {
 public:
  struct Guess {
    PyObject* object = nullptr;
    int32_t number = -1;
  };
  Guess& at_place(size_t place) { return guesses_[place % places]; }
  Guess& at_address(PyObject* key) {
    empty_ = false;
    const auto address = reinterpret_cast<uintptr_t>(key);
    return guesses_[places + (address >> 4 ^ address >> 12) % addresses];
  }
  // To be called when Python code has run: objects may have gone, and others have their addresses.
  void forget() {
    for (Guess& guess : guesses_) guess.object = nullptr;
    empty_ = true;
  }
  bool empty() const { return empty_; }

 private:
  static constexpr size_t places = 64, addresses = 256;
  Guess guesses_[places + addresses];
  bool empty_ = true;
};

class FeatureReader {
 public:
  FeatureReader(Dataset& data, AttributeIndex& attributes, bool grow)
      : data_(data), attributes_(attributes.key_index()), source_(attributes.source()), memory_(attributes.memory()), grow_(grow),
        extend_(grow && attributes.grows()) {
    if (attributes.templates()) throw nb::value_error("given features need attributes by name, and these are templates'");
    ++memory_.users;
  }
  ~FeatureReader() { --memory_.users; }
  FeatureReader(const FeatureReader&) = delete;
  FeatureReader& operator=(const FeatureReader&) = delete;

  void token(PyObject* item, const Place& place) {
    place_ = place;
    name_.clear();
    holder(item, "the features of a token");
    look_up_pending();
    data_.bundle_ends.push_back(int64_t(data_.attributes.size()));
  }

  // How many of these tokens were read, up to the first one that is no dict of texts, numbers and bools. Some dicts at a
  // time: what reading waits for in memory, it waits for together.
  size_t plain_tokens(PyObject* const* tokens, size_t count) {
    constexpr size_t batch = 16;
    size_t ends[batch];
    for (size_t first = 0; first < count; first += batch) {
      const size_t most = std::min(batch, count - first);
      for (size_t d = first + batch; d < std::min(first + 2 * batch, count); ++d) fetch_object(tokens[d]);
      entries_.clear();
      size_t read = 0;
      for (; read < most && gather(tokens[first + read]); ++read) ends[read] = entries_.size();
      size_t at = 0;
      for (size_t d = 0; d < read; ++d) {
        for (; at < ends[d] && look(entries_[at]); ++at)
          if (entries_[at].has_text && entries_[at].number >= 0) memory_.fetch(entries_[at].number, entries_[at].code);
        if (at < ends[d]) read = d;
      }
      at = 0;
      for (size_t d = 0; d < read; at = ends[d++]) {
        put_entries(entries_.data() + at, entries_.data() + ends[d]);
        data_.bundle_ends.push_back(int64_t(data_.attributes.size()));
      }
      if (read < most) return first + read;
    }
    return count;
  }

 private:
  bool gather(PyObject* dict) {
    if (!PyDict_CheckExact(dict) && !PyDict_Check(dict)) return false;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    for (size_t place = 0; PyDict_Next(dict, &position, &key, &value); ++place) {
      const bool is_known = guesses_.at_place(place).object == key;
      if (is_known && value == Py_False && !grow_) continue;  // nothing comes of it
      if (!is_known) fetch_object(key);
      fetch_object(value);
      entries_.push_back({key, value, 0, 0.0, -1, uint16_t(place), false});
    }
    return true;
  }

  // Fills in what an entry with this key, value and place is; false if the value is neither text nor number nor bool.
  bool look(DictEntry& entry) {
    PyObject* value = entry.value;
    entry.has_text = false;
    if (value == Py_True || value == Py_False) {
      entry.size = value == Py_True;
    } else if (is_text(value)) {
      entry.has_text = true;
      entry.size = 1.0;
      entry.code = DictMemory::Index::key_of(text_of(value, spare_));
    } else if (PyFloat_CheckExact(value)) {
      entry.size = PyFloat_AsDouble(value);
    } else if (PyLong_CheckExact(value)) {
      int overflow = 0;
      entry.size = double(PyLong_AsLongLongAndOverflow(value, &overflow));
      if (overflow) return false;
    } else {
      return false;
    }
    const KeyGuesses::Guess& guess = guesses_.at_place(entry.place);
    if (guess.object != entry.key) {
      if (!is_text(entry.key)) return false;
      entry.number = number_elsewhere(entry.key, entry.place);
    } else {
      entry.number = guess.number;
    }
    return std::isfinite(entry.size);
  }

  int32_t number_elsewhere(PyObject* key, size_t place) {
    KeyGuesses::Guess &guess = guesses_.at_address(key), &here = guesses_.at_place(place);
    if (guess.object != key) {
      const std::string_view name = text_of(key, spare_);
      const bool same = here.number >= 0 && memory_.name(here.number) == name;  // the same text in another object
      guess.number = same ? here.number : memory_.find_key(name);
      guess.object = guess.number < 0 ? nullptr : key;  // it may get a number later
    }
    here = guess;
    return guess.number;
  }

  // Its attribute in the memory.
  int32_t find(const DictEntry& entry) {
    if (entry.number < 0) return DictMemory::unknown;
    const int32_t found =
        !entry.has_text                              ? memory_.find(entry.number)
        : DictMemory::Index::is_short(entry.code) ? memory_.find(entry.number, {}, entry.code)
                                                     : memory_.find(entry.number, text_of(entry.value, spare_), entry.code);
    return found < 0 && grow_ ? DictMemory::unknown : found;
  }

  // Without a branch for features that have no attribute: which ones these are cannot be guessed. A feature of value 0
  // changes no score: with `grow_` it gets a number, and that is all.
  void put_entries(const DictEntry* first, const DictEntry* last) {
    size_t at = data_.attributes.size();
    data_.attributes.resize(at + size_t(last - first));
    for (const DictEntry* entry = first; entry != last; ++entry) {
      const int32_t attribute = grow_ || entry->size != 0.0 ? attribute_of(*entry) : -1;
      const bool kept = (attribute >= 0) & (entry->size != 0.0);
      if (kept & (weighted_ | (entry->size != 1.0))) weigh(at, entry->size);
      data_.attributes[at] = attribute;
      at += kept;
    }
    data_.attributes.resize(at);
  }

  void holder(PyObject* item, const char* what) {
    if (depth_ == kDeepest)
      refuse(place_, "features are nested more than " + std::to_string(kDeepest) + " deep, at " + quoted(name_));
    ++depth_;
    if (PyDict_Check(item)) {
      entries(item);
    } else if (PyList_Check(item) || PyTuple_Check(item) || PyAnySet_Check(item) || PyDictKeys_Check(item)) {
      strings(item);
    } else {
      refuse(place_, std::string(what) + " must be a dict, list or set, got " + type_name(item));
    }
    --depth_;
  }

  void entries(PyObject* dict) {
    PyObject *found_key, *found_value;
    Py_ssize_t position = 0;
    for (size_t place = 0; PyDict_Next(dict, &position, &found_key, &found_value); ++place) {
      DictEntry entry{found_key, found_value, 0, 0.0, -1, uint16_t(place), false};
      if (depth_ == 1 && look(entry)) {
        put(attribute_of(entry), entry.size);
        continue;
      }
      const nb::object key = nb::borrow(entry.key), value = nb::borrow(entry.value);
      any_entry(key.ptr(), value.ptr());
    }
  }

  int32_t attribute_of(const DictEntry& entry) {
    int32_t attribute = find(entry);
    if (attribute == DictMemory::unknown) {
      attribute = named(entry.key, entry.has_text ? entry.value : nullptr);
      remember(entry, attribute);
    }
    return attribute;
  }

  void remember(const DictEntry& entry, int32_t attribute) {
    const int32_t number = entry.number >= 0 ? entry.number : memory_.add_key(text_of(entry.key, spare_));
    if (grow_) note_kind(attribute, number);
    if (number < 0) return;
    entry.has_text ? memory_.put(number, text_of(entry.value, spare_), attribute) : memory_.put(number, attribute);
  }

  void note_kind(int32_t attribute, int32_t key) {
    if (size_t(attribute) >= data_.kinds.size()) data_.kinds.resize(size_t(attribute) + 1, -1);
    data_.kinds[size_t(attribute)] = int16_t(key);
  }

  // The attribute of a key, with a text if there is one.
  int32_t named(PyObject* key, PyObject* text) {
    name_ = text_of(key, spare_);
    if (text) {
      name_ += ':';
      name_ += text_of(text, spare_);
    }
    const int32_t number = number_of_name();
    name_.clear();
    return number;
  }

  // Puts the names of a list, which lie elsewhere, up to the first that is not a plain string; how many these were.
  Py_ssize_t names(PyObject* list) {
    constexpr size_t most = most_pending;
    std::string_view texts[most];
    int64_t numbers[most];
    Py_ssize_t done = 0, length = 0;
    const Py_ssize_t size = NB_LIST_GET_SIZE(list);
    for (size_t count = most; count == most; done += Py_ssize_t(count)) {
      for (count = 0; count < most && done + Py_ssize_t(count) < size; ++count) {
        PyObject* name = NB_LIST_GET_ITEM(list, done + Py_ssize_t(count));
        const char* text = PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8AndSize(name, &length) : nullptr;
        if (!text) break;
        texts[count] = {text, size_t(length)};
      }
      PyErr_Clear();
      source_->find(texts, count, numbers);
      for (size_t i = 0; i < count; ++i) put(int32_t(numbers[i]), 1.0);
    }
    return done;
  }

  void strings(PyObject* collection) {
    if (source_ && name_.empty() && PyList_CheckExact(collection)) {
      const size_t before = data_.attributes.size();
      if (names(collection) == NB_LIST_GET_SIZE(collection)) return;
      data_.attributes.resize(before);
      data_.values.resize(std::min(data_.values.size(), before));
    }
    const nb::object iterator = nb::steal(PyObject_GetIter(collection));
    if (!iterator.is_valid()) throw nb::python_error();
    while (PyObject* next = PyIter_Next(iterator.ptr())) {
      const nb::object element = nb::steal(next);
      if (!is_text(next)) refuse(place_, "a feature in a list must be a string, got " + type_name(next));
      with(next, [&] { add(1.0); });
    }
    if (PyErr_Occurred()) throw nb::python_error();
    if (!guesses_.empty()) guesses_.forget();  // Python code may have made the strings
  }

  void any_entry(PyObject* key, PyObject* value) {
    if (!is_text(key)) refuse(place_, "a feature's name must be a string, got " + type_name(key));
    with(key, [&] {
      if (PyFloat_Check(value) || PyLong_Check(value)) {  // bool too
        add(number(value));
      } else if (is_text(value)) {
        name_ += ':';
        with(value, [&] { add(1.0); });
      } else if (PyDict_Check(value) || PyList_Check(value) || PyAnySet_Check(value)) {
        name_ += ':';
        holder(value, "");
      } else {
        add(number(value));
      }
    });
  }

  // Runs f with the text appended to the name.
  template <typename F>
  void with(PyObject* text, F f) {
    const size_t before = name_.size();
    name_ += text_of(text, spare_);
    f();
    name_.resize(before);
  }

  double number(PyObject* value) {
    const double result = PyNumber_Check(value) ? PyFloat_AsDouble(value) : 0.0;
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value) && !PyBool_Check(value)) guesses_.forget();
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) {
      PyErr_Clear();
      refuse(place_, "feature " + quoted(name_) + " is too large: values must be finite");
    }
    if (!PyNumber_Check(value) || PyErr_Occurred()) {
      pass_on_others();
      refuse(place_, "feature " + quoted(name_) + " must be a string, a number or a bool, got " + type_name(value));
    }
    if (!std::isfinite(result))
      refuse(place_, "feature " + quoted(name_) + " is " + std::to_string(result) + ": values must be finite");
    return result;
  }

  int32_t number_of_name() {
    if (source_) {
      const std::string_view name = name_;
      int64_t number;
      source_->find(&name, 1, &number);
      return int32_t(number);
    }
    return extend_ ? int32_t(attributes_.add(name_).number) : int32_t(attributes_.number(name_));
  }
  void add(double value) {
    if (!source_) return put(number_of_name(), value);
    pending_ += name_;
    pending_values_.push_back({pending_.size(), value});
    if (pending_values_.size() == most_pending) look_up_pending();
  }
  // Features of this token whose names are looked up together.
  void look_up_pending() {
    if (pending_values_.empty()) return;
    std::string_view names[most_pending];
    int64_t numbers[most_pending];
    size_t begin = 0, count = 0;
    for (const auto& [end, value] : pending_values_) {
      names[count++] = std::string_view(pending_).substr(begin, end - begin);
      begin = end;
    }
    source_->find(names, count, numbers);
    for (size_t i = 0; i < count; ++i) put(int32_t(numbers[i]), pending_values_[i].second);
    pending_.clear(), pending_values_.clear();
  }

  // A feature of value 0 changes no score: it has a number, and that is all.
  void put(int32_t attribute, double value) {
    if (attribute < 0 || value == 0.0) return;
    if (weighted_ || value != 1.0) weigh(data_.attributes.size(), value);
    data_.attributes.push_back(attribute);
  }
  // The value of the next feature, before which there are `count`.
  void weigh(size_t count, double value) {
    data_.values.resize(count, 1.0);
    data_.values.push_back(value);
    weighted_ = true;
  }

  Dataset& data_;
  StringIndex<>& attributes_;
  const AttributeIndex::Source* source_;
  DictMemory& memory_;
  bool grow_, extend_;
  KeyGuesses guesses_;
  std::vector<DictEntry> entries_;  // of some dicts
  std::string name_, spare_;
  static constexpr size_t most_pending = 32;
  std::string pending_;  // names, one after another
  std::vector<std::pair<size_t, double>> pending_values_;  // where they end
  Place place_{};
  int depth_ = 0;
  bool weighted_ = false;
};

}  // namespace

// Lists of tokens are read several at a time, up to a sentence that is neither list nor tuple, which it takes Python code
// to read. Once a token is no plain dict, all are read one by one.
Dataset read_features(nb::handle sentences, AttributeIndex& attributes, bool grow) {
  constexpr size_t most = 1024;  // tokens at a time
  Dataset data;
  FeatureReader reader(data, attributes, grow);
  const Items outer = items_of(sentences.ptr(), "sentences must be a sequence");
  std::vector<Items> block;
  std::vector<PyObject*> tokens;
  bool plain = true;
  for (Py_ssize_t b = 0; b < outer.size();) {
    block.clear(), tokens.clear();
    for (Py_ssize_t next = b; plain && next < outer.size() && tokens.size() < most; ++next) {
      if (!PyList_Check(outer[next]) && !PyTuple_Check(outer[next])) break;
      const Items& inner = block.emplace_back(outer[next]);
      for (Py_ssize_t t = 0; t < inner.size(); ++t) tokens.push_back(inner[t]);
    }
    const bool alone = block.empty();
    if (alone) {
      const std::string otherwise = "sentence " + std::to_string(b) + " must be a sequence with features for each token";
      block.push_back(items_of(outer.owned(b).ptr(), otherwise));
    }
    size_t taken = reader.plain_tokens(tokens.data(), tokens.size());
    bool changed = false;  // what the sentences are, perhaps, by Python code
    for (size_t s = 0; s < block.size() && !changed; ++s, ++b) {
      const Items& inner = block[s];
      Py_ssize_t t = Py_ssize_t(std::min(taken, size_t(inner.size())));
      taken -= size_t(t);
      changed = t < inner.size();
      for (; t < inner.size(); ++t) reader.token(inner.owned(t).ptr(), {b, t});
      data.offsets.push_back(data.offsets.back() + int64_t(t));
    }
    plain &= alone || !changed;
  }
  return data;
}

namespace {

constexpr Py_ssize_t sentences_ahead = 8, strings_ahead = 24;

std::string named(Py_ssize_t sentence) { return "sentence " + std::to_string(sentence); }

// Its items; names are made only for messages.
Items sentence_of(PyObject* sentence, Py_ssize_t number) {
  if (is_text(sentence)) refuse(named(number) + " must be a sequence of strings, got one string");
  if (PyList_Check(sentence) || PyTuple_Check(sentence)) return Items(sentence);
  return items_of(sentence, named(number) + " must be a sequence of strings");
}

// take(cell) for each string of a column. Fills offsets if they are empty; if they are not, the lengths must agree with
// them.
template <typename Take>
void for_cells(nb::handle sentences, const char* what, std::vector<int64_t>& offsets, Take take) {
  const Items outer = items_of(sentences.ptr(), "sentences must be a sequence");
  const bool first = offsets.empty();
  if (first) offsets.push_back(0);
  int64_t tokens = 0;
  for (Py_ssize_t b = 0; b < outer.size(); ++b) {
    if (b + sentences_ahead < outer.size()) fetch_object(outer[b + sentences_ahead]);
    const nb::object sentence = outer.owned(b);
    const Items inner = sentence_of(sentence.ptr(), b);
    const Py_ssize_t length = inner.size();
    for (Py_ssize_t t = 0; t < length; ++t) {
      if (t + strings_ahead < length) fetch_object(inner[t + strings_ahead]);
      PyObject* cell = inner[t];
      if (!PyUnicode_Check(cell))
        refuse({b, t}, std::string(what) + " must be a string, got " + type_name(cell));
      take(cell);
    }
    tokens += length;
    if (first) {
      offsets.push_back(tokens);
    } else if (offsets[size_t(b) + 1] != tokens) {
      const int64_t expected = offsets[size_t(b) + 1] - offsets[size_t(b)];
      refuse(named(b) + " has " + std::to_string(expected) + " tokens and " + std::to_string(length) + " values of " + what);
    }
  }
}

// A string of one character is not asked for its UTF-8, of which it would keep a copy.
template <typename To>
void add_cell(PyObject* cell, std::string& spare, To& to) {
  const int64_t code = one_character(cell);
  code < 0 ? to.add(text_of(cell, spare)) : to.add_character(uint32_t(code));
}

}  // namespace

void read_column(nb::handle sentences, const char* what, std::vector<int64_t>& offsets, Column& column) {
  std::string spare;
  for_cells(sentences, what, offsets, [&](PyObject* cell) { add_cell(cell, spare, column); });
}

void copy_column(nb::handle sentences, const char* what, std::vector<int64_t>& offsets, TokenBuffer& tokens) {
  std::string spare;
  for_cells(sentences, what, offsets, [&](PyObject* cell) { add_cell(cell, spare, tokens); });
}

}  // namespace trellis::bind

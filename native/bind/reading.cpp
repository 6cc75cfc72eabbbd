#include "bind/reading.h"

#include "base/threads.h"
#include "bind/dicts.h"
#include "bind/refusing.h"

#include <cmath>
#include <string>

namespace nb = nanobind;

namespace trellis {
namespace {

// Dicts in dicts: more than this is a mistake, a dict that holds itself among them.
constexpr int kDeepest = 100;
constexpr size_t kLongestShown = 120;

std::string quoted(const std::string& name) {
  return name.size() <= kLongestShown ? "'" + name + "'" : "'" + name.substr(0, kLongestShown) + "...'";
}

class FeatureReader {
 public:
  FeatureReader(Dataset& data, Attributes& attributes, bool grow)
      : data_(data), attributes_(attributes.source(grow)), memory_(attributes.remembered()), grow_(grow),
        dicts_(dict_reader()) {
    ++memory_.users;
  }
  ~FeatureReader() { --memory_.users; }
  FeatureReader(const FeatureReader&) = delete;
  FeatureReader& operator=(const FeatureReader&) = delete;

  void token(PyObject* item, const Place& place) {
    place_ = place;
    name_.clear();
    holder(item, "the features of a token");
    data_.bundle_ends.push_back(int64_t(data_.attributes.size()));
  }
  bool knows_much() const { return memory_.short_texts() >= 1024; }
  // For a thread that helps, while nothing else is done here.
  DictReader dict_reader() const { return DictReader(memory_, attributes_.view(), grow_); }
  // Room for so many more, at least half as much again as there is now: it may be asked for often.
  void reserve(size_t features) {
    const size_t wanted = data_.attributes.size() + features;
    if (wanted > data_.attributes.capacity())
      data_.attributes.reserve(std::max(wanted, data_.attributes.size() + data_.attributes.size() / 2));
  }
  // The features of dicts that were read so.
  void take(DictFeatures& read) {
    bool all_known = true;
    for (const DictFeatures::Fresh& fresh : read.fresh) {
      int32_t& attribute = read.attributes[fresh.at];
      if (attribute >= 0 || !grow_) {
        remember(fresh.entry, attribute);
      } else {
        attribute = attribute_of(fresh.entry);  // one before it may have been the same
      }
      all_known &= attribute >= 0;
    }
    if (all_known && read.values.empty() && !weighted_) return append(read);
    size_t at = 0;
    for (const size_t end : read.ends) {
      for (; at < end; ++at) put(read.attributes[at], read.values.empty() ? 1.0 : read.values[at]);
      data_.bundle_ends.push_back(int64_t(data_.attributes.size()));
    }
  }

 private:
  void holder(PyObject* item, const char* what) {
    if (depth_ == kDeepest)
      refuse(place_, "features are nested more than " + std::to_string(kDeepest) + " deep, at " + quoted(name_));
    ++depth_;
    if (PyDict_Check(item)) {
      entries(item);
    } else if (PyList_Check(item) || PyTuple_Check(item) || PyAnySet_Check(item)) {
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
      DictEntry entry(found_key, found_value, place);
      if (depth_ == 1 && dicts_.look(entry)) {
        put(attribute_of(entry), entry.size);
        continue;
      }
      const nb::object key = nb::borrow(entry.key), value = nb::borrow(entry.value);
      any_entry(key.ptr(), value.ptr());
      dicts_.forget_objects();
    }
  }

  void append(const DictFeatures& read) {
    const int64_t before = int64_t(data_.attributes.size());
    data_.attributes.insert(data_.attributes.end(), read.attributes.begin(), read.attributes.end());
    for (const size_t end : read.ends) data_.bundle_ends.push_back(before + int64_t(end));
  }

  int32_t attribute_of(const DictEntry& entry) {
    int32_t attribute = dicts_.find(entry);
    if (attribute == FeatureMemory::unknown) {
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
    const int64_t number = attributes_.number(name_);
    name_.clear();
    return int32_t(number);
  }

  void strings(PyObject* collection) {
    const nb::object iterator = nb::steal(PyObject_GetIter(collection));
    if (!iterator.is_valid()) throw nb::python_error();
    while (PyObject* next = PyIter_Next(iterator.ptr())) {
      const nb::object element = nb::steal(next);
      if (!is_text(next)) refuse(place_, "a feature in a list must be a string, got " + type_name(next));
      with(next, [&] { add(1.0); });
    }
    if (PyErr_Occurred()) throw nb::python_error();
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

  void add(double value) { put(int32_t(attributes_.number(name_)), value); }

  // A feature of value 0 changes no score: it has a number, and that is all.
  void put(int32_t attribute, double value) {
    if (attribute < 0 || value == 0.0) return;
    if (value != 1.0 && data_.values.empty()) data_.values.assign(data_.attributes.size(), 1.0), weighted_ = true;
    data_.attributes.push_back(attribute);
    if (weighted_) data_.values.push_back(value);
  }

  Dataset& data_;
  AttributeSource attributes_;
  FeatureMemory& memory_;
  bool grow_;
  DictReader dicts_;
  std::string name_, spare_;
  Place place_{};
  int depth_ = 0;
  bool weighted_ = false;
};

// Sentences whose tokens threads read together, as long as they are dicts: this one holds the interpreter lock for all.
struct Block {
  std::vector<Items> sentences;
  std::vector<PyObject*> tokens;  // of all of them

  Block() = default;
  // From sentence b on, up to one that is neither list nor tuple, which it takes Python code to read.
  Block(const Items& outer, Py_ssize_t b, size_t most) {
    for (; b < outer.size() && tokens.size() < most && (PyList_Check(outer[b]) || PyTuple_Check(outer[b])); ++b) {
      fetch_sentences(outer, b);
      const Items& inner = sentences.emplace_back(outer[b]);
      for (Py_ssize_t t = 0; t < inner.size(); ++t) tokens.push_back(inner[t]);
    }
  }
  // How many tokens were read, up to the first one that has to be read in another way.
  size_t read(FeatureReader& reader) const {
    constexpr size_t part = 256;
    std::vector<DictFeatures> parts((tokens.size() + part - 1) / part);
    run_tasks(int64_t(parts.size()), threads_read ? num_threads() : 1, [&](int64_t i) {
      const size_t first = size_t(i) * part;
      reader.dict_reader().read(tokens.data() + first, std::min(part, tokens.size() - first), parts[size_t(i)]);
    });
    size_t taken = 0, features = 0;
    for (const DictFeatures& read : parts) features += read.attributes.size();
    reader.reserve(features);
    for (size_t i = 0; i < parts.size() && taken == i * part; ++i) {
      reader.take(parts[i]);
      taken += parts[i].ends.size();
    }
    return taken;
  }
};

}  // namespace

Dataset read_features(nb::handle sentences, Attributes& attributes, bool grow) {
  Dataset data;
  FeatureReader reader(data, attributes, grow);
  const Items outer = items_of(sentences.ptr(), "sentences must be a sequence");
  const auto read_rest = [&](const Items& inner, Py_ssize_t b, Py_ssize_t t) {
    for (; t < inner.size(); ++t) reader.token(inner.owned(t).ptr(), {b, t});
    data.offsets.push_back(data.bundles());
  };
  // Tokens of a block; what the first ones have in common is remembered before the others are read.
  constexpr size_t largest = 32768;
  size_t most = reader.knows_much() ? largest : 64;
  bool plain = true;
  for (Py_ssize_t b = 0; b < outer.size();) {
    Block block;
    if (plain) block = Block(outer, b, most);
    if (block.sentences.empty()) {
      const std::string otherwise = "sentence " + std::to_string(b) + " must be a sequence with features for each token";
      read_rest(items_of(outer.owned(b).ptr(), otherwise), b, 0);
      ++b;
      continue;
    }
    size_t taken = block.read(reader);
    for (size_t s = 0; s < block.sentences.size() && plain; ++s, ++b) {
      const size_t length = size_t(block.sentences[s].size());
      plain = taken >= length;
      if (plain) {
        taken -= length;
        data.offsets.push_back(data.offsets.back() + int64_t(length));
      } else {
        read_rest(block.sentences[s], b, Py_ssize_t(taken));
      }
    }
    most = std::min(2 * most, largest);
  }
  return data;
}

}  // namespace trellis

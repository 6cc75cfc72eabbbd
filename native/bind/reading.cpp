#include "bind/reading.h"

#include "bind/items.h"

#include <cmath>
#include <limits>
#include <string>

namespace nb = nanobind;

namespace trellis {
namespace {

// Dicts in dicts: more than this is a mistake, a dict that holds itself among them.
constexpr int kDeepest = 100;
constexpr size_t kLongestShown = 120;

struct Place {
  int64_t sentence, position;
};

// Feature names may be any bytes, which PyErr_SetString would not take.
[[noreturn]] void refuse(const std::string& problem) {
  const nb::object message =
      nb::steal(PyUnicode_DecodeUTF8(problem.data(), Py_ssize_t(problem.size()), "backslashreplace"));
  if (message.is_valid()) PyErr_SetObject(PyExc_ValueError, message.ptr());
  throw nb::python_error();
}

[[noreturn]] void refuse(const Place& place, const std::string& problem) {
  const std::string where = "sentence " + std::to_string(place.sentence) + ", position " + std::to_string(place.position);
  refuse(where + ": " + problem);
}

// The error that the caller's Python code raised, unless it says that an object is not what it should be.
void pass_on_others() {
  if (!PyErr_Occurred()) return;
  for (PyObject* kind : {PyExc_TypeError, PyExc_ValueError, PyExc_OverflowError}) {
    if (PyErr_ExceptionMatches(kind)) return PyErr_Clear();
  }
  throw nb::python_error();
}

std::string type_name(PyObject* object) {
  const nb::object name = nb::steal(PyType_GetName(Py_TYPE(object)));
  if (!name.is_valid()) throw nb::python_error();
  return nb::borrow<nb::str>(name).c_str();
}

std::string quoted(const std::string& name) {
  return name.size() <= kLongestShown ? "'" + name + "'" : "'" + name.substr(0, kLongestShown) + "...'";
}

bool is_text(PyObject* object) { return PyUnicode_Check(object) || PyBytes_Check(object); }

std::string_view bytes_of(PyObject* bytes) { return {PyBytes_AsString(bytes), size_t(PyBytes_Size(bytes))}; }

// The bytes of a str (lone surrogates pass) or bytes object; `spare` holds them if the object does not.
std::string_view text_of(PyObject* object, std::string& spare) {
  if (PyBytes_Check(object)) return bytes_of(object);
#if !defined(Py_LIMITED_API)
  if (PyUnicode_IS_COMPACT_ASCII(object))
    return {static_cast<const char*>(PyUnicode_DATA(object)), size_t(PyUnicode_GET_LENGTH(object))};
#endif
  Py_ssize_t size = 0;
  if (const char* text = PyUnicode_AsUTF8AndSize(object, &size)) return {text, size_t(size)};
  PyErr_Clear();
  const nb::object encoded = nb::steal(PyUnicode_AsEncodedString(object, "utf-8", "surrogatepass"));
  if (!encoded.is_valid()) throw nb::python_error();
  return spare = bytes_of(encoded.ptr());
}

Items items_of(PyObject* object, const std::string& otherwise) {
  Items items(object);
  if (items.is_valid()) return items;
  pass_on_others();
  refuse(otherwise + ", got " + type_name(object));
}

// The number of a cell's string. Strings of one character are found by it.
int32_t number_of(PyObject* cell, Column& column, std::string& spare) {
  if (PyUnicode_GetLength(cell) != 1) return int32_t(column.values.add(text_of(cell, spare)));
  const uint32_t code = PyUnicode_ReadChar(cell, 0);
  int32_t number = column.characters.find(code);
  if (number < 0) {
    number = int32_t(column.values.add(text_of(cell, spare)));
    column.characters.add(code, number);
  }
  return number;
}

// The keys met last, by address: those of most features are a few objects, used again for each token.
class KeyCache {
 public:
  // Its number in the memory, or -1 if it has none.
  int32_t find(PyObject* key) const {
    const Slot& slot = slots_[place(key)];
    return slot.key.ptr() == key ? slot.number : -1;
  }
  void put(PyObject* key, int32_t number) { slots_[place(key)] = {nb::borrow(key), number}; }

 private:
  struct Slot {
    nb::object key;  // kept alive, so that no other object has its address
    int32_t number = -1;
  };
  static constexpr size_t size = 256;
  static size_t place(PyObject* key) { return (reinterpret_cast<uintptr_t>(key) >> 4) % size; }
  Slot slots_[size];
};

class FeatureReader {
 public:
  FeatureReader(Dataset& data, Attributes& attributes, bool grow)
      : data_(data), attributes_(attributes.source(grow)), memory_(attributes.remembered()), grow_(grow) {
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
  // Values are kept only if one is not 1.
  void finish() {
    if (!weighted_) data_.values.clear();
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

  // Some entries at a time: their values are fetched together from wherever they lie in memory. As soon as one is not
  // remembered, its Python code may change the dict: what has been fetched is of no use any more.
  void entries(PyObject* dict) {
    constexpr int most = 32;
    struct {
      PyObject *key, *value;
      Py_ssize_t next;
    } ahead[most];
    Py_ssize_t at = 0;
    for (int count = most; count == most;) {
      Py_ssize_t position = at;
      for (count = 0; count < most && PyDict_Next(dict, &position, &ahead[count].key, &ahead[count].value); ++count) {
        ahead[count].next = position;
        __builtin_prefetch(ahead[count].value);
      }
      for (int i = 0; i < count; ++i) {
        at = ahead[i].next;
        if (depth_ == 1 && remembered(ahead[i].key, ahead[i].value)) continue;
        const nb::object key = nb::borrow(ahead[i].key), value = nb::borrow(ahead[i].value);
        entry(key.ptr(), value.ptr());
        count = most;
        break;
      }
    }
  }

  // What needs no name, since this key with this value has been met before. No Python code runs here.
  bool remembered(PyObject* key, PyObject* value) {
    if (!is_text(key)) return false;
    const bool text = is_text(value);
    if (!text && !PyFloat_CheckExact(value) && !PyBool_Check(value)) return false;
    int32_t number = keys_.find(key);
    if (number < 0) {
      number = memory_.key(text_of(key, spare_));
      if (number < 0) return false;
      keys_.put(key, number);
    }
    const double size = text ? 1.0 : PyFloat_CheckExact(value) ? PyFloat_AsDouble(value) : double(value == Py_True);
    if (!std::isfinite(size)) return false;
    const auto place = [&]() -> int32_t& {
      return text ? memory_.with(number, text_of(value, spare_)) : memory_.alone(number);
    };
    int32_t attribute = place();
    if (attribute == FeatureMemory::unknown || (attribute < 0 && grow_)) {
      attribute = named(key, text ? value : nullptr);
      place() = attribute;
    }
    put(attribute, size);
    return true;
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

  void entry(PyObject* key, PyObject* value) {
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
    data_.attributes.push_back(attribute);
    data_.values.push_back(value);
    weighted_ |= value != 1.0;
  }

  Dataset& data_;
  AttributeSource attributes_;
  FeatureMemory& memory_;
  bool grow_;
  KeyCache keys_;
  std::string name_, spare_;
  Place place_{};
  int depth_ = 0;
  bool weighted_ = false;
};

}  // namespace

void read_column(nb::handle sentences, const char* what, std::vector<int64_t>& offsets, Column& column) {
  const Items outer = items_of(sentences.ptr(), "sentences must be a sequence");
  const bool first = offsets.empty();
  if (first) offsets.push_back(0);
  std::string spare;
  for (Py_ssize_t b = 0; b < outer.size(); ++b) {
    const nb::object sentence = outer.owned(b);
    const std::string name = "sentence " + std::to_string(b);
    if (is_text(sentence.ptr())) refuse(name + " must be a sequence of strings, got one string");
    const Items inner = items_of(sentence.ptr(), name + " must be a sequence of strings");
    const Py_ssize_t length = inner.size();
    for (Py_ssize_t t = 0; t < length; ++t) {
      PyObject* cell = inner[t];
      if (!PyUnicode_Check(cell))
        refuse({b, t}, std::string(what) + " must be a string, got " + type_name(cell));
      column.cells.push_back(number_of(cell, column, spare));
    }
    if (first) {
      offsets.push_back(int64_t(column.cells.size()));
    } else if (offsets[size_t(b) + 1] != int64_t(column.cells.size())) {
      const int64_t tokens = offsets[size_t(b) + 1] - offsets[size_t(b)];
      refuse(name + " has " + std::to_string(tokens) + " tokens and " + std::to_string(length) + " values of " + what);
    }
  }
}

Dataset read_features(nb::handle sentences, Attributes& attributes, bool grow) {
  Dataset data;
  FeatureReader reader(data, attributes, grow);
  const Items outer = items_of(sentences.ptr(), "sentences must be a sequence");
  for (Py_ssize_t b = 0; b < outer.size(); ++b) {
    const std::string otherwise = "sentence " + std::to_string(b) + " must be a sequence with features for each token";
    const Items inner = items_of(outer.owned(b).ptr(), otherwise);
    for (Py_ssize_t t = 0; t < inner.size(); ++t)
      reader.token(inner.owned(t).ptr(), {b, t});
    data.offsets.push_back(data.bundles());
  }
  reader.finish();
  return data;
}

}  // namespace trellis

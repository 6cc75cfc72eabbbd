// Tokens of raw text and where they are in it; words and spans of raw text from the labels of its tokens.
#include "bind/python.h"
#include "text/words.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace nb = nanobind;

namespace trellis::bind {

using namespace text;

namespace {

// known[chunk], or what `pieces` finds, which may remember it there.
nb::object pieces_of(const nb::object& chunk, const nb::dict& known, const nb::callable& pieces) {
  PyObject* found = PyDict_GetItemWithError(known.ptr(), chunk.ptr());
  if (PyErr_Occurred()) throw nb::python_error();
  return found ? nb::borrow(found) : pieces(chunk);
}

// The tokens of the text; None if it has no UTF-8 (lone surrogates).
nb::object split_words(const EasyWords& words, nb::str text, const nb::dict& known, const nb::callable& pieces) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!bytes) return PyErr_Clear(), nb::none();
  const std::string_view all(bytes, size_t(size));
  nb::list tokens;
  for (size_t at = 0; at < all.size();) {
    const std::string_view chunk = next_chunk(all, at, words.quotes_apart());
    if (chunk.empty()) break;
    at = size_t(chunk.data() - all.data()) + chunk.size();
    const size_t first = words.first_token(chunk);
    if (!first) {
      tokens.extend(pieces_of(new_string(chunk), known, pieces));
      continue;
    }
    tokens.append(new_string(chunk.substr(0, first)));
    if (first < chunk.size()) tokens.append(new_string(chunk.substr(first)));
  }
  return tokens;
}

// (start, end) of each token, searched for one after another.
nb::object find_tokens(nb::str text, nb::handle tokens) {
  const Items items = sequence_items(tokens, "tokens must be a sequence");
  const Py_ssize_t count = items.size(), length = PyUnicode_GetLength(text.ptr());
  nb::object found = nb::steal(PyTuple_New(count));
  if (!found.is_valid()) throw nb::python_error();
  Py_ssize_t end = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* token = items[i];
    if (!PyUnicode_Check(token)) throw nb::type_error("tokens must be strings");
    const Py_ssize_t start = PyUnicode_Find(text.ptr(), token, end, length, 1);
    if (start == -2) throw nb::python_error();
    if (start == -1) throw nb::value_error("a token is not in its text");
    end = start + PyUnicode_GetLength(token);
    NB_TUPLE_SET_ITEM(found.ptr(), i, nb::make_tuple(start, end).release().ptr());
  }
  return found;
}

// Texts one after another, as Arrow has them.
struct PackedTexts {
  std::vector<uint8_t> bytes;
  std::vector<int32_t> offsets{0};

  void add(std::string_view text) {
    if (bytes.size() + text.size() > size_t(INT32_MAX)) throw nb::value_error("texts of more than 2147483647 bytes in one array");
    bytes.insert(bytes.end(), text.begin(), text.end());
    offsets.push_back(int32_t(bytes.size()));
  }
};

std::string_view utf8_of(PyObject* text) {
  if (!PyUnicode_Check(text)) throw nb::type_error("texts must be strings");
  Py_ssize_t size = 0;
  const char* own = PyUnicode_AsUTF8AndSize(text, &size);
  if (!own) throw nb::python_error();
  return {own, size_t(size)};
}

// The bytes of all texts, where each begins and the last ends, and whether all are there: None is an empty one.
nb::tuple pack_texts(nb::handle texts) {
  const Items items = sequence_items(texts, "texts must be a sequence");
  PackedTexts packed;
  packed.offsets.reserve(size_t(items.size()) + 1);
  bool all = true;
  for (Py_ssize_t i = 0; i < items.size(); ++i) {
    const bool is_there = items[i] != Py_None;
    packed.add(is_there ? utf8_of(items[i]) : std::string_view());
    all &= is_there;
  }
  return nb::make_tuple(to_numpy(std::move(packed.bytes)), to_numpy(std::move(packed.offsets)), all);
}

// The same for names[id] of each id.
nb::tuple pack_names(nb::handle names, const Array<const int64_t>& ids) {
  const Items items = sequence_items(names, "names must be a sequence");
  std::vector<std::string_view> views;
  for (Py_ssize_t i = 0; i < items.size(); ++i) views.push_back(utf8_of(items[i]));
  PackedTexts packed;
  packed.offsets.reserve(ids.size() + 1);
  for (size_t n = 0; n < ids.size(); ++n) {
    const int64_t id = ids.data()[n];
    if (id < 0 || size_t(id) >= views.size()) throw nb::index_error("there is no such name");
    packed.add(views[size_t(id)]);
  }
  return nb::make_tuple(to_numpy(std::move(packed.bytes)), to_numpy(std::move(packed.offsets)), true);
}

// numbers[label]: labels are mostly the same few objects, one after another.
class LabelNumbers {
 public:
  LabelNumbers(const nb::dict& numbers, int64_t count) : numbers_(numbers), count_(count) {}

  int64_t operator()(PyObject* label) {
    if (label != last_) {
      PyObject* number = PyDict_GetItemWithError(numbers_.ptr(), label);
      if (!number && PyErr_Occurred()) throw nb::python_error();
      number_ = number ? PyLong_AsLongLong(number) : -1;
      if (PyErr_Occurred()) throw nb::python_error();
      if (number_ < 0 || number_ >= count_) throw nb::value_error("a label has no number");
      last_ = label;
    }
    return number_;
  }

 private:
  const nb::dict& numbers_;
  const int64_t count_;
  PyObject* last_ = nullptr;
  int64_t number_ = 0;
};

// Where tokens are in their text, one behind another; between them there is only what no token begins with.
class Places {
 public:
  explicit Places(PyObject* text) : text_(text), length_(PyUnicode_GetLength(text)) {
    if (length_ < 0) throw nb::python_error();
  }
  // Goes on to the next token: [begin, end).
  void next(PyObject* token) {
    const Py_ssize_t size = PyUnicode_Check(token) ? PyUnicode_GetLength(token) : 0;
    const Py_UCS4 character = size ? PyUnicode_ReadChar(token, 0) : 0;
    for (begin = end; begin < length_ && PyUnicode_ReadChar(text_, begin) != character;) ++begin;
    if (!size || begin + size > length_) throw nb::value_error("a token is not in its text");
    end = begin + size;
  }
  nb::object between(Py_ssize_t from, Py_ssize_t to) const {
    nb::object part = nb::steal(PyUnicode_Substring(text_, from, to));
    if (!part.is_valid()) throw nb::python_error();
    return part;
  }

  Py_ssize_t begin = 0, end = 0;

 private:
  PyObject* text_;
  Py_ssize_t length_;
};

// The words of each text, given its tokens in order, between which there is only what no token begins with, and a label
// for each; starts[i, j], (L + 1, L + 1): a word begins with label j - 1 behind label i - 1, 0 is the edge. With `kinds`,
// what each label says of its word, each word is a pair with that of its first token.
nb::list cut_words(nb::handle texts, nb::handle tokens, nb::handle labels, const nb::dict& numbers,
                   const Array<const bool, nb::ndim<2>>& starts, const nb::object& kinds) {
  const int64_t rows = int64_t(starts.shape(0));
  if (int64_t(starts.shape(1)) != rows) throw nb::value_error("starts must be square");
  const Items all_texts = sequence_items(texts, "texts must be a sequence"),
              all_tokens = sequence_items(tokens, "tokens must be a sequence"),
              all_labels = sequence_items(labels, "labels must be a sequence");
  if (all_tokens.size() != all_texts.size() || all_labels.size() != all_texts.size())
    throw nb::value_error("expected tokens and labels for each text");
  const nb::object kind_of = kinds.is_none() ? nb::object() : nb::steal(PySequence_Tuple(kinds.ptr()));
  if (!kinds.is_none() && (!kind_of.is_valid() || NB_TUPLE_GET_SIZE(kind_of.ptr()) != rows - 1))
    throw nb::value_error("expected a kind for each label");
  LabelNumbers number_of(numbers, rows - 1);
  nb::list result;
  for (Py_ssize_t b = 0; b < all_texts.size(); ++b) {
    const nb::object text = all_texts.owned(b);
    if (!PyUnicode_Check(text.ptr())) throw nb::type_error("texts must be strings");
    const Items pieces = sequence_items(all_tokens[b], "the tokens of a text must be a sequence"),
                tags = sequence_items(all_labels[b], "the labels of a text must be a sequence");
    if (pieces.size() != tags.size()) throw nb::value_error("expected a label for each token");
    Places places(text.ptr());
    nb::list words;
    Py_ssize_t begin = 0, end = 0;
    int64_t last = -1, first = -1;
    const auto close = [&] {
      const nb::object word = places.between(begin, end);
      kind_of.is_valid() ? words.append(nb::make_tuple(word, nb::borrow(NB_TUPLE_GET_ITEM(kind_of.ptr(), first)))) : words.append(word);
    };
    for (Py_ssize_t t = 0; t < pieces.size() && t < tags.size(); ++t) {
      const nb::object token = pieces.owned(t), tag = tags.owned(t);
      const int64_t label = number_of(tag.ptr());
      places.next(token.ptr());
      if (!t || starts.data()[(last + 1) * rows + label + 1]) {
        if (t) close();
        begin = places.begin, first = label;
      }
      end = places.end;
      last = label;
    }
    if (last >= 0) close();
    result.append(words);
  }
  return result;
}

// The spans of a block of texts as tuples (start, end, label, text, probability): tokens begins[row] .. ends[row] - 1.
class TextSpans {
 public:
  // `type` is a subclass of tuple; names[kinds[row]] is the label of a span.
  TextSpans(nb::handle type, Array<const int64_t> begins, Array<const int64_t> ends, Array<const int64_t> kinds,
            nb::tuple names, Array<const double> probabilities)
      : type_(nb::borrow(type)), begins_(std::move(begins)), ends_(std::move(ends)), kinds_(std::move(kinds)),
        names_(std::move(names)), probabilities_(std::move(probabilities)), size_(begins_.size()) {
    if (ends_.size() != size_ || kinds_.size() != size_ || probabilities_.size() != size_)
      throw nb::value_error("expected an end, a kind and a probability for each span");
    auto* const cls = reinterpret_cast<PyTypeObject*>(type.ptr());
    if (!PyType_Check(type.ptr()) || !PyType_IsSubtype(cls, &PyTuple_Type)) throw nb::type_error("spans must be tuples");
  }

  // The spans `from` to `to` - 1, which lie in this text in order and do not overlap, given the text's tokens.
  nb::object between(const nb::str& text, nb::handle tokens, size_t from, size_t to) const {
    if (from > to || to > size_) throw nb::value_error("there are no such spans");
    constexpr Py_ssize_t fields = 5;
    auto* const cls = reinterpret_cast<PyTypeObject*>(type_.ptr());
    const Items items = sequence_items(tokens, "tokens must be a sequence");
    Places places(text.ptr());
    nb::object spans = nb::steal(PyTuple_New(Py_ssize_t(to - from)));
    if (!spans.is_valid()) throw nb::python_error();
    Py_ssize_t token = 0;
    for (size_t row = from; row < to; ++row) {
      const int64_t begin = begins_.data()[row], end = ends_.data()[row], kind = kinds_.data()[row];
      if (begin < token || end <= begin || end > items.size() || kind < 0 || size_t(kind) >= names_.size())
        throw nb::value_error("spans must lie in their text, in order");
      Py_ssize_t start = 0;
      for (; token < end; ++token) {
        places.next(items[token]);
        if (token == begin) start = places.begin;
      }
      PyObject* const span = PyType_GenericAlloc(cls, fields);
      if (!span) throw nb::python_error();
      NB_TUPLE_SET_ITEM(spans.ptr(), Py_ssize_t(row - from), span);
      nb::object piece = end == begin + 1 ? nb::borrow(items[end - 1]) : places.between(start, places.end);
      PyObject* const values[fields] = {
          PyLong_FromSsize_t(start), PyLong_FromSsize_t(places.end), nb::object(names_[size_t(kind)]).release().ptr(),
          piece.release().ptr(), PyFloat_FromDouble(probabilities_.data()[row])};
      bool whole = true;
      for (Py_ssize_t i = 0; i < fields; ++i) {
        NB_TUPLE_SET_ITEM(span, i, values[i]);
        whole &= values[i] != nullptr;
      }
      if (!whole) throw nb::python_error();
      PyObject_GC_UnTrack(span);  // it holds no container; the collector would walk over millions of them
    }
    return spans;
  }

 private:
  nb::object type_;
  Array<const int64_t> begins_, ends_, kinds_;
  nb::tuple names_;
  Array<const double> probabilities_;
  size_t size_;
};

}  // namespace

void bind_text(nb::module_& m) {
  nb::class_<EasyWords>(m, "EasyWords")
      .def(nb::init<>())
      .def("exclude", [](EasyWords& self, nb::bytes word) { self.exclude({word.c_str(), word.size()}); })
      .def("split", &split_words);
  m.def("find_tokens", &find_tokens);
  m.def("pack_texts", &pack_texts);
  m.def("pack_names", &pack_names);
  m.def("cut_words", &cut_words, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  nb::class_<TextSpans>(m, "TextSpans")
      .def(nb::init<nb::handle, Array<const int64_t>, Array<const int64_t>, Array<const int64_t>, nb::tuple, Array<const double>>())
      .def("between", &TextSpans::between);
}

}  // namespace trellis::bind

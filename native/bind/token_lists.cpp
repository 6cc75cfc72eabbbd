// Token lists in one piece, from JSON and as Python lists; and labels on their way to JSON.
#include "text/token_lists.h"

#include "bind/array.h"
#include "bind/module.h"
#include "bind/strings.h"

#include <algorithm>
#include <nanobind/stl/vector.h>

#include <string>

namespace nb = nanobind;

namespace trellis {
namespace {

constexpr size_t kLong = 64 << 10;  // bytes from which on other threads may run meanwhile

std::string_view view_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

template <typename F>
auto unlocked_if(bool is_long, F f) {
  if (!is_long) return f();
  nb::gil_scoped_release release;
  return f();
}

// (token lists, the text with 0 in their place), or None; see read_token_lists.
nb::object read(const nb::bytes& json, const nb::bytes& field) {
  TokenLists lists;
  Extent value;
  const std::string_view text = view_of(json), name = view_of(field);
  if (!unlocked_if(text.size() > kLong, [&] { return read_token_lists(text, name, lists, value); })) return nb::none();
  std::string rest(text.substr(0, value.first));
  (rest += '0') += text.substr(value.last);
  return nb::make_tuple(std::move(lists), nb::bytes(rest.data(), rest.size()));
}

nb::list sentence(const TokenLists& self, int64_t index) {
  if (index < 0 || index >= self.sentences()) throw nb::index_error("there is no such sentence");
  nb::list tokens;
  for (int64_t n = self.offsets[size_t(index)]; n < self.offsets[size_t(index) + 1]; ++n) tokens.append(new_string(self[n]));
  return tokens;
}

nb::object lengths(const TokenLists& self) {
  std::vector<int64_t> found;
  for (int64_t b = 0; b < self.sentences(); ++b) found.push_back(self.offsets[size_t(b) + 1] - self.offsets[size_t(b)]);
  return nb::cast(to_numpy(std::move(found)));
}

// (tokens of all sentences, where an empty one counts as one; tokens of the longest sentence)
nb::tuple extent(const TokenLists& self) {
  int64_t all = 0, longest = 0;
  for (int64_t b = 0; b < self.sentences(); ++b) {
    const int64_t length = std::max<int64_t>(self.offsets[size_t(b) + 1] - self.offsets[size_t(b)], 1);
    all += length;
    longest = std::max(longest, length);
  }
  return nb::make_tuple(all, longest);
}

TokenLists part(const TokenLists& self, int64_t first, int64_t last) {
  if (first < 0 || first > last || last > self.sentences()) throw nb::index_error("there are no such sentences");
  TokenLists some;
  some.add(self, first, last);
  return some;
}

TokenLists joined(const nb::list& parts) {
  TokenLists all;
  for (const nb::handle one : parts) {
    const auto& lists = nb::cast<const TokenLists&>(one);
    all.add(lists, 0, lists.sentences());
  }
  return all;
}

// One text for each of some runs of sentences, with the names of their labels; `counts` are the sentences of each run.
nb::list write_names(const std::vector<nb::bytes>& names, const Array<const int64_t>& ids,
                     const Array<const int64_t>& lengths, const std::vector<int64_t>& counts, const nb::bytes& opening,
                     const nb::bytes& closing) {
  std::vector<std::string_view> views;
  for (const nb::bytes& name : names) views.push_back(view_of(name));
  const NameWriter writer{views, view_of(opening), view_of(closing)};
  nb::list texts;
  std::string text;
  size_t id = 0, b = 0;
  for (const int64_t count : counts) {
    if (count < 0 || size_t(count) > lengths.size() - b) throw nb::value_error("there are not as many sentences");
    size_t tokens = 0;
    for (size_t i = b; i < b + size_t(count); ++i) {
      if (lengths.data()[i] < 0 || size_t(lengths.data()[i]) > ids.size() - id - tokens)
        throw nb::value_error("lengths do not add up to the number of labels");
      tokens += size_t(lengths.data()[i]);
    }
    text.clear();
    if (!writer.write(ids.data() + id, lengths.data() + b, count, text)) throw nb::index_error("a label has no name");
    texts.append(nb::bytes(text.data(), text.size()));
    id += tokens;
    b += size_t(count);
  }
  return texts;
}

}  // namespace

void bind_token_lists(nb::module_& m) {
  nb::class_<TokenLists>(m, "TokenLists")
      .def_static("read", &read)
      .def_static("joined", &joined)
      .def("__len__", &TokenLists::sentences)
      .def("sentence", &sentence)
      .def("lengths", &lengths)
      .def("extent", &extent)
      .def("part", &part);
  m.def("write_names", &write_names);
}

}  // namespace trellis

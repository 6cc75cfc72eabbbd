// The attributes of a model with numbers, in the order of their first appearance. An attribute that came with a dict or a
// list is a name. One that templates made is a form and the numbers of the values in it (see templates.h): a key of a few
// bytes, from which its name is made when somebody asks for it.
#pragma once

#include "features/strings.h"
#include "features/templates.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace trellis::features {

// The attributes of dicts met so far, by key and by text: to find one again takes no name. Any number of threads may
// read it while none changes it.
class DictMemory {
 public:
  static constexpr int32_t unknown = -2;  // not looked up yet; -1: no attribute
  struct Entry {
    uint32_t number;
    int32_t attribute = unknown;
  };
  using Index = StringIndex<Entry>;

  // The number of a key, or -1.
  int32_t find_key(std::string_view name) const { return int32_t(keys_.number(name)); }
  // The same, with a number for a new one unless there are too many: then the keys are features themselves.
  int32_t add_key(std::string_view name) {
    if (const int32_t known = find_key(name); known >= 0 || texts_.size() >= most_keys) return known;
    texts_.emplace_back();
    alone_.push_back(unknown);
    return int32_t(keys_.add(name).number);
  }
  std::string_view name(int32_t key) const { return keys_[uint64_t(key)]; }

  // The attribute of a key alone, and with a text; that of a short text is found by `Index::key_of` it only.
  int32_t find(int32_t key) const { return alone_[size_t(key)]; }
  int32_t find(int32_t key, std::string_view text, uint64_t text_key) const {
    const Entry* entry = texts_[size_t(key)].find(text, text_key);
    return entry ? entry->attribute : unknown;
  }
  // Brings near what `find` reads.
  void fetch(int32_t key, uint64_t text_key) const { texts_[size_t(key)].fetch(text_key); }
  void put(int32_t key, int32_t attribute) { alone_[size_t(key)] = attribute; }
  void put(int32_t key, std::string_view text, int32_t attribute) {
    texts_[size_t(key)].add(text).attribute = attribute;
  }

  int users = 0;  // Python code of a value may begin a call inside another
  void forget_if_large() {
    int64_t bytes = 0;
    for (const Index& texts : texts_) bytes += texts.bytes();
    if (bytes > most_bytes && !users) *this = DictMemory();
  }

 private:
  static constexpr size_t most_keys = 1024;
  static constexpr int64_t most_bytes = 32 << 20;

  StringIndex<> keys_;
  std::vector<int32_t> alone_;  // [keys]
  std::vector<Index> texts_;    // [keys]
};

// An attribute of a template: the bytes of its key are the form and then, three bytes each, the numbers of the values.
struct FormKey {
  static constexpr size_t value_bytes = 3;
  static constexpr uint64_t most_values = uint64_t(1) << 8 * value_bytes;

  int form;
  const char* values;

  FormKey(const TemplateSet& set, std::string_view key)
      : form(int(read_bytes(key.data(), form_bytes(set)))), values(key.data() + form_bytes(set)) {}
  int32_t value(size_t i) const { return int32_t(read_bytes(values + i * value_bytes, value_bytes)); }

  static size_t form_bytes(const TemplateSet& set) { return set.forms.size() > 256 ? 2 : 1; }
  static void append(uint64_t number, size_t bytes, std::string& key) {
    char word[8];
    for (size_t i = 0; i < sizeof word; ++i) word[i] = char(number >> 8 * i);
    key.append(word, bytes);
  }
};

class AttributeIndex {
 public:
  // Knows attributes by name that lie elsewhere. Several are asked for at a time, so that what the search waits for in
  // memory, it waits for together.
  struct Source {
    virtual ~Source() = default;
    virtual void find(const std::string_view* names, size_t count, int64_t* numbers) const = 0;  // -1: not there
  };

  AttributeIndex() = default;
  explicit AttributeIndex(const Source& source) : source_(&source) {}  // which must stay
  // Attributes that lie elsewhere: names or, with templates, keys and the values of each reading. The tables to find one
  // by are made when they are first asked for. Throws std::invalid_argument if a key is none of these templates.
  AttributeIndex(const StringList& keys, std::shared_ptr<const TemplateSet> set, std::vector<StringList> values);

  bool grows() const { return !stored_ && !source_; }
  const Source* source() const { return source_; }  // null if the attributes are in `key_index`
  const std::shared_ptr<const TemplateSet>& templates() const { return set_; }  // null for names
  const StringList& keys() const { return stored_ ? stored_keys_ : keys_.list(); }
  const StringList& values(size_t reading) const {
    return stored_ ? stored_values_[reading] : values_[reading].list();
  }
  std::string name(uint64_t i) const;

  // From here on the attributes are those of these templates; throws std::invalid_argument if there are others.
  void use(const std::shared_ptr<const TemplateSet>& set);
  StringIndex<>& key_index() { return make_tables(), keys_; }
  StringIndex<>& value_index(size_t reading) { return make_tables(), values_[reading]; }

  // An attribute of another index of the same templates gets a number here; remembers where its values are.
  using Renumbering = std::vector<std::vector<int32_t>>;
  int64_t take(const AttributeIndex& other, uint64_t i, Renumbering& values);
  // Those of the given numbers, with new numbers; the copy grows.
  std::unique_ptr<AttributeIndex> select(const int64_t* numbers, size_t count) const;

  DictMemory& memory() {
    if (!memory_) memory_ = std::make_unique<DictMemory>();
    memory_->forget_if_large();
    return *memory_;
  }

 private:
  void make_tables();

  const Source* source_ = nullptr;
  std::shared_ptr<const TemplateSet> set_;
  StringIndex<> keys_;
  std::vector<StringIndex<>> values_;  // by reading
  bool stored_ = false;                // elsewhere, and then here:
  StringList stored_keys_;
  std::vector<StringList> stored_values_;
  std::once_flag tables_made_;
  std::unique_ptr<DictMemory> memory_;
};

}  // namespace trellis::features

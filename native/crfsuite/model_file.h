// Model files of CRFsuite: weights of pairs (attribute, label) and (label, next label), by name. Numbers are
// little-endian.
//
//   header    48 bytes: "lCRF", size of the file, "FOMC", version 100, numbers of features (CRFsuite writes 0), labels and
//             attributes, offsets of the five chunks
//   FEAT      name, size and count; per feature type (0 of an attribute, 1 of a transition), source, label, weight
//   CQDB      strings with ids, of labels and again of attributes; its offsets count from its own first byte: a header of
//             24 bytes, 256 references (offset, slots) to hash tables, a record (id, size, string with a NUL) per string,
//             the hash tables of slots (hash, offset of a record), and by id the offsets of the records
//   LFRF      name, size and count; by label the offset of a list, which is its size and the numbers of features
//   AFRF      the same by attribute
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trellis::crfsuite {

// What is wrong with a file, or with weights that no file can hold.
struct FormatError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Strings one after another.
struct Strings {
  std::vector<uint8_t> bytes;
  std::vector<uint32_t> lengths;
};

struct Transition {
  uint32_t from, to;
  double weight;
};

struct Model {
  Strings labels, attributes;
  std::vector<uint32_t> pair_counts;  // [attributes]
  std::vector<uint16_t> pair_labels;  // [pairs]
  std::vector<double> pair_weights;   // [pairs]
  std::vector<Transition> transitions;
};

// Every offset, size and number of the file is checked before it is used; throws FormatError.
Model read_model(const uint8_t* data, uint64_t size);

// A file that is used as it is: what concerns an attribute is checked when it is asked for, all else at once. Any number of
// threads may read it. Throws FormatError.
class OpenModel {
 public:
  OpenModel(const uint8_t* data, uint64_t size);  // which must stay
  ~OpenModel();

  const Strings& labels() const;
  const std::vector<Transition>& transitions() const;
  // The numbers of the attributes with these names, or -1.
  void find(const std::string_view* names, size_t count, int64_t* numbers) const;
  // scores[label] += value * weight of (attribute, label)
  void add_weights(uint32_t attribute, double value, double* scores) const;
  // Brings near what `add_weights` reads, in three steps that each need some time: 0, 1, 2.
  void fetch(uint32_t attribute, int step) const;

 private:
  friend Model read_model(const uint8_t* data, uint64_t size);
  struct Chunks;
  std::unique_ptr<const Chunks> chunks_;
};

// The file as CRFsuite itself would write it. Throws FormatError if it would be too long for offsets of 32 bits, or if a
// string contains a NUL.
std::vector<uint8_t> write_model(const Model& model);

}  // namespace trellis::crfsuite

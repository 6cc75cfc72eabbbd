// An aligned block of plain numbers that frees itself; C allocation only, so that it may be used in every
// instruction set's namespace.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace TRELLIS_ISA {

template <typename T>
class Block {
 public:
  explicit Block(int64_t count) {
    if (count <= 0) return;
    const size_t bytes = (size_t(count) * sizeof(T) + 63) / 64 * 64;
    data_ = static_cast<T*>(std::aligned_alloc(64, bytes));
    if (!data_) throw std::bad_alloc();
  }
  Block(int64_t count, T fill) : Block(count) {
    for (int64_t i = 0; i < count; ++i) data_[i] = fill;
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  Block(Block&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  ~Block() { std::free(data_); }

  operator T*() const { return data_; }

 private:
  T* data_ = nullptr;
};

}  // namespace TRELLIS_ISA

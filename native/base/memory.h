// An aligned block of plain numbers that frees itself, and the arithmetic of sizes; C allocation only, so that it may be
// used in every instruction set's namespace.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#elif defined(_WIN32)
#include <malloc.h>
#endif

namespace TRELLIS_ISA {

constexpr int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }
constexpr int64_t round_up(int64_t count, int64_t step) { return parts_of(count, step) * step; }

template <typename T>
class Block {
 public:
  explicit Block(int64_t count) {
    if (count <= 0) return;
    constexpr int64_t huge_page = int64_t(1) << 21;
    const int64_t wanted = count * int64_t(sizeof(T)), step = wanted < huge_page ? 64 : huge_page;
    const size_t bytes = size_t(round_up(wanted, step));
    data_ = static_cast<T*>(allocate(size_t(step), bytes));
    if (!data_) throw std::bad_alloc();
#if defined(__linux__)
    // Else there is a page fault every four kilobytes; the last page, which may be nearly empty, stays in small ones.
    if (step == huge_page) madvise(data_, size_t(wanted / huge_page * huge_page), MADV_HUGEPAGE);
#endif
  }
  Block(int64_t count, T fill) : Block(count) {
    for (int64_t i = 0; i < count; ++i) data_[i] = fill;
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  Block(Block&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  Block& operator=(Block&& other) noexcept {
    T* mine = data_;
    data_ = other.data_, other.data_ = mine;
    return *this;
  }
  ~Block() { release(data_); }

  operator T*() const { return data_; }

 private:
#if defined(_WIN32)
  static void* allocate(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }
  static void release(void* data) { _aligned_free(data); }
#else
  static void* allocate(size_t alignment, size_t bytes) { return std::aligned_alloc(alignment, bytes); }
  static void release(void* data) { std::free(data); }
#endif

  T* data_ = nullptr;
};

}  // namespace TRELLIS_ISA

// Hashes of strings. Words come from files of strangers, who can choose them so that any hash known in advance is the
// same for all: tables that grow with what is read need a key that differs between processes. Numbers are given in the
// order of first appearance, so results do not depend on the key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace trellis::features {

// The bytes of a number at any address, the first of them lowest.
template <typename T>
inline uint64_t read_word(const char* from) {
  T word;
  std::memcpy(&word, from, sizeof word);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = sizeof(T) == 8 ? T(__builtin_bswap64(word)) : sizeof(T) == 4 ? T(__builtin_bswap32(uint32_t(word)))
                                                                      : T(__builtin_bswap16(uint16_t(word)));
#endif
  return word;
}

// Up to eight bytes as a little-endian number. Two reads that may overlap: a copy to memory that is read again at once,
// as one number, would have to wait.
inline uint64_t read_bytes(const char* from, size_t count) {
  const char* end = from + count;
  if (count == 8) return read_word<uint64_t>(from);
  if (count >= 4) return read_word<uint32_t>(from) | read_word<uint32_t>(end - 4) << 8 * (count - 4);
  if (count >= 2) return read_word<uint16_t>(from) | read_word<uint16_t>(end - 2) << 8 * (count - 2);
  return count ? uint8_t(*from) : 0;
}

// 64 bits from any bytes: multiply and fold eight bytes at a time. Part of the file format: do not change.
inline uint64_t hash_bytes(std::string_view s) {
  constexpr uint64_t k0 = 0x9e3779b97f4a7c15ull, k1 = 0xd6e8feb86659fd93ull;
  const auto fold = [](uint64_t x, uint64_t k) {
    x *= k;
    return x ^ (x >> 32);
  };
  uint64_t h = fold(s.size() + k0, k1);
  size_t i = 0;
  for (; i + 8 <= s.size(); i += 8) h = fold(h ^ read_bytes(s.data() + i, 8), k0);
  return fold(fold(h ^ read_bytes(s.data() + i, s.size() - i), k0), k1);
}

// 128 random bits, drawn once per process.
struct HashKey {
  uint64_t k0, k1;
};
const HashKey& process_key();

// SipHash-2-4: nobody without the key can find strings with equal hashes. Several times as slow as hash_bytes.
uint64_t keyed_hash(std::string_view s, const HashKey& key);

}  // namespace trellis::features

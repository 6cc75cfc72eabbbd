// What both directions know of the tables of strings in CRFsuite's files; see model_file.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trellis::crfsuite {

constexpr uint64_t header_bytes = 48, chunk_bytes = 12, feature_bytes = 20;
constexpr uint32_t version = 100;
constexpr uint64_t table_header_bytes = 24, tables = 256, records_begin = table_header_bytes + 8 * tables;
constexpr uint32_t byte_order = 0x62445371;
constexpr uint32_t unused_lists = 2;  // CRFsuite leaves room for labels of the start and the end of a sequence

// Bob Jenkins' lookup3 (hashlittle, in the public domain) of a string and the NUL after it, from the value 0.
inline uint32_t hash_with_nul(std::string_view name) {
  const char* key = name.data();
  uint64_t length = name.size() + 1;
  const auto rotated = [](uint32_t x, int k) { return x << k | x >> (32 - k); };
  uint32_t a = 0xdeadbeef + uint32_t(length), b = a, c = a;
  // Twelve bytes, or fewer and zeros.
  const auto take = [&](uint64_t count) {
    std::array<uint32_t, 3> words{};
    for (uint64_t i = 0; i < count; ++i) words[i / 4] |= uint32_t(uint8_t(key[i])) << 8 * (i % 4);
    a += words[0], b += words[1], c += words[2];
  };
  for (; length > 12; length -= 12, key += 12) {
    take(12);
    a = (a - c) ^ rotated(c, 4), c += b;
    b = (b - a) ^ rotated(a, 6), a += c;
    c = (c - b) ^ rotated(b, 8), b += a;
    a = (a - c) ^ rotated(c, 16), c += b;
    b = (b - a) ^ rotated(a, 19), a += c;
    c = (c - b) ^ rotated(b, 4), b += a;
  }
  take(length - 1);  // a NUL adds nothing
  c = (c ^ b) - rotated(b, 14);
  a = (a ^ c) - rotated(c, 11);
  b = (b ^ a) - rotated(a, 25);
  c = (c ^ b) - rotated(b, 16);
  a = (a ^ c) - rotated(c, 4);
  b = (b ^ a) - rotated(a, 14);
  return (c ^ b) - rotated(b, 24);
}

}  // namespace trellis::crfsuite

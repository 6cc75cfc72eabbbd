#include "features/hashing.h"

#include <random>

namespace trellis::features {
namespace {

uint64_t random_word() {
  std::random_device source;
  return uint64_t(source()) << 32 | source();
}

uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

// Aumasson and Bernstein 2012
struct SipState {
  uint64_t v0, v1, v2, v3;

  explicit SipState(const HashKey& key)
      : v0(key.k0 ^ 0x736f6d6570736575ull), v1(key.k1 ^ 0x646f72616e646f6dull), v2(key.k0 ^ 0x6c7967656e657261ull),
        v3(key.k1 ^ 0x7465646279746573ull) {}
  void round() {
    v0 += v1, v2 += v3;
    v1 = rotate(v1, 13) ^ v0, v3 = rotate(v3, 16) ^ v2;
    v0 = rotate(v0, 32);
    v2 += v1, v0 += v3;
    v1 = rotate(v1, 17) ^ v2, v3 = rotate(v3, 21) ^ v0;
    v2 = rotate(v2, 32);
  }
  void absorb(uint64_t word) {
    v3 ^= word;
    round(), round();
    v0 ^= word;
  }
  uint64_t finish() {
    v2 ^= 0xff;
    round(), round(), round(), round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

}  // namespace

const HashKey& process_key() {
  static const HashKey key{random_word(), random_word()};
  return key;
}

uint64_t keyed_hash(std::string_view s, const HashKey& key) {
  SipState state(key);
  size_t i = 0;
  for (; i + 8 <= s.size(); i += 8) state.absorb(read_bytes(s.data() + i, 8));
  state.absorb(uint64_t(s.size()) << 56 | read_bytes(s.data() + i, s.size() - i));
  return state.finish();
}

}  // namespace trellis::features

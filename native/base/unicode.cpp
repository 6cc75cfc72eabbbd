#include "base/unicode.h"

namespace trellis {
namespace {

#include <unicode_tables.inc>  // kBlocks, kFlags and kToLower, by unicode_tables.py

constexpr uint32_t kLast = 0x10ffff;
constexpr uint8_t kUpper = 1, kAlpha = 2, kDecimal = 4;

size_t row_of(uint32_t code) { return size_t(kBlocks[code >> 8]) << 8 | (code & 0xff); }

bool has(uint32_t code, uint8_t flag) { return code <= kLast && (kFlags[row_of(code)] & flag); }

}  // namespace

bool is_upper(uint32_t code) { return has(code, kUpper); }
bool is_alpha(uint32_t code) { return has(code, kAlpha); }
bool is_decimal(uint32_t code) { return has(code, kDecimal); }
uint32_t to_lower(uint32_t code) { return code <= kLast ? code + uint32_t(kToLower[row_of(code)]) : code; }

}  // namespace trellis

#include "base/unicode.h"

#include <algorithm>
#include <iterator>

namespace trellis {
namespace {

constexpr uint8_t kUpper = 1, kAlpha = 2, kDecimal = 4;

// Characters first .. last, whose lower case forms are `lower` away. Characters in no run have no property.
struct Run {
  uint32_t first, last;
  uint8_t flags;
  int32_t lower;
};

#include "base/unicode_runs.inc"  // kUnicodeVersion and kRuns, in rising order

Run run_of(uint32_t code) {
  const Run* found = std::lower_bound(std::begin(kRuns), std::end(kRuns), code,
                                      [](const Run& run, uint32_t wanted) { return run.last < wanted; });
  return found != std::end(kRuns) && found->first <= code ? *found : Run{};
}

}  // namespace

const char* unicode_version() { return kUnicodeVersion; }
bool is_upper(uint32_t code) { return run_of(code).flags & kUpper; }
bool is_alpha(uint32_t code) { return run_of(code).flags & kAlpha; }
bool is_decimal(uint32_t code) { return run_of(code).flags & kDecimal; }
uint32_t to_lower(uint32_t code) { return code + uint32_t(run_of(code).lower); }

}  // namespace trellis

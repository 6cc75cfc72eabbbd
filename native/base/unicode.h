// Properties of characters, as the Python that built this has them.
#pragma once

#include <cstdint>

namespace trellis {

bool is_upper(uint32_t code);  // or title case
bool is_alpha(uint32_t code);
bool is_decimal(uint32_t code);
uint32_t to_lower(uint32_t code);  // the first character of it, where there are several

}  // namespace trellis

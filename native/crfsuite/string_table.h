// What both directions know of the tables of strings in CRFsuite's files; see model_file.h.
#pragma once

#include <cstdint>

namespace trellis::crfsuite {

constexpr uint64_t header_bytes = 48, chunk_bytes = 12, feature_bytes = 20;
constexpr uint32_t version = 100;
constexpr uint64_t table_header_bytes = 24, tables = 256, records_begin = table_header_bytes + 8 * tables;
constexpr uint32_t byte_order = 0x62445371;
constexpr uint32_t unused_lists = 2;  // CRFsuite leaves room for labels of the start and the end of a sequence

}  // namespace trellis::crfsuite

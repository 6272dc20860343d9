// SPDX-License-Identifier: Apache-2.0
#include "shim/hsa/api.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace klab::shim {
namespace {

Api the_api;

template <class Table>
bool keep(const Table* from, Table& to, std::uint32_t major) {
  if (from == nullptr || from->version.major_id != major) return false;
  to = {};
  std::memcpy(static_cast<void*>(&to), from, std::min<std::size_t>(from->version.minor_id, sizeof to));
  return true;
}

}  // namespace

const Api& api() { return the_api; }

bool keep_api(const HsaApiTable& table) {
  return keep(table.core_, the_api.core, HSA_CORE_API_TABLE_MAJOR_VERSION) &&
         keep(table.amd_ext_, the_api.amd, HSA_AMD_EXT_API_TABLE_MAJOR_VERSION);
}

std::string failed(const char* call, hsa_status_t status) {
  const char* text = nullptr;
  if (api().core.hsa_status_string_fn == nullptr ||
      api().core.hsa_status_string_fn(status, &text) != HSA_STATUS_SUCCESS || text == nullptr)
    return std::string(call) + ": hsa_status_t " + std::to_string(static_cast<int>(status));
  return std::string(call) + ": " + text;
}

std::string hex(std::uint64_t n) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(n));
  return text;
}

}  // namespace klab::shim

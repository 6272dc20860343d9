// SPDX-License-Identifier: Apache-2.0
// The HSA runtime as a table of functions: what it handed to OnLoad, before our own went in. No call of ours
// is seen by our own hooks. Not here: the hooks.
#pragma once
#define AMD_INTERNAL_BUILD 1  // hsa_api_trace.h then includes its neighbours by their plain names
#include <hsa/hsa_api_trace.h>
#undef AMD_INTERNAL_BUILD
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace klab::shim {

struct Api {
  CoreApiTable core{};  // null past what this runtime has
  AmdExtTable amd{};
};
const Api& api();

/// Copies what the runtime has of both tables. False: they are not tables that we know.
bool keep_api(const HsaApiTable& table);

/// The runtime's table is as long as its minor_id says: a member past that is not there to be replaced.
template <class Table, class F>
bool replace(Table& table, F Table::*member, F ours) {
  const auto end =
      reinterpret_cast<const char*>(&(table.*member) + 1) - reinterpret_cast<const char*>(&table);
  if (static_cast<std::size_t>(end) > table.version.minor_id || table.*member == nullptr) return false;
  table.*member = ours;
  return true;
}

/// "hsa_queue_create: HSA_STATUS_ERROR_OUT_OF_RESOURCES: ..." as the runtime puts it.
std::string failed(const char* call, hsa_status_t status);

std::string hex(std::uint64_t n);

}  // namespace klab::shim

// SPDX-License-Identifier: Apache-2.0
// The entry that the HSA runtime calls from hsa_init in a process that has this library in HSA_TOOLS_LIB.
// Whatever fails, the program goes on as if we were not here. HIP programs never reach OnUnload: what is to
// be told is told as it happens, or at exit.
#include <pthread.h>

#include <cstdlib>
#include <exception>

#include "shim/common/link.h"
#include "shim/hsa/agents.h"
#include "shim/hsa/api.h"
#include "shim/hsa/capture.h"
#include "shim/hsa/code.h"
#include "shim/hsa/copies.h"
#include "shim/hsa/memory.h"
#include "shim/hsa/queues.h"
#include "shim/hsa/trace.h"
#include "shim/launch/kernels.h"

namespace klab::shim {
namespace {

void at_exit() {
  if (!link().live()) return;
  if (link().config().mode == KLAB_MODE_TRACE) flush_trace();
  if (link().config().mode == KLAB_MODE_CAPTURE) send_counts();
}

void unload() {
  if (!link().live()) return;
  at_exit();
  forget_trace();
  forget_queues();
  forget_code();
  forget_agents();
  tracker().clear();
}

// HIP does not work in a forked child: it forgets all, and its parent's connection above all.
void in_child() {
  link().after_fork();
  counts_after_fork();
  capture_after_fork();
  code_after_fork();
  copies().after_fork();
  trace_after_fork();
  tracker().after_fork();
  queues_after_fork();
}

void begin(HsaApiTable* table) {
  link().connect();
  if (!link().live()) return;
  const std::uint32_t mode = link().config().mode;
  if (mode != KLAB_MODE_TRACE && mode != KLAB_MODE_CAPTURE) return;
  if (table == nullptr || table->version.major_id != HSA_API_TABLE_MAJOR_VERSION || !keep_api(*table))
    return note("HIP in this process",
                "is not seen: the runtime's tables are of a version that is not known here");
  hook_queues(*table);
  hook_code(*table);
  if (mode == KLAB_MODE_CAPTURE) {
    hook_memory(*table);
    hook_copies(*table);
  }
  static bool once = false;  // hsa_shut_down and hsa_init again call this again
  if (once) return;
  once = true;
  ::pthread_atfork(nullptr, nullptr, in_child);
  std::atexit(at_exit);
}

}  // namespace
}  // namespace klab::shim

#define KLAB_EXPORT extern "C" __attribute__((visibility("default")))

KLAB_EXPORT bool OnLoad(HsaApiTable* table, std::uint64_t, std::uint64_t, const char* const*) {
  try {
    klab::shim::begin(table);
  } catch (const std::exception& e) {
    klab::shim::log("%s; the program goes on without it", e.what());
  }
  return true;
}

KLAB_EXPORT void OnUnload() {
  try {
    klab::shim::unload();
  } catch (const std::exception& e) {
    klab::shim::log("%s", e.what());
  }
}

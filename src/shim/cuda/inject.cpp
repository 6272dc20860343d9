// SPDX-License-Identifier: Apache-2.0
// The entry that the CUDA driver calls from cuInit in a process that has this library in CUDA_INJECTION64_PATH.
// Whatever fails, the program goes on as if we were not here; klab is told, and tells the user.
#include <pthread.h>

#include <cstdlib>
#include <exception>

#include "shim/common/link.h"
#include "shim/cuda/callbacks.h"
#include "shim/cuda/capture.h"
#include "shim/cuda/cupti.h"
#include "shim/cuda/device.h"
#include "shim/cuda/drain.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/kernels.h"
#include "shim/cuda/snapshot.h"
#include "shim/cuda/trace.h"

namespace klab::shim {
namespace {

std::uint32_t mode = KLAB_MODE_NONE;

void at_exit() {
  if (!link().live()) return;
  if (mode == KLAB_MODE_TRACE) flush_trace();
  if (mode == KLAB_MODE_CAPTURE) {
    end_callbacks();
    send_counts();
  }
}

// CUDA does not work in a forked child: it forgets all, and its parent's connection above all.
void in_child() {
  mode = KLAB_MODE_NONE;
  end_callbacks();
  link().after_fork();
  kernels_after_fork();
  capture_after_fork();
  devices_after_fork();
  trace_after_fork();
  tracker().after_fork();
  textures().after_fork();
  streams().after_fork();
}

std::string use_for_capture() { return subscribe_capture(); }

std::string use_for_trace() {
  if (std::string why = subscribe_trace(); !why.empty()) return why;
  return start_trace();
}

void begin() {
  link().connect();
  if (!link().live()) return;
  mode = link().config().mode;
  if (mode != KLAB_MODE_TRACE && mode != KLAB_MODE_CAPTURE) return;
  Inside guard;
  std::string why = load_driver();
  if (!why.empty()) {
    mode = KLAB_MODE_NONE;
    return note("CUDA in this process", "is not seen: " + why);
  }
  why = load_cupti(mode == KLAB_MODE_CAPTURE ? use_for_capture : use_for_trace);
  if (!why.empty()) {
    mode = KLAB_MODE_NONE;
    if (why.find("MULTIPLE_SUBSCRIBERS") != std::string::npos)
      why = "another CUPTI client is in the process (a profiler, a debugger, or the program's own profiling): " + why;
    else
      why += "; install the CUDA toolkit's CUPTI or the Python package nvidia-cuda-cupti, or name the file in KLAB_CUPTI";
    return note("CUDA in this process", "is not seen: " + why);
  }
  ::pthread_atfork(nullptr, nullptr, in_child);
  std::atexit(at_exit);  // after CUPTI's own: runs before it
}

}  // namespace
}  // namespace klab::shim

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  try {
    klab::shim::begin();
  } catch (const std::exception& e) {
    klab::shim::log("%s; the program goes on without it", e.what());
  }
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as a table of functions: dlsym on the libcuda that the program has loaded. A test puts its own
// functions in. Not here: CUPTI (cupti.h).
#pragma once
#include <cuda.h>

#include <string>
#include <vector>

namespace klab::shim {

struct Driver {
#define KLAB_DRIVER(member, declared, symbol, required) decltype(&declared) member = nullptr;
#include "shim/cuda/driver.def"
#undef KLAB_DRIVER
};

/// The table; all null before load_driver().
Driver& driver();
/// Fills it from a libcuda that is loaded already (none is loaded for it). Empty: done; else what is missing.
std::string load_driver();
/// "cuStreamQuery: CUDA_ERROR_ILLEGAL_ADDRESS (700)".
std::string failed(const char* call, CUresult result);
/// Symbols that load_driver() looks for.
std::vector<const char*> driver_symbols();

/// A thread in which driver calls of ours may run inside a callback: nested callbacks are ours, and are passed over.
inline thread_local int inside = 0;
struct Inside {
  Inside() { ++inside; }
  ~Inside() { --inside; }
};

/// Makes stream captures of other threads none of our business while it lives, and ours none of theirs.
class Relaxed {
 public:
  Relaxed() { ok_ = driver().ThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS; }
  ~Relaxed() {
    if (ok_) driver().ThreadExchangeStreamCaptureMode(&mode_);
  }
  Relaxed(const Relaxed&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool ok_ = false;
};

/// `context` is current while it lives.
class Current {
 public:
  explicit Current(CUcontext context) {
    CUcontext now = nullptr;
    if (driver().CtxGetCurrent(&now) == CUDA_SUCCESS && now == context) return;
    pushed_ = driver().CtxPushCurrent(context) == CUDA_SUCCESS;
    ok_ = pushed_;
  }
  ~Current() {
    CUcontext popped = nullptr;
    if (pushed_) driver().CtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  bool ok() const { return ok_; }

 private:
  bool pushed_ = false, ok_ = true;
};

}  // namespace klab::shim

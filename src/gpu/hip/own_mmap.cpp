// SPDX-License-Identifier: Apache-2.0
// This program's own mmap, so that AMD's thunk (ROCm 5) reserves address space where a capture had it: there is no other
// way there. It does what libc's does, but for one reservation that a thread has announced.
// Exported by the programs that replay (-Wl,--export-dynamic-symbol=mmap); libraries that they load find it first.
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu/hip/addresses.h"

namespace klab::gpu::hip {
namespace {
thread_local std::uint64_t wanted_address = 0, wanted_size = 0;
constexpr int kReservation = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
}  // namespace

GuidedReservation::GuidedReservation(std::uint64_t address, std::uint64_t size) {
  wanted_address = address;
  wanted_size = size;
}

GuidedReservation::~GuidedReservation() { wanted_address = wanted_size = 0; }

}  // namespace klab::gpu::hip

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__x86_64__)
extern "C" __attribute__((visibility("default"))) void* mmap(void* at, size_t size, int protection, int flags, int fd,
                                                             off_t offset) noexcept {
  using namespace klab::gpu::hip;
  if (wanted_address != 0 && at == nullptr && fd == -1 && protection == PROT_NONE && size == wanted_size &&
      (flags & kReservation) == kReservation) {
    at = reinterpret_cast<void*>(wanted_address);
    flags |= MAP_FIXED_NOREPLACE;
    wanted_address = wanted_size = 0;
  }
  const long got = ::syscall(SYS_mmap, at, size, protection, flags, fd, offset);
  return got == -1 ? MAP_FAILED : reinterpret_cast<void*>(got);
}

bool klab::gpu::hip::GuidedReservation::works() {
  return ::dlsym(RTLD_DEFAULT, "mmap") == reinterpret_cast<void*>(&::mmap);
}
#else
// A sanitizer has its own.
bool klab::gpu::hip::GuidedReservation::works() { return false; }
#endif

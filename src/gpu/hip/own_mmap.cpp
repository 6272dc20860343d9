// SPDX-License-Identifier: Apache-2.0
// This program's own mmap, so that AMD's thunk (ROCm 5) reserves address space where a capture had it: there is no other
// way there. It does what libc's does, but for one reservation that a thread has announced.
// Exported by the programs that replay (-Wl,--export-dynamic-symbol=mmap); libraries that they load find it first.
// A reservation may be larger than what it is for, by alignment and guard pages that the thunk gives back at once; it lies
// at the address all the same, and the caller checks what came of it.
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
constexpr std::uint64_t kMostPadding = 4ull << 20;

void* map(void* at, std::size_t size, int protection, int flags, int fd, long offset) {
  if (wanted_address != 0 && at == nullptr && fd == -1 && (flags & kReservation) == kReservation && size >= wanted_size &&
      size - wanted_size <= kMostPadding) {
    at = reinterpret_cast<void*>(wanted_address);
    flags |= MAP_FIXED_NOREPLACE;
    wanted_address = wanted_size = 0;
  }
  const long got = ::syscall(SYS_mmap, at, size, protection, flags, fd, offset);
  return got == -1 ? MAP_FAILED : reinterpret_cast<void*>(got);
}
}  // namespace

GuidedReservation::GuidedReservation(std::uint64_t address, std::uint64_t size) {
  wanted_address = address;
  wanted_size = size;
}

GuidedReservation::~GuidedReservation() { wanted_address = wanted_size = 0; }

}  // namespace klab::gpu::hip

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KLAB_SANITIZER_HAS_MMAP
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KLAB_SANITIZER_HAS_MMAP
#endif

#if !defined(KLAB_SANITIZER_HAS_MMAP) && defined(__x86_64__)
extern "C" {
__attribute__((visibility("default"))) void* mmap(void* at, size_t size, int protection, int flags, int fd,
                                                  off_t offset) noexcept {
  return klab::gpu::hip::map(at, size, protection, flags, fd, offset);
}
__attribute__((visibility("default"))) void* mmap64(void* at, size_t size, int protection, int flags, int fd,
                                                    off64_t offset) noexcept {
  return klab::gpu::hip::map(at, size, protection, flags, fd, offset);
}
}

bool klab::gpu::hip::GuidedReservation::works() {
  return ::dlsym(RTLD_DEFAULT, "mmap") == reinterpret_cast<void*>(&::mmap);
}
#else
// A sanitizer has its own.
bool klab::gpu::hip::GuidedReservation::works() { return false; }
#endif

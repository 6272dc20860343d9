// SPDX-License-Identifier: Apache-2.0
// Memory of this process, read without trust that it is still there. Not here: what is read.
#pragma once
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace klab::shim {

/// Through the kernel: a program that has unmapped what it registered is refused, not killed. False: not
/// readable.
inline bool read_own(std::uint64_t address, std::byte* to, std::size_t size) {
  while (size != 0) {
    const iovec mine{to, size}, from{reinterpret_cast<void*>(address), size};
    const ssize_t n = ::process_vm_readv(::getpid(), &mine, 1, &from, 1, 0);
    if (n < 0 && (errno == EPERM || errno == ENOSYS)) {  // a sandbox without the call
      std::memcpy(to, reinterpret_cast<const void*>(address), size);
      return true;
    }
    if (n <= 0) return false;
    address += static_cast<std::uint64_t>(n), to += n, size -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace klab::shim

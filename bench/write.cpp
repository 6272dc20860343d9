// SPDX-License-Identifier: Apache-2.0
// memcpy + write + fsync of so many bytes: what a capture of them costs at least. Prints nanoseconds.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_write FILE BYTES\n");
    return 2;
  }
  const std::size_t size = std::strtoull(argv[2], nullptr, 10);
  std::vector<std::uint64_t> from(size / 8), to(size / 8);
  std::uint64_t x = 1;
  for (std::uint64_t& word : from) word = x = x * 6364136223846793005ull + 1442695040888963407ull;
  std::memset(to.data(), 1, to.size() * 8);  // pages are there before the clock starts

  const auto start = std::chrono::steady_clock::now();
  std::memcpy(to.data(), from.data(), from.size() * 8);
  const int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const char* at = reinterpret_cast<const char*>(to.data());
  std::size_t left = to.size() * 8;
  while (fd >= 0 && left > 0) {
    const ssize_t n = write(fd, at, left);
    if (n <= 0) break;
    at += n, left -= static_cast<std::size_t>(n);
  }
  const bool ok = fd >= 0 && left == 0 && fsync(fd) == 0;
  const auto end = std::chrono::steady_clock::now();
  if (fd >= 0) close(fd);
  if (!ok) {
    std::perror(argv[1]);
    return 1;
  }
  std::printf("%lld\n", static_cast<long long>(std::chrono::nanoseconds(end - start).count()));
}

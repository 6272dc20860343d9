// SPDX-License-Identifier: Apache-2.0
// What the targets share: a scratch folder in memory, and a check that stops the fuzzer.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string_view>

#include "base/files.h"

#define FUZZ_CHECK(expression)                                  \
  do {                                                          \
    if (!(expression)) {                                        \
      std::fprintf(stderr, "does not hold: %s\n", #expression); \
      std::abort();                                             \
    }                                                           \
  } while (false)

namespace klab::fuzz {

/// A folder of this process. tools/fuzz gives a parent in memory and removes it: libFuzzer ends without exit
/// handlers.
inline const fs::path& scratch() {
  static const fs::path folder = [] {
    const char* parent = std::getenv("KLAB_FUZZ_SCRATCH");
    const fs::path path = (parent != nullptr ? fs::path(parent) : fs::temp_directory_path()) /
                          ("klab-fuzz-" + std::to_string(::getpid()));
    fs::create_directories(path);
    return path;
  }();
  return folder;
}

inline void write_plain(const fs::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace klab::fuzz

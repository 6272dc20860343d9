// SPDX-License-Identifier: Apache-2.0
// klab-compile: one JSON request on stdin, one JSON answer on stdout. Started by klab; by hand for a bug
// report.
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "compile/service.h"

namespace {

constexpr std::size_t kMaxRequest = 1u << 30;
constexpr char kHelp[] =
    "klab-compile: compiles and inspects shaders for klab\n"
    "\n"
    "  klab-compile < request.json > answer.json\n"
    "  echo '{\"verb\": \"reflect\", \"source\": \"a.spv\"}' | klab-compile\n"
    "\n"
    "verb      compile (to \"output\"), reflect, disassemble, batch\n"
    "language  glsl, spirv (.spv, or .spvasm text)\n"
    "options   include_folders, defines, optimisation (none, size, performance),\n"
    "          target (vulkan1.2 or vulkan1.2,spv1.5), entry_point, debug_info\n"
    "\n"
    "Exit code: 0 when there is an answer, also one with an error; 2 when stdin holds no request.\n";

void limit_resources() {
  rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // A compiler that runs away must not take the machine with it.
  rlimit memory{8ull << 30, 8ull << 30};
  ::setrlimit(RLIMIT_DATA, &memory);
#endif
}

bool read_all(std::string& text) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(0, buffer, sizeof buffer);
    if (n == 0) return true;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || text.size() + static_cast<std::size_t>(n) > kMaxRequest) return false;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace klab;
  if (argc > 1) {
    const bool help = std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0;
    std::fputs(kHelp, help ? stdout : stderr);
    return help ? 0 : 2;
  }
  limit_resources();
  std::string text;
  if (!read_all(text)) {
    std::fputs("klab-compile: the request cannot be read\n", stderr);
    return 2;
  }
  auto json = parse_json(text, "request", kMaxRequest);
  auto request =
      json ? decode_json<compile::Request>(*json, "request") : Result<compile::Request>(fail(json.error()));
  if (!request) {
    std::fprintf(stderr, "klab-compile: %s\n", request.error().what.c_str());
    return 2;
  }
  const compile::Answer answer = compile::serve(*request);
  // Sources may hold any bytes; JSON may not.
  const std::string out = Json(answer).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (auto s = write_all(1, std::as_bytes(std::span(out))); !s) {
    std::fprintf(stderr, "klab-compile: %s\n", s.error().what.c_str());
    return 2;
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// klab-compile: one JSON request on stdin, one JSON answer on stdout. Started by klab; by hand for a bug
// report.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "compile/cuda/scratch.h"
#include "compile/service.h"

namespace {

constexpr std::size_t kMaxRequest = 1u << 30;
constexpr char kHelp[] =
    "klab-compile: compiles and inspects shaders and CUDA kernels for klab\n"
    "\n"
    "  klab-compile < request.json > answer.json\n"
    "  echo '{\"verb\": \"reflect\", \"source\": \"a.spv\"}' | klab-compile\n"
    "\n"
    "  klab-compile --serve    one request a line, one answer a line, until the end of stdin\n"
    "\n"
    "verb      compile (to \"output\"), reflect, disassemble, tools, batch\n"
    "language  glsl, spirv (.spv, or .spvasm text), cuda, ptx, cubin, hip, hsaco\n"
    "options   include_folders, defines, optimisation (none, size, performance),\n"
    "          target (vulkan1.2 or vulkan1.2,spv1.5), entry_point, debug_info;\n"
    "          CUDA: arch (sm_90a), compiler (auto, nvrtc, nvcc), standard, kernel, fast_math, line_info,\n"
    "          max_registers, extra; HIP: arch (gfx1030), compiler (auto, hipcc, hiprtc), hipcc, and those\n"
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

/// Up to and with the next newline; the rest stays in `text`. Empty at the end.
std::string take_line(std::string& text) {
  char buffer[1 << 16];
  std::size_t searched = 0;
  for (;;) {
    const std::size_t end = text.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = text.substr(0, end + 1);
      text.erase(0, end + 1);
      return line;
    }
    searched = text.size();
    const ssize_t n = ::read(0, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || text.size() + static_cast<std::size_t>(n) > kMaxRequest) return {};
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

/// False when the text is no request or the answer cannot be written.
bool answer(const std::string& text, int out, std::string_view end) {
  using namespace klab;
  auto json = parse_json(text, "request", kMaxRequest);
  auto request =
      json ? decode_json<compile::Request>(*json, "request") : Result<compile::Request>(fail(json.error()));
  if (!request) {
    std::fprintf(stderr, "klab-compile: %s\n", request.error().what.c_str());
    return false;
  }
  // Sources may hold any bytes; JSON may not.
  std::string line = Json(compile::serve(*request)).dump(-1, ' ', false, Json::error_handler_t::replace);
  line += end;
  if (auto s = write_all(out, std::as_bytes(std::span(line))); !s) {
    std::fprintf(stderr, "klab-compile: %s\n", s.error().what.c_str());
    return false;
  }
  return true;
}

int serve_lines() {
  // A compiler that prints must not spoil an answer: what goes to stdout from here on goes to stderr.
  const int out = ::fcntl(1, F_DUPFD_CLOEXEC, 3);
  if (out < 0 || ::dup2(2, 1) < 0) return 2;
  klab::compile::Scratch::sweep();
  klab::compile::Scratch scratch;
  if (scratch.ok()) klab::compile::stay_warm(scratch.path());
  std::string pending;
  for (std::string line = take_line(pending); !line.empty(); line = take_line(pending))
    if (!answer(line, out, "\n")) return 2;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool serving = argc == 2 && std::strcmp(argv[1], "--serve") == 0;
  if (argc > 1 && !serving) {
    const bool help = std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0;
    std::fputs(kHelp, help ? stdout : stderr);
    return help ? 0 : 2;
  }
  limit_resources();
  if (serving) return serve_lines();
  std::string text;
  if (!read_all(text)) {
    std::fputs("klab-compile: the request cannot be read\n", stderr);
    return 2;
  }
  return answer(text, 1, "") ? 0 : 2;
}

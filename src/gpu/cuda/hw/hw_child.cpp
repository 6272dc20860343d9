// SPDX-License-Identifier: Apache-2.0
// What must run in a process of its own: placing at addresses that must still be free, and launches that end
// a context.
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "base/subprocess.h"
#include "gpu/cuda/hw/hw.h"

namespace klab::gpu::hw {
namespace {

namespace embedded {
struct Embedded {
  std::string_view name;
  const unsigned char* bytes;
  std::size_t size;
};
#include "hw_kernels.inc"
}  // namespace embedded

[[noreturn]] void leave(int code, const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  ::_exit(code);
}

int code_of(const Error& e) {
  switch (e.code) {
    case ErrorCode::address_collision:
      return kCollision;
    case ErrorCode::device_fault:
      return kDeviceFault;
    case ErrorCode::timeout:
      return kTimeout;
    case ErrorCode::environment:
    case ErrorCode::no_device:
      return kNoDevice;
    default:
      return kFailed;
  }
}

template <class T>
T need(Result<T> result, const char* doing) {
  if (!result)
    leave(code_of(result.error()),
          fmt::format("{}: {} [{}]", doing, result.error().what, result.error().vendor));
  return std::move(*result);
}

/// ADDRESS SIZE KIND ...: places all of it exactly, writes and reads each back.
void place_and_check(int argc, char** argv) {
  auto device = need(open_device(), "open");
  std::vector<MemoryRequest> requests;
  for (int i = 2; i + 2 < argc; i += 3) {
    MemoryRequest r{.address = std::strtoull(argv[i], nullptr, 0),
                    .size = std::strtoull(argv[i + 1], nullptr, 0)};
    from_string(argv[i + 2], r.kind);
    requests.push_back(r);
  }
  std::string kinds;
  for (int round = 0; round < 2; ++round) {  // the second time in address space that was kept
    const auto placed = need(device->place(requests, true), round == 0 ? "place" : "place again");
    for (std::size_t i = 0; i < placed.size(); ++i) {
      if (placed[i].address != requests[i].address)
        leave(kFailed, fmt::format("asked {:#x}, placed {:#x}", requests[i].address, placed[i].address));
      std::vector<std::byte> out(requests[i].size, static_cast<std::byte>(i + 1)), in(requests[i].size);
      if (auto s = device->upload(placed[i].id, 0, out); !s)
        leave(code_of(s.error()), "upload: " + s.error().what);
      kinds += placed[i].pool + " ";
    }
    for (std::size_t i = 0; i < placed.size(); ++i) {
      std::vector<std::byte> in(requests[i].size);
      if (auto s = device->download(placed[i].id, 0, in); !s)
        leave(code_of(s.error()), "download: " + s.error().what);
      if (in != std::vector<std::byte>(requests[i].size, static_cast<std::byte>(i + 1)))
        leave(kFailed, fmt::format("memory {} does not hold what was written", i));
      device->release(placed[i].id);
    }
  }
  leave(kDone, kinds);
}

/// Where a program's own allocations lie: addresses to be had again.
void print_addresses(int argc, char** argv) {
  auto device = need(open_device(), "open");
  std::string text;
  for (int i = 2; i < argc; ++i)
    text += fmt::format("{:#x} ",
                        need(allocate(*device, std::strtoull(argv[i], nullptr, 0)), "allocate").address);
  leave(kDone, text);
}

void fault(const std::string& kernel) {
  auto device = need(open_device(), "open");
  const CodeId code = need(device->load(test_code()), "load");
  Arguments arguments;
  const auto flag = need(allocate(*device, 256), "allocate");
  if (kernel == "bad_write") {
    arguments.add<std::uint64_t>(0xdead00000000);
  } else {
    arguments.add<std::uint64_t>(flag.address);
    need(run(*device, {Step::fill_of(flag.id, 0, 256, 0)}), "fill");
  }
  const LaunchId launch =
      need(prepare(*device, code, kernel.c_str(), {1, 1, 1}, {1, 1, 1}, arguments), "prepare");
  const auto result = run(*device, {Step::launch_of(launch, true)}, 1.0);
  if (result) leave(kDone, "it ended well");
  const auto again = run(*device, {Step::launch_of(launch, true)}, 1.0);
  leave(code_of(result.error()), fmt::format("{} [{}]; then: {}", result.error().what, result.error().vendor,
                                             again ? "ran" : again.error().what));
}

}  // namespace

std::span<const std::byte> test_code() {
  return std::as_bytes(std::span(embedded::kEmbedded[0].bytes, embedded::kEmbedded[0].size));
}

Result<std::unique_ptr<Device>> open_device() {
  KLAB_TRY(Api * api, find_api("cuda"));
  const char* selector = ::getenv("KLAB_TEST_DEVICE");
  return api->open(selector != nullptr ? selector : "");
}

Result<LaunchId> prepare(Device& device, CodeId code, const char* kernel, bundle::Dim3 grid,
                         bundle::Dim3 block, std::vector<std::byte> arguments) {
  LaunchSpec spec;
  spec.code = code;
  spec.entry_point = kernel;
  spec.grid = grid;
  spec.block = block;
  spec.arguments = std::move(arguments);
  return device.prepare(spec);
}

Result<LaunchId> builtin(Device& device, const char* name, std::vector<LaunchSpec::Bound> bindings,
                         std::span<const std::byte> push, bundle::Dim3 grid) {
  LaunchSpec spec;
  KLAB_TRY(spec.code, device.load(device.builtin_kernel(name)));
  spec.grid = grid;
  spec.bindings = std::move(bindings);
  spec.push_constants.assign(push.begin(), push.end());
  return device.prepare(spec);
}

Result<Placed> allocate(Device& device, std::uint64_t size) {
  const MemoryRequest request{.size = size, .needs_address = true};
  KLAB_TRY(const auto placed, device.place(std::span(&request, 1), false));
  return placed[0];
}

Result<BatchResult> run(Device& device, std::vector<Step> steps, double seconds) {
  return device.run(steps, static_cast<std::uint64_t>(seconds * 1e9));
}

void child_main(int argc, char** argv) {
  if (argc < 2) return;
  const std::string mode = argv[1];
  if (mode == "--place") place_and_check(argc, argv);
  if (mode == "--addresses") print_addresses(argc, argv);
  if (mode == "--launch" && argc > 2) fault(argv[2]);
}

ChildResult run_child(const std::vector<std::string>& arguments) {
  ChildResult result;
  SpawnOptions options{.argv = {"/proc/self/exe"}, .die_with_parent = true};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  const auto start = std::chrono::steady_clock::now();
  const auto finished = run_program(std::move(options), {}, std::chrono::seconds(60));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!finished) {
    result.output = finished.error().what;
    return result;
  }
  result.code = finished->status.signal != 0 ? 128 + finished->status.signal : finished->status.code;
  result.output = finished->out + finished->err;
  if (finished->timed_out) result.output += " (killed after 60 s)";
  return result;
}

}  // namespace klab::gpu::hw

// SPDX-License-Identifier: Apache-2.0
// Device time that checking a result of 64 MiB adds to a launch: by hash (bitwise), by value (numeric), and blanking
// masked elements before a hash. bench_validation_cost API [MIB]. Prints one JSON object with medians in milliseconds,
// and what bringing the same bytes to the host takes, which is what Klab does not do.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include <fmt/format.h>

#include "base/json.h"
#include "worker/gpu.h"
#include "kernels/kernels.h"

namespace {

using namespace klab;
constexpr int kRounds = 51;

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

[[noreturn]] void give_up(const Error& error) {
  std::fputs((error.what + "\n").c_str(), stderr);
  std::exit(1);
}
template <class T>
T need(Result<T> r) {
  if (!r) give_up(r.error());
  return std::move(*r);
}

/// Median device time of one launch, in ms; the first ones warm up.
double time_of(worker::Gpu& gpu, const worker::Launch& launch) {
  std::vector<double> ms;
  for (int i = 0; i < kRounds; ++i) {
    const gpu::Step step = gpu::Step::launch_of(launch.id(), true);
    const auto ran = need(gpu.run(std::span(&step, 1), 60'000'000'000));
    if (i >= 3) ms.push_back(ran.launch_ns[0] / 1e6);
  }
  return median(ms);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: bench_validation_cost cuda|vulkan [MIB]\n", stderr);
    return 2;
  }
  const std::uint64_t size = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 64) << 20;
  worker::Gpu gpu(need(need(gpu::find_api(argv[1]))->open("")));
  const gpu::MemoryRequest requests[] = {{.size = size, .needs_address = gpu.abilities().device_addresses},
                                         {.size = size, .needs_address = gpu.abilities().device_addresses}};
  const auto placed = need(gpu->place(requests, false));
  std::vector<std::byte> host(size);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  if (auto done = gpu->upload(placed[0].id, 0, host); !done) give_up(done.error());
  // The second as an expected outcome lies there.
  std::vector<std::byte> veiled(size);
  for (std::size_t i = 0; i < size; i += 4) {
    std::uint32_t w = 0;
    std::memcpy(&w, host.data() + i, 4);
    w ^= kernels::veil(static_cast<std::uint32_t>(i / 4), 0);
    std::memcpy(veiled.data() + i, &w, 4);
  }
  if (auto done = gpu->upload(placed[1].id, 0, veiled); !done) give_up(done.error());
  Json out{{"device", gpu->identity().name}, {"mib", size >> 20}, {"rounds", kRounds - 3}};

  constexpr std::uint32_t kChunk = 1u << 20;
  const auto chunks = static_cast<std::uint32_t>(size / kChunk);
  const auto results = need(gpu.allocate(chunks * sizeof(kernels::Hash)));
  const kernels::HashPush push{chunks, 0};
  worker::Memory list;
  worker::Launch hash;
  if (placed[0].address != 0) {
    std::vector<kernels::HashAddressChunk> entries;
    for (std::uint32_t i = 0; i < chunks; ++i) entries.push_back({placed[0].address + std::uint64_t{i} * kChunk, kChunk, 0});
    list = need(gpu.allocate(entries.size() * sizeof entries[0]));
    if (auto done = gpu->upload(list.id(), 0, std::as_bytes(std::span(entries))); !done) give_up(done.error());
    const worker::BuiltinBinding bindings[] = {{list.id(), 0, entries.size() * sizeof entries[0]}, {results.id(), 0, chunks * sizeof(kernels::Hash)}};
    hash = need(gpu.builtin("hash_address", bindings, std::as_bytes(std::span(&push, 1)), {chunks, 1, 1}));
    out["hash_ms"] = time_of(gpu, hash);
  }
  const auto found = need(gpu.allocate(sizeof(kernels::ValuesResult)));
  for (const auto& [name, type, bytes] : {std::tuple{"values_f32_ms", kernels::ValueType::f32, 4u},
                                          std::tuple{"values_f16_ms", kernels::ValueType::f16, 2u}}) {
    const kernels::ValuesPush v{.count = static_cast<std::uint32_t>(size / bytes), .stride = bytes, .type = type,
                                .absolute = 1e30f, .relative = 1};
    const worker::BuiltinBinding bindings[] = {{placed[0].id, 0, size}, {placed[1].id, 0, size}, {found.id(), 0, sizeof(kernels::ValuesResult)}};
    const auto launch = need(gpu.builtin("compare_values", bindings, std::as_bytes(std::span(&v, 1)), {kernels::striding_grid(size), 1, 1}));
    out[name] = time_of(gpu, launch);
  }
  {
    const auto mask = need(gpu.allocate(size / 8));
    std::vector<std::byte> none(size / 8);
    if (auto done = gpu->upload(mask.id(), 0, none); !done) give_up(done.error());
    const kernels::PoisonPush p{0, static_cast<std::uint32_t>(size), {0, 0}};
    const worker::BuiltinBinding bindings[] = {{placed[0].id, 0, size}, {mask.id(), 0, size / 8}};
    out["blank_ms"] = time_of(gpu, need(gpu.builtin("poison", bindings, std::as_bytes(std::span(&p, 1)), {kernels::striding_grid(size), 1, 1})));
  }
  std::vector<double> ms;
  for (int i = 0; i < 9; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (auto done = gpu->download(placed[0].id, 0, host); !done) give_up(done.error());
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  out["to_host_ms"] = median(ms);
  std::puts(out.dump(1).c_str());
  std::fflush(stdout);
  std::_Exit(0);  // as the worker does: no driver is unloaded
}

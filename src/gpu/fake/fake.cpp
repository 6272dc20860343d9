// SPDX-License-Identifier: Apache-2.0
// Memory, launches and scripted faults of the fake device.
#include "gpu/fake/fake.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "gpu/fake/program.h"
#include "kernels/kernels.h"

namespace klab::gpu {
namespace {

using namespace fake;
using Clock = std::chrono::steady_clock;

std::uint64_t page_size() { return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }
std::uint64_t round_up(std::uint64_t v, std::uint64_t to) { return (v + to - 1) / to * to; }

/// One mapping, shared by the memories that lie in it.
struct Mapping {
  std::byte* start = nullptr;
  std::uint64_t size = 0;
  Mapping(std::byte* s, std::uint64_t n) : start(s), size(n) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(start, size); }
};

struct Memory {
  std::shared_ptr<Mapping> mapping;
  std::byte* start = nullptr;
  std::uint64_t size = 0;
};

constexpr std::uint64_t kMaxAllocation = 8ull << 30;

Listed listed(bool full) {
  Listed l;
  l.identity = {.api = "fake",
                .name = full ? "Fake full" : "Fake plain",
                .driver = "fake",
                .driver_version = "1",
                .api_version = "1",
                .uuid = full ? "fa6e0000000000000000000000000001" : "fa6e0000000000000000000000000002",
                .type = "cpu"};
  l.abilities.fixed_addresses = full;
  l.abilities.fixed_addresses_by = full ? "fixed mapping" : "";
  l.abilities.device_addresses = true;
  l.abilities.memory_pools = full;
  l.abilities.max_allocation = kMaxAllocation;
  l.abilities.last_level_cache = full ? 64u << 10 : 0;
  l.abilities.max_block_threads = 1024;
  l.abilities.unaligned_hashes = l.abilities.double_values = true;
  l.abilities.subgroup_size = l.abilities.min_subgroup_size = l.abilities.max_subgroup_size = 1;
  return l;
}

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(bool full) : full_(full), listed_(listed(full)), random_(std::random_device{}()) {}

  const bundle::DeviceIdentity& identity() const override { return listed_.identity; }
  const Abilities& abilities() const override { return listed_.abilities; }

  Result<std::vector<Placed>> place(std::span<const MemoryRequest> requests, bool exact) override {
    std::vector<Memory> made(requests.size());
    std::vector<Placed> placed(requests.size());
    for (const auto& r : requests) {
      if (r.size == 0 || r.size > kMaxAllocation)
        return fail(ErrorCode::out_of_memory, fmt::format("{} bytes cannot be allocated", r.size));
      if (!r.pool.empty() && !full_)
        return fail(ErrorCode::unsupported, "this device has one memory: --memory makes no difference");
      if (!r.pool.empty() && r.pool != "device" && r.pool != "host")
        return fail(ErrorCode::unsupported, fmt::format("no memory pool \"{}\"", r.pool), "device or host");
    }
    if (exact) KLAB_TRY_VOID(place_exact(requests, made));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto& r = requests[i];
      if (!made[i].mapping) {
        // A page that cannot be touched follows each memory.
        const std::uint64_t size = round_up(r.size, page_size());
        void* p = ::mmap(nullptr, size + page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                         -1, 0);
        if (p == MAP_FAILED || ::mprotect(p, size, PROT_READ | PROT_WRITE) != 0)
          return fail(ErrorCode::out_of_memory, fmt::format("no room for {} bytes", r.size), {}, errno);
        auto mapping = std::make_shared<Mapping>(static_cast<std::byte*>(p), size + page_size());
        made[i] = {mapping, mapping->start, r.size};
        // "Contents are undefined": never zeros, so that nobody relies on them.
        if (r.size <= 64u << 20) std::memset(mapping->start, 0xcd, size);
      }
      placed[i].id = next_++;
      placed[i].address =
          r.address != 0 || r.needs_address ? reinterpret_cast<std::uint64_t>(made[i].start) : 0;
      placed[i].pool = r.pool.empty() ? "device" : r.pool;
      memories_[placed[i].id] = made[i];
    }
    return placed;
  }

  void release(MemoryId memory) override { memories_.erase(memory); }

  Status upload(MemoryId memory, std::uint64_t offset, std::span<const std::byte> bytes) override {
    KLAB_TRY(auto to, range(memory, offset, bytes.size()));
    std::memcpy(to.data(), bytes.data(), bytes.size());
    return {};
  }
  Status download(MemoryId memory, std::uint64_t offset, std::span<std::byte> bytes) override {
    KLAB_TRY(auto from, range(memory, offset, bytes.size()));
    std::memcpy(bytes.data(), from.data(), bytes.size());
    return {};
  }
  std::byte* host_view(MemoryId memory) override {
    const auto it = memories_.find(memory);
    return full_ && it != memories_.end() ? it->second.start : nullptr;
  }

  Result<CodeId> load(std::span<const std::byte> code) override {
    KLAB_TRY(auto program, parse_program(code));
    const CodeId id = next_++;
    for (const auto& [name, size] : program.variables) {
      const MemoryRequest request{.size = size, .needs_address = true};
      KLAB_TRY(const auto placed, place(std::span(&request, 1), false));
      variables_[id][name] = placed[0];
      std::memset(memories_.at(placed[0].id).start, 0, size);  // as a module's are
    }
    programs_[id] = std::move(program);
    return id;
  }
  void unload(CodeId code) override {
    for (const auto& [name, placed] : variables_[code]) memories_.erase(placed.id);
    variables_.erase(code);
    programs_.erase(code);
  }
  Result<Placed> symbol(CodeId code, std::string_view name, std::uint64_t size) override {
    const auto it = variables_[code].find(name);
    if (it == variables_[code].end())
      return fail(ErrorCode::missing_symbol, fmt::format("the code has no variable {}", name));
    if (memories_.at(it->second.id).size != size)
      return fail(ErrorCode::invalid_data,
                  fmt::format("variable {} has {} bytes in this code, {} in the capture", name,
                              memories_.at(it->second.id).size, size));
    return it->second;
  }
  std::vector<Variable> variables(CodeId code, std::string&) override {
    std::vector<Variable> list;
    for (const auto& [name, placed] : variables_[code]) list.push_back({name, memories_.at(placed.id).size, false});
    return list;
  }
  Result<std::vector<std::string>> entry_points(CodeId code) override {
    return std::vector<std::string>{programs_.at(code).entry};
  }

  Result<LaunchId> prepare(const LaunchSpec& spec) override {
    const auto it = programs_.find(spec.code);
    KLAB_CHECK(it != programs_.end());
    if (spec.entry_point != it->second.entry)
      return fail(ErrorCode::missing_symbol,
                  fmt::format("no entry point \"{}\"; it has \"{}\"", spec.entry_point, it->second.entry));
    for (const Fault& f : it->second.faults)
      if (f.kind == FaultKind::fail_prepare) return fail(ErrorCode::launch_failed, "scripted: prepare fails");
    for (int i = 0; i < 3; ++i)
      if (spec.grid[i] == 0 || spec.grid[i] > listed_.abilities.max_grid[i])
        return fail(ErrorCode::launch_failed,
                    fmt::format("grid of {} workgroups in dimension {}", spec.grid[i], i));
    for (const auto& b : spec.bindings) KLAB_TRY_VOID(bound(b));
    launches_[next_] = spec;
    return next_++;
  }
  void discard(LaunchId launch) override { launches_.erase(launch); }

  Result<Resources> resources(LaunchId) override {
    Resources r;
    r.vector_registers = 1;
    r.subgroup_size = 1;
    r.driver = {{"kernels", "built in"}};
    return r;
  }

  Result<BatchResult> run(std::span<const Step> steps, std::uint64_t timeout_ns) override {
    if (lost_) return fail(ErrorCode::device_fault, "the device was lost earlier");
    const auto start = Clock::now();
    BatchResult result;
    for (const Step& s : steps) {
      if (s.kind == Step::Kind::launch) {
        KLAB_TRY(const double ns, launch(s.launch, timeout_ns));
        if (s.timed) result.launch_ns.push_back(ns);
        continue;
      }
      if (s.kind == Step::Kind::images_in || s.kind == Step::Kind::images_out) continue;
      KLAB_TRY(auto to, range(s.to, s.to_offset, s.size));
      if (s.kind == Step::Kind::copy) {
        KLAB_TRY(auto from, range(s.from, s.from_offset, s.size));
        std::memmove(to.data(), from.data(), s.size);
      } else {
        if (s.size % 4 != 0 || s.to_offset % 4 != 0)
          return fail(ErrorCode::internal, "fill is not of whole words");
        for (std::uint64_t i = 0; i < s.size; i += 4) std::memcpy(to.data() + i, &s.value, 4);
      }
    }
    result.wall_ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    return result;
  }

  std::span<const std::byte> builtin_kernel(std::string_view name) const override {
    static const std::map<std::string, std::string, std::less<>> texts = [] {
      std::map<std::string, std::string, std::less<>> t;
      for (const std::string_view n : kernels::kToolKernels)
        if (find_kernel(n) != nullptr) t[std::string(n)] = fmt::format("klab-fake 1\nkernel {}\n", n);
      return t;
    }();
    const auto it = texts.find(name);
    if (it == texts.end()) return {};
    return std::as_bytes(std::span(it->second));
  }

 private:
  /// Maps the union of all wanted pages, so that regions may share one.
  Status place_exact(std::span<const MemoryRequest> requests, std::vector<Memory>& made) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;  // [start, end)
    for (const auto& r : requests) {
      if (r.address == 0) continue;
      if (!full_) return fail(ErrorCode::address_collision, "this device cannot place memory at an address");
      if (r.address + r.size > 1ull << 47)
        return fail(ErrorCode::address_collision, "outside the address space");
      spans.emplace_back(r.address / page_size() * page_size(), round_up(r.address + r.size, page_size()));
    }
    std::sort(spans.begin(), spans.end());
    std::vector<std::shared_ptr<Mapping>> mappings;
    for (std::size_t i = 0; i < spans.size();) {
      auto [start, end] = spans[i];
      for (++i; i < spans.size() && spans[i].first <= end; ++i) end = std::max(end, spans[i].second);
      void* p = ::mmap(reinterpret_cast<void*>(start), end - start, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
      if (p != MAP_FAILED && reinterpret_cast<std::uint64_t>(p) != start) {
        ::munmap(p, end - start);
        p = MAP_FAILED;
      }
      if (p == MAP_FAILED)
        return fail(ErrorCode::address_collision,
                    fmt::format("address {:#x} is taken in this process", start));
      mappings.push_back(std::make_shared<Mapping>(static_cast<std::byte*>(p), end - start));
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].address == 0) continue;
      auto* at = reinterpret_cast<std::byte*>(requests[i].address);
      for (const auto& m : mappings)
        if (at >= m->start && at < m->start + m->size) made[i] = {m, at, requests[i].size};
    }
    return {};
  }

  Result<std::span<std::byte>> range(MemoryId memory, std::uint64_t offset, std::uint64_t size) {
    const auto it = memories_.find(memory);
    KLAB_CHECK(it != memories_.end());
    if (offset > it->second.size || size > it->second.size - offset)
      return fail(ErrorCode::internal,
                  fmt::format("[{}, +{}) leaves a memory of {} bytes", offset, size, it->second.size));
    return std::span(it->second.start + offset, size);
  }

  /// As range(), but a range rounded up to whole words may end past the memory: it stays in its last page.
  Result<std::span<std::byte>> bound(const LaunchSpec::Bound& b) {
    const auto it = memories_.find(b.memory);
    KLAB_CHECK(it != memories_.end());
    if (b.offset > it->second.size || b.range > round_up(it->second.size, 4) - b.offset)
      return fail(ErrorCode::launch_failed, fmt::format("binding {}: [{}, +{}) leaves a memory of {} bytes",
                                                        b.binding, b.offset, b.range, it->second.size));
    return std::span(it->second.start + b.offset, b.range);
  }

  std::span<std::byte> at(std::uint64_t address, std::uint64_t size) {
    auto* p = reinterpret_cast<std::byte*>(address);
    for (auto& [id, m] : memories_)
      if (p >= m.start && p < m.start + m.size && size <= static_cast<std::uint64_t>(m.start + m.size - p))
        return {p, size};
    return {};
  }

  Result<double> launch(LaunchId id, std::uint64_t timeout_ns) {
    const auto it = launches_.find(id);
    KLAB_CHECK(it != launches_.end());
    const LaunchSpec& spec = it->second;
    Program& program = programs_.at(spec.code);
    const std::uint64_t number = ++program.launches;
    Call call{
        .spec = &spec,
        .view = [this](const LaunchSpec::Bound& b) { return bound(b).value_or(std::span<std::byte>{}); },
        .at = [this](std::uint64_t a, std::uint64_t n) { return at(a, n); },
        .variable = [&](std::string_view name) -> std::span<std::byte> {
          const auto& variables = variables_[spec.code];
          const auto found = variables.find(name);
          if (found == variables.end()) return {};
          const Memory& m = memories_.at(found->second.id);
          return {m.start, m.size};
        },
        .launch = number,
        .chance = random_()};
    auto due = [&](FaultKind kind) {
      return std::any_of(program.faults.begin(), program.faults.end(),
                         [&](const Fault& f) { return f.kind == kind && (f.at == 0 || f.at == number); });
    };
    if (due(FaultKind::crash)) std::abort();
    if (due(FaultKind::freeze))
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    if (due(FaultKind::hang)) {
      lost_ = true;
      std::this_thread::sleep_for(
          std::min(std::chrono::nanoseconds(timeout_ns), std::chrono::nanoseconds(20000000)));
      return fail(ErrorCode::timeout, fmt::format("launch {} did not end in time (scripted)", number));
    }
    if (due(FaultKind::device_lost)) {
      lost_ = true;
      return fail(ErrorCode::device_fault, fmt::format("device lost at launch {} (scripted)", number));
    }
    if (!program.kernel(call)) {
      lost_ = true;
      return fail(ErrorCode::device_fault, fmt::format("launch {} touched memory that is not there", number));
    }
    auto flip = [&](const LaunchSpec::Bound& b) {
      const auto bytes = call.view(b);
      if (!bytes.empty()) bytes[bytes.size() / 2] ^= std::byte{1};
    };
    if (!spec.bindings.empty()) {
      if (due(FaultKind::wrong_answer)) flip(spec.bindings.back());
      if (due(FaultKind::stray_write)) flip(spec.bindings.front());
    }
    double ns = flushed_ && program.cold_time_ns > 0 ? program.cold_time_ns : program.time_ns;
    ns *= std::pow(1 + program.drift, static_cast<double>(number - 1));
    flushed_ = program.flushes;
    return ns;
  }

  bool full_;
  Listed listed_;
  std::mt19937_64 random_;
  std::uint32_t next_ = 1;
  std::map<MemoryId, Memory> memories_;
  std::map<CodeId, Program> programs_;
  std::map<CodeId, std::map<std::string, Placed, std::less<>>> variables_;
  std::map<LaunchId, LaunchSpec> launches_;
  bool lost_ = false, flushed_ = false;
};

class FakeApi final : public Api {
 public:
  std::string_view name() const override { return "fake"; }
  Result<std::vector<Listed>> list() override { return std::vector<Listed>{listed(true), listed(false)}; }
  Result<std::unique_ptr<Device>> open(std::string_view selector, std::span<const AddressRange>) override {
    const std::vector<Listed> all{listed(true), listed(false)};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& id = all[i].identity;
      if (selector.empty() || selector == std::to_string(i) || selector == id.uuid ||
          id.name.find(selector) != std::string::npos)
        return std::make_unique<FakeDevice>(i == 0);
    }
    return fail(ErrorCode::no_device, fmt::format("no fake device \"{}\"", selector), "0 or 1");
  }
};

}  // namespace

std::unique_ptr<Api> make_fake() { return std::make_unique<FakeApi>(); }

}  // namespace klab::gpu

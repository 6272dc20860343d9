// SPDX-License-Identifier: Apache-2.0
// Trace mode: rows of all processes become one dispatch list.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "capture/calls.h"
#include "capture/server.h"
#include "capture/spirv.h"

namespace klab::capture {
namespace {

constexpr std::size_t kMaxRows = 100'000'000;

class TraceSink : public Sink {
 public:
  klab_config config() const override {
    klab_config c{};
    c.mode = KLAB_MODE_TRACE;
    return c;
  }
  Status message(Process& p, const klab_header& header, std::span<const std::byte> packet) override {
    if (header.type == KLAB_NOTE && notes_.size() < 100) {
      klab_text r;
      std::memcpy(&r, packet.data(), sizeof r);
      std::vector<std::string> texts;
      if (read_texts(packet, sizeof r, {r.what_length, r.why_length}, texts))
        notes_.push_back(texts[0] + " " + texts[1]);
    }
    if (header.type != KLAB_ROWS) return {};
    KLAB_TRY(const auto rows, read_list<klab_row>(packet));
    if (total_ + rows.size() > kMaxRows)
      return fail(ErrorCode::cap_reached,
                  fmt::format("more than {} dispatches; the list ends here", kMaxRows));
    total_ += rows.size();
    auto& mine = rows_[p.number];
    for (const klab_row& r : rows)
      if (p.kernels.count(r.kernel) != 0) mine.push_back(r);
    return {};
  }
  // Rows that a process had not sent when it ended, however it ended.
  void closed(Process& p) override {
    if (p.ring == nullptr) return;
    const std::byte* slot = p.ring + std::size_t{KLAB_SLOTS - 1} * KLAB_SLOT_BYTES;
    klab_pending pending;
    std::memcpy(&pending, slot, sizeof pending);
    if (pending.count > KLAB_MAX_PENDING || total_ + pending.count > kMaxRows) return;
    std::vector<klab_row> rows(pending.count);
    if (pending.count != 0) std::memcpy(rows.data(), slot + sizeof pending, rows.size() * sizeof(klab_row));
    for (const klab_row& r : rows)
      if (p.kernels.count(r.kernel) != 0) rows_[p.number].push_back(r);
    total_ += rows.size();
  }
  std::map<std::size_t, std::vector<klab_row>> rows_;
  std::vector<std::string> notes_;
  std::size_t total_ = 0;
};

// CUDA's rows come as the GPU finished, each with the number of the call that it came by: sorted by that, and the nodes
// of one graph launch by their time, they are numbered here as a capture counts them.
void number_rows(std::vector<klab_row>& rows) {
  if (rows.empty() || rows[0].nth != 0) return;
  constexpr unsigned kCallShift = 24;
  std::sort(rows.begin(), rows.end(), [](const klab_row& a, const klab_row& b) {
    const std::uint64_t x = a.sequence >> kCallShift, y = b.sequence >> kCallShift;
    return x != y ? x < y : a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.sequence < b.sequence;
  });
  std::map<std::uint32_t, std::uint64_t> executions;
  std::uint64_t sequence = 0;
  for (klab_row& r : rows) {
    r.sequence = ++sequence;
    r.nth = ++executions[r.kernel];
  }
}

// The block that all of a kernel's rows have; CUDA programs choose it at every launch.
void fill_blocks(import::DispatchList& list) {
  std::vector<int> state(list.kernels.size());  // 0: none seen, 1: one block, 2: several
  for (const import::Row& r : list.rows) {
    if (r.block[0] == 0) continue;
    bundle::Dim3& block = list.kernels[r.kernel].block;
    int& s = state[r.kernel];
    if (s == 0)
      block = r.block, s = 1;
    else if (s == 1 && block != r.block)
      block = {0, 0, 0}, s = 2;
  }
}

// Kernels of several processes are one when their hash is; a name that means two is made to say which.
std::uint32_t place_kernel(import::DispatchList& list, std::map<std::uint64_t, std::uint32_t>& by_hash,
                           std::set<std::string>& names, const KernelSeen& k) {
  if (const auto it = by_hash.find(k.hash); it != by_hash.end()) return it->second;
  import::Kernel kernel;
  kernel.name = k.name;
  kernel.hash = fmt::format("{:016x}", k.hash);
  if (!names.insert(kernel.name).second) {
    kernel.name += "@" + kernel.hash.substr(0, 8);
    names.insert(kernel.name);
  }
  kernel.entry_point = k.entry;
  kernel.code_hash = to_string(k.code_hash);
  kernel.refusal = k.refusal;
  std::vector<bundle::SpecConstant> spec;
  for (const klab_spec& s : k.spec)
    if (s.size <= 8) {
      const auto* value = reinterpret_cast<const std::byte*>(s.value);
      spec.push_back({s.id, Bytes(std::vector<std::byte>(value, value + s.size))});
    }
  if (k.code.size() == k.code_size) kernel.block = workgroup_size(k.code, k.entry, spec);
  list.kernels.push_back(std::move(kernel));
  return by_hash[k.hash] = static_cast<std::uint32_t>(list.kernels.size() - 1);
}

}  // namespace

Result<import::DispatchList> trace(const Target& target, const OnProgress& progress,
                                   const Cancelled& cancelled) {
  TraceSink sink;
  if (progress) progress(fmt::format("tracing {}", fmt::join(target.argv, " ")));
  KLAB_TRY(const Ended ended, serve(target, sink, false, cancelled));
  if (ended.status.signal != 0 && sink.total_ == 0)
    return fail(
        ErrorCode::target_failed,
        fmt::format("{} {} before it had dispatched anything", target.argv[0], to_string(ended.status)),
        "run it without klab: does it end the same way?");
  import::DispatchList list;
  list.source = fmt::format("traced run of {}", target.argv[0]);
  list.exit_code = ended.status.signal != 0 ? 128 + ended.status.signal : ended.status.code;
  list.program.argv = target.argv;
  std::error_code ec;
  list.program.working_folder =
      (target.working_folder.empty() ? fs::current_path(ec) : fs::absolute(target.working_folder, ec))
          .string();
  list.warnings = ended.warnings;
  std::map<std::uint64_t, std::uint32_t> by_hash;
  std::set<std::string> names;
  std::uint64_t before = 0;
  std::size_t with_rows = 0;
  for (const auto& p : ended.processes) {
    const auto found = sink.rows_.find(p->number);
    if (found == sink.rows_.end()) continue;
    auto& rows = found->second;
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
    rows.erase(std::unique(rows.begin(), rows.end(),
                           [](const auto& a, const auto& b) { return a.sequence == b.sequence; }),
               rows.end());
    number_rows(rows);
    if (with_rows++ == 0) {
      list.program.executable = p->executable;
      list.program.pid = p->pid;
      if (!p->devices.empty()) list.device = p->devices.begin()->second;
      if (p->devices.size() > 1) list.warnings.push_back("it used several devices; the first is named");
    }
    std::uint64_t last = before;
    for (const klab_row& r : rows) {
      import::Row row;
      row.kernel = place_kernel(list, by_hash, names, p->kernels.at(r.kernel));
      row.sequence = before + r.sequence;
      row.nth = r.nth;
      row.grid = {r.grid[0], r.grid[1], r.grid[2]};
      row.call = call_name(r.call);
      row.queue = r.queue;
      row.block = {r.block[0], r.block[1], r.block[2]};
      row.dynamic_shared_bytes = r.dynamic_shared_bytes;
      // Written by the target: no number that JSON cannot hold.
      row.begin_ns = r.begin_ns >= 0 && r.begin_ns < 1e19 ? r.begin_ns : 0;
      row.gpu_ns = r.gpu_ns >= 0 && r.gpu_ns < 1e19 ? r.gpu_ns : 0;
      last = std::max(last, row.sequence);
      list.rows.push_back(std::move(row));
    }
    before = last;
  }
  fill_blocks(list);
  list.warnings.insert(list.warnings.end(), sink.notes_.begin(), sink.notes_.end());
  if (with_rows > 1)
    list.warnings.push_back(
        fmt::format("{} processes dispatched; n-th is counted in each of them", with_rows));
  if (ended.processes.empty())
    list.warnings.push_back("the program neither created a Vulkan instance nor initialised CUDA or HIP");
  else if (list.rows.empty())
    list.warnings.push_back("the program dispatched nothing");
  if (ended.status.signal != 0)
    list.warnings.push_back(fmt::format("the program {}; the list ends there", to_string(ended.status)));
  return list;
}

}  // namespace klab::capture

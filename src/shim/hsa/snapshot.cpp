// SPDX-License-Identifier: Apache-2.0
#include "shim/hsa/snapshot.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "shim/common/link.h"
#include "shim/common/scan.h"
#include "shim/hsa/agents.h"
#include "shim/hsa/memory.h"
#include "shim/hsa/metadata.h"
#include "shim/launch/own_memory.h"
#include "shim/launch/records.h"

namespace klab::shim {
namespace {

constexpr std::uint64_t kSymbolAllocations = 1ull << 60;  // ids of what no allocation call made
constexpr std::size_t kMaxArguments = 1u << 16;           // as a bundle holds them

// No call tells of the end of managed or registered memory that is simply unmapped.
bool still_there(const Range& r) {
  std::byte byte;
  return r.host == 0 || r.agent != 0 ||
         (read_own(r.host, &byte, 1) && read_own(r.host + r.size - 1, &byte, 1));
}

bool scope_all() { return link().config().scope == KLAB_SCOPE_ALL; }

}  // namespace

template <class F>
void Snapshot::each_argument_word(bool hidden, F&& use) const {
  for (std::size_t i = 0; i + 8 <= arguments_.size(); i += 8) {
    if (hidden_[i] != hidden) continue;
    std::uint64_t word;
    std::memcpy(&word, &arguments_[i], 8);
    use(word);
  }
}

Snapshot::Step Snapshot::before() {
  if (!read_arguments()) return Step::refused;
  ranges_ = tracker().ranges();
  collect_variables();
  confirm_arguments();
  set_aside_runtime_memory();
  set_aside_other_devices();
  region_of_.assign(ranges_.size(), kNoRegion);
  if (!ranges_.empty()) {
    low_ = ranges_.front().begin;
    high_ = ranges_.back().end();
  }
  each_argument_word(false, [&](std::uint64_t word) { reach(word, KLAB_REACHED_ARGUMENT); });
  if (scope_all())
    for (const Range& r : ranges_) {
      if (r.refusal != nullptr)
        note("memory at " + hex(r.begin), std::string("is left out: it is ") + r.refusal);
      else if (!still_there(r))
        note("memory at " + hex(r.begin), "is left out: the program has unmapped it");
      else
        reach(r.begin, KLAB_REACHED_SCOPE);
    }
  if (refusal_.empty()) refusal_ = copier_.open(queue_.agent, link().config().deadline_ns);
  if (!refusal_.empty()) return Step::refused;
  send_head();
  // Regions are found while others are sent; each is paid for before its data goes.
  std::size_t paid = 0;
  for (std::uint32_t i = 0; i < regions_.size(); ++i) {
    if (paid < regions_.size()) {
      paid = regions_.size();
      if (!ask_size(false)) return Step::stopped;
    }
    if (!announce(i) || !send(i, KLAB_DATA_PRE, true))
      return refusal_.empty() ? Step::stopped : Step::refused;
  }
  if (regions_.empty() && !ask_size(false)) return Step::stopped;
  if (count_only_) {
    ask_size(true);
    return Step::stopped;
  }
  return link().live() ? Step::go : Step::stopped;
}

Snapshot::Step Snapshot::after(double program_ns) {
  for (std::uint32_t i = 0; i < regions_.size(); ++i)
    if (!send(i, KLAB_DATA_POST, false)) return refusal_.empty() ? Step::stopped : Step::refused;
  klab_capture_end end{};
  end.program_ns = program_ns;
  link().send(&end, sizeof end, KLAB_CAPTURE_END);
  return Step::go;
}

// The kernarg segment, and which of its bytes the runtime filled in for itself.
bool Snapshot::read_arguments() {
  const std::size_t size = loaded_.kernarg_bytes;
  if (size > kMaxArguments) {
    refusal_ = "its arguments are " + std::to_string(size) + " bytes";
    return false;
  }
  arguments_.resize(size);
  hidden_.assign(size, false);
  if (size != 0 && packet_.kernarg_address == nullptr) {
    refusal_ = "its packet has no arguments";
    return false;
  }
  // The program has just written them; a driver's pages are not read by the kernel for us.
  if (size != 0) std::memcpy(arguments_.data(), packet_.kernarg_address, size);
  const auto kernel = AmdgpuCode(*loaded_.code).kernel(loaded_.mangled);
  if (!kernel) {
    note("arguments of " + loaded_.mangled.substr(0, 4096),
         "are taken as they are: its code object does not describe them");
    return true;
  }
  for (const AmdgpuArgument& a : kernel->arguments)
    if (a.hidden())
      for (std::size_t i = a.offset; i < std::size_t{a.offset} + a.size && i < size; ++i) hidden_[i] = true;
  return true;
}

// Variables of the kernel's executable are there at every launch: code refers to them without any argument.
void Snapshot::collect_variables() {
  std::set<std::string> fixed;  // what code cannot write comes with it, as it is
  std::size_t lost = 0;
  std::string names;
  for (AmdgpuVariable& v : AmdgpuCode(*loaded_.code).variables()) {
    if (!v.writable)
      fixed.insert(std::move(v.name));
    else if (v.local && ++lost <= 8)
      names += (names.empty() ? "" : ", ") + v.name;
  }
  if (lost != 0)
    note((lost == 1 ? "module variable " : std::to_string(lost) + " module variables: ") + names +
             (lost > 8 ? ", ..." : ""),
         "not captured: the loader gives no address of a variable that is local to its code");
  for (Global& g : globals_of(loaded_)) {
    if (fixed.count(g.name) != 0) continue;
    Region r;
    r.range.begin = g.address, r.range.size = g.size;
    r.range.memory = g.constant ? KLAB_MEMORY_CONSTANT : KLAB_MEMORY_MODULE_VARIABLE;
    r.range.agent = queue_.agent.handle;
    r.range.id = kSymbolAllocations + regions_.size();
    r.reached = KLAB_REACHED_SYMBOL;
    r.name = std::move(g.name);
    variables_.push_back(r.range);
    total_ += g.size;
    regions_.push_back(std::move(r));
  }
  std::sort(variables_.begin(), variables_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

// What was allocated before we listened, or by a call that is not known here: the runtime knows it by
// address.
void Snapshot::confirm_arguments() {
  std::vector<Range> more;
  each_argument_word(false, [&](std::uint64_t word) {
    if (word < 65536 || word >> 57 != 0 || find_range(ranges_, word) != nullptr ||
        find_range(variables_, word) != nullptr)
      return;
    Range r;
    if (!ask_runtime(word, r)) return;
    for (const Range& m : more)
      if (m.begin == r.begin) return;
    for (const Range& known : ranges_)
      if (known.begin < r.end() && r.begin < known.end()) return;
    r.id = kSymbolAllocations / 2 + more.size();
    more.push_back(r);
  });
  if (more.empty()) return;
  ranges_.insert(ranges_.end(), more.begin(), more.end());
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

// What hidden arguments lead to is this process's own (printf, hostcall, device heap), as is the memory that
// the arguments lie in: a replay has its own of each, and another thread may write these at any time.
void Snapshot::set_aside_runtime_memory() {
  std::vector<std::uint64_t> own{reinterpret_cast<std::uintptr_t>(packet_.kernarg_address)};
  each_argument_word(true, [&](std::uint64_t word) { own.push_back(word); });
  for (const std::uint64_t address : own) {
    const Range* r = find_range(ranges_, address);
    bool given = false;  // the program itself gave it to the kernel
    each_argument_word(false, [&](std::uint64_t word) {
      given = given || (r != nullptr && word >= r->begin && word < r->end());
    });
    if (r != nullptr && !given) ranges_.erase(ranges_.begin() + (r - ranges_.data()));
  }
}

// Another GPU's memory is nothing that the kernel can touch, unless its own GPU was given access.
void Snapshot::set_aside_other_devices() {
  std::erase_if(ranges_, [&](const Range& r) {
    const hsa_agent_t owner{r.agent};
    return r.agent != 0 && r.agent != queue_.agent.handle && is_gpu(owner) && !reaches(queue_.agent, r.begin);
  });
}

void Snapshot::reach(std::uint64_t address, std::uint32_t how) {
  const Range* range = find_range(ranges_, address);
  if (range == nullptr) return;
  std::uint32_t& region = region_of_[static_cast<std::size_t>(range - ranges_.data())];
  if (region != kNoRegion) return;
  if (range->refusal != nullptr) {
    if (refusal_.empty()) refusal_ = "it reaches " + std::string(range->refusal) + " at " + hex(range->begin);
    return;
  }
  region = static_cast<std::uint32_t>(regions_.size());
  total_ += range->size;
  regions_.push_back({*range, how, {}});
}

void Snapshot::send_head() {
  const std::uint32_t device = announce_agent(queue_.agent);
  const std::uint32_t threads[3] = {packet_.grid_size_x, packet_.grid_size_y, packet_.grid_size_z};
  const std::uint32_t block[3] = {packet_.workgroup_size_x, packet_.workgroup_size_y,
                                  packet_.workgroup_size_z};
  klab_capture_begin begin{};
  begin.device = device;
  begin.kernel = loaded_.kernel->id;
  begin.call = KLAB_CALL_HSA_DISPATCH;
  begin.queue = queue_.number;
  begin.nth = nth_;
  begin.sequence = sequence_;
  for (int i = 0; i < 3; ++i) begin.grid[i] = blocks_of(threads[i], block[i]);
  link().send(&begin, sizeof begin, KLAB_CAPTURE_BEGIN);
  klab_launch launch{};
  std::copy(block, block + 3, launch.block);
  if (packet_.group_segment_size > loaded_.group_bytes)
    launch.dynamic_shared_bytes = packet_.group_segment_size - loaded_.group_bytes;
  launch.argument_bytes = static_cast<std::uint32_t>(arguments_.size());
  link().send(&launch, sizeof launch, KLAB_LAUNCH,
              {std::string_view(reinterpret_cast<const char*>(arguments_.data()), arguments_.size())});
  klab_aql aql{};
  std::copy(threads, threads + 3, aql.threads);
  aql.group_segment_bytes = packet_.group_segment_size;
  aql.private_segment_bytes = packet_.private_segment_size;
  aql.header = packet_.header;
  aql.cooperative = queue_.cooperative ? 1 : 0;
  link().send(&aql, sizeof aql, KLAB_AQL);
}

bool Snapshot::ask_size(bool final) {
  const std::uint32_t answer = shim::ask_size(total_, final);
  if (answer == KLAB_COUNT_ONLY) count_only_ = true;
  return answer == KLAB_GO || answer == KLAB_COUNT_ONLY;
}

bool Snapshot::announce(std::uint32_t index) {
  if (count_only_) return true;
  const Region& r = regions_[index];
  klab_region record{};
  record.region = index;
  record.reached_by = r.reached;
  record.address = r.range.begin;
  record.bytes = r.range.size;
  record.allocation = r.range.id;
  record.memory = r.range.memory;
  record.memory_flags = r.range.flags;
  return send_region(record, r.name);
}

bool Snapshot::send(std::uint32_t index, std::uint32_t kind, bool first) {
  const Region r = regions_[index];  // a copy: reaching more regions moves the vector
  Copier::Scan see;
  if (first && !scope_all() && !ranges_.empty())
    see = [&](const std::byte* bytes, std::size_t size) {
      scan_words(bytes, size, low_, high_ - low_,
                 [&](std::uint64_t word) { reach(word, KLAB_REACHED_POINTER); });
    };
  return copier_.send(kind, index, r.range, count_only_, see, refusal_) && refusal_.empty();
}

}  // namespace klab::shim

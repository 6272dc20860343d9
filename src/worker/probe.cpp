// SPDX-License-Identifier: Apache-2.0
// The worker's side of probing: starts the process, hands out tasks, survives its death, reads its masks.
#include "worker/probe.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/subprocess.h"

namespace klab::worker {
namespace {

constexpr double kTaskSeconds = 60;  // one task: two launches and what goes with them
constexpr std::uint64_t kMaxRecords = 8ull << 30;

struct Socket {
  Child child;
  Fd ours;
};

Result<Socket> start(int masks_fd) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return fail_errno(errno, "socketpair");
  Fd ours(ends[0]), theirs(ends[1]);
  SpawnOptions spawn{
      .argv = {"/proc/self/exe", "--probe"},
      .environment = {{"KLAB_WORKER_ATTEMPT", std::nullopt}, {"KLAB_WORKER_PENDING", std::nullopt}},
      .extra_fds = {{replay::kWorkerFd, theirs.get()}},
      .die_with_parent = true};
  if (masks_fd >= 0) spawn.extra_fds[kProbeFd] = masks_fd;
  KLAB_TRY(auto child, Child::spawn(spawn));
  return Socket{std::move(child), std::move(ours)};
}

/// Runs tasks 0..count-1; `done(task, message)` for each that ended well, `lost(task, why)` for each that did
/// not.
template <class Done, class Lost>
Status run_tasks(Json message, std::size_t count, int masks_fd, const Deadline& deadline, Done done,
                 Lost lost) {
  std::size_t next = 0;
  while (next < count) {
    KLAB_TRY_VOID(deadline.check("probing what the kernel writes"));
    message["from"] = next;
    KLAB_TRY(auto peer, start(masks_fd));
    KLAB_TRY_VOID(replay::send_message(peer.ours.get(), message));
    const std::size_t first = next;
    while (next < count) {
      const double limit = std::min(deadline.left_s(), kTaskSeconds);
      auto answer = replay::receive_message(peer.ours.get(), static_cast<int>(std::max(limit, 0.001) * 1000));
      if (!answer) {
        peer.child.kill(SIGKILL);
        const bool late = answer.error().code == ErrorCode::timeout;
        lost(next, late ? "it did not end in time" : "it crashed");
        ++next;
        break;
      }
      std::string error;
      std::size_t task = count;
      try {
        read_optional(*answer, "error", error);
        read_optional(*answer, "task", task);
      } catch (const std::exception& e) {
        return fail(ErrorCode::worker_lost, std::string("the probe: ") + e.what());
      }
      if (task != next) {  // it could not even load
        if (next == first) return fail(ErrorCode::environment, "the probe process: " + error);
        break;
      }
      if (error.empty()) {
        done(task, *answer);
      } else {
        lost(task, error);
      }
      ++next;
      if (answer->value("leaving", false)) break;  // its device is gone
    }
  }
  return {};
}

Json message_for(const replay::Request& request, const char* what) {
  Json request_json = request;
  return Json{{"probe", what}, {"request", std::move(request_json)}};
}

/// Reads records that run_probe wrote: {chunk, size}, then three masks.
Status read_masks(int fd, std::map<ChunkId, ProbedChunk>& out) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return fail_errno(errno, "fstat");
  const auto size = static_cast<std::uint64_t>(st.st_size);
  if (size > kMaxRecords) return fail(ErrorCode::cap_reached, "the probe's masks are too large");
  std::uint64_t at = 0;
  auto take = [&](void* to, std::uint64_t n) {
    if (n > size - at) return false;
    if (::pread(fd, to, n, static_cast<off_t>(at)) != static_cast<ssize_t>(n)) return false;
    at += n;
    return true;
  };
  while (at < size) {
    std::uint32_t head[2];
    // A record that the process died in is not there.
    if (!take(head, sizeof head) || head[1] == 0 || head[1] > bundle::kChunkSize) return {};
    ProbedChunk p{validate::Mask(head[1]), {validate::Mask(head[1]), validate::Mask(head[1])}};
    for (validate::Mask* m : {&p.covered, &p.bytes.written, &p.bytes.write_only})
      if (!take(m->words().data(), m->words().size_bytes())) return {};
    auto [it, fresh] = out.try_emplace(head[0], p);
    if (fresh) continue;
    // Two bindings over one range: dependent wins, so a byte is write-only only if each run that judged it
    // says so.
    auto& old = it->second;
    for (auto [a, b] : {std::pair{&old, &p}, std::pair{&p, &old}}) {
      validate::Mask conflict = b->bytes.written;
      conflict.remove(b->bytes.write_only);
      a->bytes.write_only.remove(conflict);
    }
    old.covered.merge(p.covered);
    old.bytes.written.merge(p.bytes.written);
    old.bytes.write_only.merge(p.bytes.write_only);
  }
  return {};
}

}  // namespace

std::vector<PoisonUnit> poison_units(const bundle::Dispatch& dispatch) {
  std::vector<PoisonUnit> units;
  std::vector<bool> bound(dispatch.regions.size());
  for (const auto& b : dispatch.bindings) {
    bound[b.region] = true;
    if (b.kind != bundle::BindingKind::storage_buffer &&
        b.kind != bundle::BindingKind::storage_buffer_dynamic)
      continue;
    const std::uint64_t room =
        dispatch.regions[b.region].size - std::min(b.offset, dispatch.regions[b.region].size);
    const PoisonUnit unit{b.region, b.offset, std::min(b.range, room)};
    const bool known = std::any_of(units.begin(), units.end(), [&](const PoisonUnit& u) {
      return u.region == unit.region && u.offset == unit.offset && u.size == unit.size;
    });
    if (unit.size != 0 && !known) units.push_back(unit);
  }
  std::vector<bool> writable(dispatch.regions.size(), true);
  for (const auto& r : dispatch.regions)
    if (r.kind == bundle::MemoryKind::constant || r.kind == bundle::MemoryKind::image) writable[r.id] = false;
  for (const auto& t : dispatch.textures)
    if (t.surface) writable[t.region] = true;
  for (const auto& r : dispatch.regions)
    if (!bound[r.id] && writable[r.id] && r.size != 0) units.push_back({r.id, 0, r.size});
  return units;
}

Result<Probed> probe_poison(const replay::Request& request, const Deadline& deadline) {
  KLAB_TRY(const auto reader, bundle::Reader::open(request.bundle));
  if (request.dispatch >= reader.manifest().dispatches.size())
    return fail(ErrorCode::usage, "no such dispatch");
  const auto& dispatch = reader.manifest().dispatches[request.dispatch];
  const auto units = poison_units(dispatch);
  Fd masks(::memfd_create("klab-masks", MFD_CLOEXEC));
  if (!masks) return fail_errno(errno, "memfd_create");
  Probed probed;
  std::map<std::string, std::string> dropped;  // why -> regions
  KLAB_TRY_VOID(run_tasks(
      message_for(request, "poison"), units.size(), masks.get(), deadline, [](std::size_t, const Json&) {},
      [&](std::size_t task, const std::string& why) {
        const auto& r = dispatch.regions[units[task].region];
        auto& names = dropped[why];
        names +=
            fmt::format("{}{}{}", names.empty() ? "" : ", ", r.id, r.name.empty() ? "" : " (" + r.name + ")");
      }));
  for (const auto& [why, names] : dropped)
    probed.notes.push_back(
        fmt::format("not poisoned: region {}; the kernel ran on a poisoned copy and {}", names, why));
  KLAB_TRY_VOID(read_masks(masks.get(), probed.chunks));
  return probed;
}

Result<std::vector<bool>> probe_mutations(const replay::Request& request,
                                          const std::vector<validate::Mutation>& mutations, bool varies,
                                          const Deadline& deadline) {
  std::vector<bool> survived(mutations.size(), false);
  Json message = message_for(request, "mutate");
  message["mutations"] = mutations;
  message["varies"] = varies;
  KLAB_TRY_VOID(run_tasks(
      std::move(message), mutations.size(), -1, deadline,
      [&](std::size_t task, const Json&) { survived[task] = true; }, [](std::size_t, const std::string&) {}));
  return survived;
}

Result<std::vector<std::string>> probe_capture(const replay::Request& request, std::uint32_t dispatch,
                                               const Deadline& deadline) {
  std::vector<std::string> results(request.variants.size());
  replay::Request other = request;
  other.dispatch = dispatch;
  std::string lost;
  Json message = message_for(other, "capture");
  KLAB_TRY_VOID(run_tasks(
      std::move(message), results.size(), -1, deadline,
      [&](std::size_t task, const Json& answer) {
        try {
          read_optional(answer, "result", results[task]);
        } catch (const std::exception& e) {
          results[task] = e.what();
        }
      },
      [&](std::size_t task, const std::string& why) { results[task] = "it does not run there: " + why; }));
  return results;
}

}  // namespace klab::worker

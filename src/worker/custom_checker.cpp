// SPDX-License-Identifier: Apache-2.0
#include "worker/custom_checker.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/subprocess.h"
#include "worker/confine.h"

namespace klab::worker {
namespace {

constexpr std::uint64_t kMostBytes = 4ull << 30;  // of all regions together
constexpr std::size_t kMostText = 1024, kMostOutput = 1 << 20;
constexpr int kDescription = 3;  // descriptor of the question; region files follow

Result<Fd> memory_file(std::uint64_t size) {
  Fd fd(::memfd_create("klab-checker", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno(errno, "memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return fail_errno(errno, "ftruncate");
  return fd;
}
Status put(const Fd& fd, std::uint64_t offset, std::span<const std::byte> bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::pwrite(fd.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n <= 0) return fail_errno(errno, "writing for the checker");
    done += static_cast<std::size_t>(n);
  }
  return {};
}
Status seal(const Fd& fd) {
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return fail_errno(errno, "sealing what the checker reads");
  return {};
}

std::string cut(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  if (text.size() > kMostText) text.replace(kMostText, std::string::npos, "...");
  return text;
}

}  // namespace

Result<CustomChecker> CustomChecker::create(Loaded& loaded, std::vector<std::string> command, double limit_s,
                                            const validate::Layout& layout, const ChunkList& chunks,
                                            const Image& expected, std::string input,
                                            const std::map<ChunkId, validate::ByteBuffer>& other_inputs) {
  KLAB_TRY_VOID(can_confine());
  if (command.empty()) return fail(ErrorCode::usage, "no checker was given", "--checker PROGRAM");
  if (loaded.captured_bytes() > kMostBytes)
    return fail(ErrorCode::cap_reached,
                fmt::format("the capture has {} bytes; a checker is handed 4 GiB at most", loaded.captured_bytes()));
  CustomChecker c;
  c.command_ = std::move(command);
  c.limit_s_ = limit_s;
  c.chunks_ = chunks;
  c.expected_ = expected;
  Json regions = Json::array();
  int number = kDescription + 1;
  const auto& dispatch = loaded.dispatch();
  for (const auto& r : dispatch.regions) {
    Region region{.id = r.id};
    KLAB_TRY(region.input, memory_file(r.size));
    for (const ChunkId id : loaded.chunks_of(r.id)) {
      const auto other = other_inputs.find(id);
      if (other != other_inputs.end()) {
        KLAB_TRY_VOID(put(region.input, loaded.chunk(id).offset, other->second));
      } else {
        KLAB_TRY(const auto bytes, loaded.pre(id));
        KLAB_TRY_VOID(put(region.input, loaded.chunk(id).offset, bytes));
      }
      region.written = region.written || contains(chunks, id);
    }
    Json one{{"id", r.id}, {"name", r.name}, {"size", r.size}, {"written", region.written}, {"input_fd", number++}};
    if (const auto* range = layout.range_at(r.id, 0)) {
      one["type"] = range->fields.size() == 1 ? Json(to_string(range->fields[0].type)) : Json(validate::describe(*range));
      one["offset"] = range->offset, one["bytes"] = range->size;
      if (!range->shape.empty()) one["shape"] = range->shape;
    }
    if (region.written) {
      KLAB_TRY(region.expected, memory_file(r.size));
      for (const ChunkId id : loaded.chunks_of(r.id)) {
        const auto at = std::lower_bound(chunks.begin(), chunks.end(), id);
        if (at != chunks.end() && *at == id) {
          KLAB_TRY_VOID(put(region.expected, loaded.chunk(id).offset,
                            expected[static_cast<std::size_t>(at - chunks.begin())]));
        } else {
          KLAB_TRY(const auto bytes, loaded.pre(id));
          KLAB_TRY_VOID(put(region.expected, loaded.chunk(id).offset, bytes));
        }
      }
      KLAB_TRY_VOID(seal(region.expected));
      one["expected_fd"] = number++, one["actual_fd"] = number++;
    }
    KLAB_TRY_VOID(seal(region.input));
    regions.push_back(std::move(one));
    c.regions_.push_back(std::move(region));
  }
  c.description_ = {{"klab_checker", 1},      {"kernel", dispatch.name}, {"grid", dispatch.grid},
                    {"block", dispatch.block}, {"input", std::move(input)}, {"regions", std::move(regions)}};
  return c;
}

Result<CustomChecker::Opinion> CustomChecker::ask(Loaded& loaded, const Image& actual) const {
  KLAB_TRY(const Fd question, memory_file(0));
  const std::string text = description_.dump();
  KLAB_TRY_VOID(put(question, 0, std::as_bytes(std::span(text))));
  KLAB_TRY_VOID(seal(question));
  SpawnOptions spawn{.environment = {{"KLAB_CHECKER", "1"}, {"KLAB_HOME", std::nullopt}}, .die_with_parent = true};
  int number = kDescription;
  spawn.extra_fds[number++] = question.get();
  std::vector<Fd> outcomes;
  for (const Region& r : regions_) {
    spawn.extra_fds[number++] = r.input.get();
    if (!r.written) continue;
    KLAB_TRY(Fd file, memory_file(loaded.region_size(r.id)));
    for (const ChunkId id : loaded.chunks_of(r.id)) {
      const auto at = std::lower_bound(chunks_.begin(), chunks_.end(), id);
      if (at != chunks_.end() && *at == id) {
        KLAB_TRY_VOID(put(file, loaded.chunk(id).offset, actual[static_cast<std::size_t>(at - chunks_.begin())]));
      } else {
        KLAB_TRY(const auto bytes, loaded.pre(id));
        KLAB_TRY_VOID(put(file, loaded.chunk(id).offset, bytes));
      }
    }
    KLAB_TRY_VOID(seal(file));
    spawn.extra_fds[number++] = r.expected.get();
    spawn.extra_fds[number++] = file.get();
    outcomes.push_back(std::move(file));
  }
  spawn.argv = confined(command_, number - kDescription);
  KLAB_TRY(const auto done, run_program(spawn, {}, std::chrono::milliseconds(static_cast<long>(limit_s_ * 1000)), kMostOutput));
  const std::string said = cut(done.err);
  if (done.timed_out)
    return fail(ErrorCode::timeout, fmt::format("the checker {} did not answer within {:g} s", command_[0], limit_s_),
                "--checker-limit gives it longer");
  if (!done.status.ok())
    return fail(ErrorCode::invalid_data, fmt::format("the checker {} {}{}{}", command_[0], to_string(done.status),
                                                     said.empty() ? "" : ": ", said));
  const auto answer = parse_json(done.out, "the checker's answer", kMostOutput);
  std::string verdict, reason;
  try {
    if (!answer) throw std::runtime_error(answer.error().what);
    read_required(*answer, "verdict", verdict);
    read_optional(*answer, "reason", reason);
  } catch (const std::exception& e) {
    return fail(ErrorCode::invalid_data, fmt::format("the checker {} gave no verdict: {}", command_[0], cut(e.what())),
                R"(it prints one JSON object: {"verdict": "correct"} or {"verdict": "incorrect", "reason": "..."})");
  }
  if (verdict != "correct" && verdict != "incorrect")
    return fail(ErrorCode::invalid_data, fmt::format("the checker {} answered \"{}\"", command_[0], cut(verdict)),
                R"("correct" or "incorrect")");
  return Opinion{verdict == "correct", cut(reason)};
}

}  // namespace klab::worker

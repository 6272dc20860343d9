// SPDX-License-Identifier: Apache-2.0
// For tests: the real klab-worker on a socketpair, and small bundles to give it.
#pragma once
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/ids.h"
#include "base/subprocess.h"
#include "bundle/writer.h"
#include "replay/protocol.h"

namespace klab::worker::testing {

struct TempFolder {
  fs::path path = fs::temp_directory_path() / ("klab-worker-" + new_id());
  TempFolder() { fs::create_directories(path); }
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto b = std::as_bytes(std::span(text.data(), text.size()));
  return {b.begin(), b.end()};
}

struct TestRegion {
  std::string name;
  std::vector<std::byte> pre, post;
  std::uint64_t address = 0;
  bool bound = true;
  bundle::MemoryKind kind = bundle::MemoryKind::device;
  bool own_symbol = true;  // of the captured code object
};

struct TestBundle {
  std::vector<TestRegion> regions;  // bound in order at set 0, binding 0...
  std::vector<std::byte> code, push, arguments;
  std::vector<bundle::LaunchAttribute> attributes;
  std::string entry_point = "main";
  bundle::Dim3 grid{1, 1, 1};
  bundle::DeviceIdentity device{.api = "fake",
                                .name = "Fake full",
                                .driver = "fake",
                                .driver_version = "1",
                                .uuid = "fa6e0000000000000000000000000001"};
  std::string kind = "fake";
  bundle::Proof proof;

  Status write(const fs::path& path) const {
    KLAB_TRY(auto w, bundle::Writer::create(path, {.replace = true}));
    bundle::Manifest m;
    m.device = device;
    m.program = {{"./test"}, "/", "/test", 1};
    bundle::Dispatch d;
    d.name = "test";
    d.entry_point = entry_point;
    d.grid = grid;
    d.block = {64, 1, 1};
    d.call = "vkCmdDispatch";
    std::uint32_t binding = 0;
    for (const TestRegion& t : regions) {
      bundle::Region r;
      r.id = static_cast<std::uint32_t>(d.regions.size());
      r.name = t.name;
      r.address = t.address;
      r.size = t.pre.size();
      r.allocation = r.id + 1;
      r.kind = t.kind;
      const bool symbol =
          t.kind == bundle::MemoryKind::module_variable || t.kind == bundle::MemoryKind::constant;
      r.reached_by = t.bound                  ? bundle::ReachedBy::binding
                     : symbol && t.own_symbol ? bundle::ReachedBy::symbol
                                              : bundle::ReachedBy::pointer;
      for (auto [list, bytes] : {std::pair{&r.pre, &t.pre}, std::pair{&r.post, &t.post}}) {
        KLAB_TRY(*list, w.add_list(bytes->size()));
        for (std::size_t at = 0; at < bytes->size(); at += bundle::kChunkSize)
          KLAB_TRY_VOID(w.put(
              *list, at / bundle::kChunkSize,
              std::span(*bytes).subspan(at, std::min<std::size_t>(bundle::kChunkSize, bytes->size() - at))));
      }
      d.regions.push_back(r);
      if (t.bound) {
        d.layout.push_back({0, binding, 7, 1, false});
        d.bindings.push_back({0, binding++, 0, bundle::BindingKind::storage_buffer, r.id, 0, r.size});
      }
    }
    if (!push.empty()) d.push_ranges.push_back({0, static_cast<std::uint32_t>(push.size())});
    d.push_constants = Bytes(push);
    d.arguments = Bytes(arguments);
    d.attributes = attributes;
    d.proof = proof;
    KLAB_TRY(d.code, w.add_code(kind, kind == "spirv" ? "spv" : "txt", code));
    m.dispatches.push_back(d);
    KLAB_TRY_VOID(w.seal(std::move(m)));
    return {};
  }
};

/// A worker of its own for each object. Ended with it.
class TestWorker {
 public:
  using Environment = std::map<std::string, std::optional<std::string>>;
  explicit TestWorker(Environment environment = {}) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    ours_ = Fd(ends[0]);
    Fd theirs(ends[1]);
    auto child = Child::spawn({.argv = {KLAB_BUILD_DIR "/klab-worker"},
                               .environment = std::move(environment),
                               .extra_fds = {{replay::kWorkerFd, theirs.get()}},
                               .die_with_parent = true});
    if (!child) std::abort();
    child_.emplace(std::move(*child));
  }
  Result<replay::Answer> ask(const replay::Request& request, int timeout_ms = 60000) {
    KLAB_TRY_VOID(replay::send_message(ours_.get(), request));
    for (;;) {
      KLAB_TRY(const auto message, replay::receive_message(ours_.get(), timeout_ms));
      if (message.contains("progress")) continue;
      return decode_json<replay::Answer>(message, "answer");
    }
  }
  Child& child() { return *child_; }
  void hang_up() { ours_ = Fd(); }

 private:
  Fd ours_;
  std::optional<Child> child_;
};

}  // namespace klab::worker::testing
